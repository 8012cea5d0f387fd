"""PLAIN on the broker's side: the password is compared with the SCRAM credential, in a thread of the caller's."""

from __future__ import annotations

import pytest
from users import PASSWORDS, Users

from ottla.client.kafka.sasl.plain import PlainConversation
from ottla_core.errors import ErrorCode
from ottla_core.security.candidates import Candidates
from ottla_core.security.exchange import LoginRejectedError
from ottla_core.security.plain import PlainExchange
from ottla_core.security.scram import Mechanism, ScramCredential

SECRET = b"secret of this process"
USERS = Users()


def exchange(users: Users = USERS) -> PlainExchange:
    return PlainExchange(Candidates(users, lambda: SECRET))


def logged_in(message: bytes, users: Users = USERS) -> str | None:
    broker = exchange(users)
    derivation = broker.respond(message)
    assert broker.user is None
    assert derivation.respond(derivation.derive()) == b""
    return broker.user


def _respond(broker: PlainExchange, message: bytes) -> bytes:
    derivation = broker.respond(message)
    return derivation.respond(derivation.derive())


def rejected(broker: PlainExchange, message: bytes) -> LoginRejectedError:
    with pytest.raises(LoginRejectedError) as caught:
        _respond(broker, message)
    assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert broker.user is None
    return caught.value


def test_our_client_logs_in() -> None:
    assert logged_in(PlainConversation("alice", PASSWORDS["alice"]).first()) == "alice"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_credential_of_either_mechanism_will_do(mechanism: Mechanism) -> None:
    users = Users({"münchen": "kindl 7"}, [mechanism], iterations=5000)
    assert logged_in(b"\0m\xc3\xbcnchen\0kindl 7", users) == "münchen"


def test_a_client_may_say_that_it_acts_for_itself() -> None:
    assert logged_in(b"alice\0alice\0alice-wonder-17") == "alice"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"", "lacks the user name or the password"),
        (b"alice", "lacks the user name or the password"),
        (b"\0alice", "lacks the user name or the password"),
        (b"\0\0alice-wonder-17", "lacks the user name or the password"),
        (b"\0alice\0", "lacks the user name or the password"),
        (b"\0alice\0alice-wonder-17\0", "lacks the user name or the password"),
        (b"\0\xff\0alice-wonder-17", "not UTF-8"),
        (b"\0alice\0\xff", "not UTF-8"),
        (b"\xff\0alice\0alice-wonder-17", "not UTF-8"),
        (b"bob\0alice\0alice-wonder-17", "act for another user"),
        (b"\0alice\0" + b"x" * 5000, "more than 4096 bytes"),
    ],
)
def test_a_message_that_breaks_the_rules_costs_no_derivation(
    message: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = exchange()
    monkeypatch.delattr("hashlib.pbkdf2_hmac")
    error = rejected(broker, message)
    assert words in error.message
    assert "wonder" not in f"{error} {error.cause}"


def test_a_wrong_password_and_an_unknown_user_cost_the_same_derivation(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[tuple[str, bytes, int, int]] = []

    def derive(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        derived.append((name, password, len(salt), iterations))
        return bytes(32)

    monkeypatch.setattr("hashlib.pbkdf2_hmac", derive)
    wrong, nobody = rejected(exchange(), b"\0alice\0not-hers"), rejected(exchange(), b"\0mallory\0not-hers")
    assert derived == [("sha256", b"not-hers", 16, 4096)] * 2
    assert wrong.message == nobody.message == "the user name or the password is wrong"
    assert wrong.cause == "the password of user 'alice' is wrong"
    assert nobody.cause == "there is no user of that name with a credential for PLAIN"


def test_there_is_one_message() -> None:
    broker = exchange()
    broker.respond(b"\0alice\0alice-wonder-17")
    with pytest.raises(LoginRejectedError, match="one message"):
        broker.respond(b"\0alice\0alice-wonder-17")


def test_the_password_is_not_in_what_a_trace_would_show() -> None:
    assert "wonder" not in repr(exchange().respond(b"\0alice\0alice-wonder-17"))


def test_a_false_credential_is_not_believed_whatever_is_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScramCredential, "is_of", lambda *_: True)
    assert "no user of that name" in rejected(exchange(), b"\0mallory\0x").cause
