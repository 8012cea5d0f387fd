"""The mechanisms of SASL: the examples of the RFCs, and brokers that break the rules."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Literal

import pytest

from ottla.client.kafka.sasl.oauthbearer import OAuthBearerConversation
from ottla.client.kafka.sasl.plain import PlainConversation
from ottla.client.kafka.sasl.scram import LEAST_ITERATIONS, MOST_ITERATIONS, ScramConversation
from ottla.errors import ConfigError, ErrorCode, OttlaError

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = b"W22ZaJ0SNY7soEsUEjb6gQ=="

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


def conversation(mechanism: Mechanism = "SCRAM-SHA-256", username: str = "user") -> ScramConversation:
    return ScramConversation(mechanism, username, "pencil", NONCE)


def server_first(nonce: str = SERVER_NONCE, salt: bytes = SALT, iterations: object = 4096, more: bytes = b"") -> bytes:
    return b"r=%s,s=%s,i=%s%s" % (nonce.encode(), salt, str(iterations).encode(), more)


def signature(mechanism: Mechanism, salt: bytes, messages: bytes, iterations: int = 4096) -> bytes:
    """What a broker that knows the password answers: computed here by the formulas of RFC 5802, section 3."""
    name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    salted = hashlib.pbkdf2_hmac(name, b"pencil", base64.b64decode(salt), iterations)
    return hmac.new(hmac.new(salted, b"Server Key", name).digest(), messages, name).digest()


def test_the_example_of_rfc_7677() -> None:
    login = conversation()
    assert login.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert login.answer(server_first()) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert login.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_broker_that_knows_the_password_is_believed(mechanism: Mechanism) -> None:
    login = conversation(mechanism)
    bare = login.first().removeprefix(b"n,,")
    challenge = server_first(iterations=5000, more=b",x=an extension")
    final = login.answer(challenge)
    assert final is not None
    messages = b",".join((bare, challenge, final.partition(b",p=")[0]))
    signed = base64.b64encode(signature(mechanism, SALT, messages, 5000))
    assert login.answer(b"v=" + signed + b",x=an extension") is None


def test_the_separators_in_a_username_are_escaped() -> None:
    assert conversation(username="a=b,c").first() == b"n,,n=a=3Db=2Cc,r=" + NONCE.encode()


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (server_first(nonce="another" + SERVER_NONCE), "nonce does not continue"),
        (server_first(nonce=NONCE), "nonce does not continue"),
        (server_first(nonce=NONCE[:-1] + "x" * 20), "nonce does not continue"),
        (server_first(iterations=LEAST_ITERATIONS - 1), "it asks for 4095 iterations"),
        (server_first(iterations=MOST_ITERATIONS + 1), "this client takes 4096 to 100000"),
        (server_first(iterations=2**31), "it asks for 2147483648 iterations"),
        (server_first(iterations="9" * 5000), "is not a number"),
        (server_first(iterations="-1"), "is not a number"),
        (server_first(iterations=""), "is not a number"),
        (server_first(salt=b""), "is not base64"),
        (server_first(salt=b"W22ZaJ0SNY7soEsUEjb6gQ="), "is not base64"),
        (server_first(salt=b"\xff\xfe"), "is not base64"),
        (b"m=mandatory," + server_first(), "it lacks the nonce"),
        (b"r=" + SERVER_NONCE.encode(), "it lacks the nonce"),
        (b"", "it lacks the nonce"),
        (b"\xff" * 100, "it lacks the nonce"),
        (b"," * 60_000, "it lacks the nonce"),
    ],
)
def test_a_broker_that_breaks_the_rules_of_scram_gets_no_proof(
    challenge: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("hashlib.pbkdf2_hmac")  # nothing is computed for it
    login = conversation()
    with pytest.raises(OttlaError, match=words) as caught:
        login.answer(challenge)
    assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "pencil" not in str(caught.value)


@pytest.mark.parametrize(
    ("final", "words"),
    [
        (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95H4=", "signature is wrong"),
        (b"v=" + base64.b64encode(bytes(32)), "signature is wrong"),
        (b"v=6rri", "signature is wrong"),
        (b"v=", "not base64"),
        (b"e=invalid-proof", "it rejected the login: invalid-proof"),
        (b"", "lacks the signature"),
        (b"x=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "lacks the signature"),
    ],
)
def test_a_broker_that_does_not_know_the_password_is_not_believed(final: bytes, words: str) -> None:
    login = conversation()
    login.answer(server_first())
    with pytest.raises(OttlaError, match=words):
        login.answer(final)


def test_the_largest_number_of_iterations_is_computed() -> None:
    assert conversation().answer(server_first(iterations=MOST_ITERATIONS)) is not None


def test_plain_sends_both_and_expects_nothing() -> None:
    login = PlainConversation("user", "pencil")
    assert login.first() == b"\0user\0pencil"
    assert login.answer(b"") is None
    with pytest.raises(OttlaError, match="challenge"):
        login.answer(b"more")
    assert login.redacted("Wrong password: pencil") == "Wrong password: ***"


def test_a_token_is_sent_and_a_rejection_is_acknowledged() -> None:
    login = OAuthBearerConversation("abc.def-._~+/==")
    assert login.first() == b"n,,\x01auth=Bearer abc.def-._~+/==\x01\x01"
    assert login.answer(b"") is None
    assert login.answer(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(OttlaError, match=r"it rejected the token: .*invalid_token"):
        login.answer(b"")


@pytest.mark.story("cut-token-in-an-error")
def test_a_token_that_a_broker_repeats_is_hidden_although_the_response_is_cut() -> None:
    login = OAuthBearerConversation("secret" * 150)
    login.answer(b'{"status":"invalid_token","token":"' + b"secret" * 150 + b'"}')
    with pytest.raises(OttlaError) as caught:
        login.answer(b"")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "a b", "Bearer abc", "abc\x01auth=other", "abc\n", None, b"abc"])
def test_what_is_no_token_is_not_sent(token: str) -> None:
    with pytest.raises(ConfigError, match="not a token"):
        OAuthBearerConversation(token)
