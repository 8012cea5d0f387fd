"""SCRAM on the broker's side: the RFC's example, our own client, clients that break the rules, and unknown users."""

from __future__ import annotations

import base64
import hmac
from functools import partial

import pytest
from users import PASSWORDS, Users

from ottla.client.kafka.sasl.scram import ScramConversation
from ottla_core.errors import ErrorCode
from ottla_core.security.candidates import Candidates
from ottla_core.security.exchange import LoginRejectedError
from ottla_core.security.scram import MECHANISMS, Mechanism, ScramCredential
from ottla_core.security.scram_exchange import ScramExchange

SECRET = b"secret of this process"
USERS = Users()
CLIENT_NONCE, NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
ODD = Users({"a=b,c": "pencil", "münchen": "kindl", "x": "y" * 1000})


def exchange(mechanism: Mechanism = "SCRAM-SHA-256", users: Users = USERS) -> ScramExchange:
    return ScramExchange(mechanism, Candidates(users, lambda: SECRET), NONCE)


def client(user: str = "alice", password: str = "", mechanism: Mechanism = "SCRAM-SHA-256") -> ScramConversation:
    return ScramConversation(mechanism, user, password or PASSWORDS[user], CLIENT_NONCE)


def final_of(broker: ScramExchange, user: str = "alice", password: str = "") -> bytes:
    """Let a client of ours begin, and return its last message."""
    conversation = client(user, password)
    final = conversation.answer(broker.respond(conversation.first()))
    assert final is not None
    return final


def rejected(broker: ScramExchange, message: bytes) -> LoginRejectedError:
    with pytest.raises(LoginRejectedError) as caught:
        broker.respond(message)
    assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert broker.user is None
    with pytest.raises(LoginRejectedError, match="the exchange is over"):
        broker.respond(message)
    return caught.value


def test_the_example_of_rfc_7677() -> None:
    users = Users({}, ())
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users.credentials["user", "SCRAM-SHA-256"] = ScramCredential.of_password("SCRAM-SHA-256", "pencil", salt=salt)
    broker = exchange(users=users)
    assert broker.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert broker.user is None
    assert broker.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ) == (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert broker.user == "user"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("users", [USERS, Users(iterations=16_384)])
def test_our_client_logs_in_and_believes_the_broker(mechanism: Mechanism, users: Users) -> None:
    broker, conversation = exchange(mechanism, users), client("bob", mechanism=mechanism)
    final = conversation.answer(broker.respond(conversation.first()))
    assert final is not None
    assert conversation.answer(broker.respond(final)) is None
    assert broker.user == "bob"


@pytest.mark.parametrize(("user", "password"), [("a=b,c", "pencil"), ("münchen", "kindl"), ("x", "y" * 1000)])
def test_users_with_odd_names_and_long_passwords(user: str, password: str) -> None:
    broker, conversation = exchange(users=ODD), client(user, password)
    final = conversation.answer(broker.respond(conversation.first()))
    assert final is not None
    broker.respond(final)
    assert broker.user == user


@pytest.mark.parametrize(
    "first",
    [
        b"y,,n=alice,r=abc",
        b"n,a=alice,n=alice,r=abc",
        b"n,,n=alice,r=abc,ext=1,more=a=b",
        b"n,,n=alice,r=abc,tokenauth=false",
    ],
)
def test_what_a_client_may_say_first(first: bytes) -> None:
    """The header comes back in the last message, and all of the rest is signed."""
    header = first[: first.index(b"n=")]
    broker = exchange()
    challenge = broker.respond(first)
    credential = USERS.credentials["alice", "SCRAM-SHA-256"]
    unproved = b"c=%s,r=abc%s,x=1" % (base64.b64encode(header), NONCE.encode())
    proof = _proof(credential, b",".join((first.removeprefix(header), challenge, unproved)))
    assert broker.respond(unproved + b",p=" + proof).startswith(b"v=")
    assert broker.user == "alice"


@pytest.mark.story("old-librdkafka-can-not-log-in")
def test_a_client_may_put_its_nonce_in_front_of_both_once_more() -> None:
    """librdkafka does before 2.6.1, and signs it so."""
    broker = exchange()
    challenge = broker.respond(b"n,,n=alice,r=abc")
    unproved = b"c=biws,r=abcabc%s" % NONCE.encode()
    proof = _proof(USERS.credentials["alice", "SCRAM-SHA-256"], b",".join((b"n=alice,r=abc", challenge, unproved)))
    assert broker.respond(unproved + b",p=" + proof).startswith(b"v=")
    assert broker.user == "alice"


def _proof(credential: ScramCredential, messages: bytes) -> bytes:
    client_key = hmac.digest(credential.salted(PASSWORDS["alice"].encode()), b"Client Key", "sha256")
    mask = hmac.digest(credential.stored_key, messages, "sha256")
    return base64.b64encode(bytes(a ^ b for a, b in zip(client_key, mask, strict=True)))


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"", "does not begin with n or y"),
        (b"p=tls-unique,,n=alice,r=abc", "asks for channel binding"),
        (b"n", "lacks the user name"),
        (b"n,,", "lacks the user name"),
        (b"n,,n=alice", "lacks the user name or the nonce"),
        (b"n,,m=ext,n=alice,r=abc", "lacks the user name"),
        (b"n,,r=abc,n=alice", "lacks the user name"),
        (b"n,,n=alice,r=", "its nonce is empty"),
        (b"n,,n=alice,r=a\x07", "not printable"),
        (b"n,,n=alice,r=\xc3\xa9", "not printable"),
        (b"n,,n=,r=abc", "a user name is empty"),
        (b"n,,n=a=b,r=abc", "not escaped"),
        (b"n,,n=a=2c,r=abc", "not escaped"),
        (b"n,,n=a\0b,r=abc", "not escaped"),
        (b"n,,n=\xff\xfe,r=abc", "not UTF-8"),
        (b"n,a=\xff,n=alice,r=abc", "not UTF-8"),
        (b"n,a=bob,n=alice,r=abc", "act for another user"),
        (b"n,alice,n=alice,r=abc", "act for another user"),
        (b"n,,n=alice,r=abc,", "an extension is malformed"),
        (b"n,,n=alice,r=abc,1=2", "an extension is malformed"),
        (b"n,,n=alice,r=abc,tokenauth=true", "delegation token"),
        (b"n,,n=alice,r=abc,tokenAuth=TRUE", "delegation token"),
        (b"n,,n=alice,r=" + b"a" * 5000, "more than 4096 bytes"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "does not begin with n or y"),
    ],
)
def test_a_first_message_that_breaks_the_rules(first: bytes, words: str) -> None:
    assert words in rejected(exchange(), first).message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((b"c=biws", b"c=eSws"), "another header than its first"),
        ((b"c=biws", b"c=b!ws"), "not base64"),
        ((b"c=biws,", b""), "lacks the channel binding"),
        ((b"r=rOpr", b"r=s0pr"), "another nonce"),
        ((NONCE.encode(), b""), "another nonce"),
        ((NONCE.encode(), NONCE.encode() + b"x"), "another nonce"),
        ((b"r=rOpr", b"r=xrOpr"), "another nonce"),
        ((b",p=", b",q="), "lacks the channel binding, the nonce or the proof"),
        ((b",p=", b",p=AAAA,p="), ""),
        ((b",p=", b",1=2,p="), "an extension is malformed"),
        ((b",p=", b",p=!"), "not base64"),
        ((b",p=", b",x=a change that nobody signed,p="), "the user name or the password is wrong"),
    ],
)
def test_a_last_message_that_breaks_the_rules(change: tuple[bytes, bytes], words: str) -> None:
    broker = exchange()
    assert words in rejected(broker, final_of(broker).replace(*change, 1)).message


@pytest.mark.parametrize("proof", [b"", b"AAAA", base64.b64encode(bytes(31)), base64.b64encode(bytes(64))])
def test_a_proof_of_another_size(proof: bytes) -> None:
    broker = exchange()
    unproved = final_of(broker).rpartition(b",p=")[0]
    assert "a proof of SCRAM-SHA-256 has another size" in rejected(broker, unproved + b",p=" + proof).message


def test_a_proof_has_one_spelling() -> None:
    """The last letter of 32 bytes in base64 has two bits that say nothing."""
    broker = exchange()
    final = final_of(broker)
    other = bytes([final[-2] + 1]) if final[-2:-1] not in b"Zz9" else b"!"
    assert "not base64" in rejected(broker, final[:-2] + other + b"=").message


@pytest.mark.parametrize("nonce", ["fresh%", NONCE[:-1]])
def test_a_last_message_can_not_be_sent_again_to_another_exchange(nonce: str) -> None:
    """The broker's nonce is new each time."""
    broker, replayed = exchange(), final_of(exchange())
    another = ScramExchange("SCRAM-SHA-256", Candidates(USERS, lambda: SECRET), nonce)
    another.respond(client().first())
    assert "another nonce" in rejected(another, replayed).message
    broker.respond(client().first())
    broker.respond(replayed)  # only this one, whose nonce happens to be the same, takes it


def test_a_wrong_password_and_an_unknown_user_are_told_apart_by_the_operator_alone() -> None:
    known, unknown = exchange(), exchange()
    wrong = rejected(known, final_of(known, "alice", "not-hers"))
    nobody = rejected(unknown, final_of(unknown, "mallory", "not-hers"))
    assert (wrong.code, wrong.message, wrong.hint) == (nobody.code, nobody.message, nobody.hint)
    assert wrong.cause == "the password of user 'alice' is wrong"
    assert nobody.cause == "there is no user of that name with a credential for SCRAM-SHA-256"
    assert "not-hers" not in f"{wrong} {nobody} {wrong.cause} {nobody.cause}"


def test_an_unknown_user_is_challenged_as_a_known_one_and_always_in_the_same_way() -> None:
    def challenge(user: str, secret: bytes = SECRET, mechanism: Mechanism = "SCRAM-SHA-256") -> list[bytes]:
        broker = ScramExchange(mechanism, Candidates(USERS, partial(bytes, secret)), NONCE)
        return broker.respond(b"n,,n=%s,r=abc" % user.encode()).split(b",")

    known, unknown = challenge("alice"), challenge("mallory")
    assert (known[0], known[2], len(known[1])) == (unknown[0], unknown[2], len(unknown[1]))
    assert challenge("mallory") == unknown
    others = (challenge("eve"), challenge("mallory", b"another secret"))
    assert len({each[1] for each in (unknown, *others)}) == 3
    assert challenge("mallory", mechanism="SCRAM-SHA-512")[1] != unknown[1]


def test_a_false_credential_is_not_believed_whatever_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScramCredential, "is_proved", lambda *_: True)
    broker = exchange()
    assert rejected(broker, final_of(broker, "mallory", "x")).cause.startswith("there is no user of that name")


def test_an_unknown_user_costs_what_a_known_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same digests are computed, of messages of the same sizes."""
    digest, computed = hmac.digest, list[tuple[int, int, str]]()

    def counted(key: bytes, message: bytes, name: str) -> bytes:
        computed.append((len(key), len(message), name))
        return digest(key, message, name)

    monkeypatch.setattr(hmac, "digest", counted)
    costs = []
    for user in (b"alice", b"mallo"):
        computed.clear()
        broker = exchange()
        broker.respond(b"n,,n=%s,r=abc" % user)
        rejected(broker, b"c=biws,r=abc%s,p=%s" % (NONCE.encode(), base64.b64encode(bytes(32))))
        costs.append(computed.copy())
    assert costs[0] == costs[1] != []


def test_names_in_causes_are_short_and_in_one_line_and_those_of_users() -> None:
    """What is in the place of a name may be a password."""
    name = "a\nb" * 300
    causes = [
        rejected(broker, final_of(broker, name, "x")).cause
        for broker in (exchange(), exchange(users=Users({name: "pencil"}, ["SCRAM-SHA-256"])))
    ]
    assert causes[0] == "there is no user of that name with a credential for SCRAM-SHA-256"
    assert "\n" not in causes[1]
    assert len(causes[1]) < 250
