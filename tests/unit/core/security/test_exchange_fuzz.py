"""Tens of thousands of messages that nobody should send: each is answered, or is one clean error, and none logs in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from users import PASSWORDS, Users

from ottla.client.kafka.sasl.scram import ScramConversation
from ottla_core.errors import ErrorCode
from ottla_core.security.candidates import Candidates
from ottla_core.security.exchange import Derivation, LoginRejectedError
from ottla_core.security.plain import PlainExchange
from ottla_core.security.scram import MECHANISMS, Mechanism
from ottla_core.security.scram_exchange import ScramExchange

CASES = 24_000
CANDIDATES = Candidates(Users(), lambda: b"secret")
PIECES = (
    *(b",", b"=", b"\0", b"n,,", b"y,,", b"p=x,,", b"n=", b"r=", b"c=biws", b"p=", b"a=alice", b"m=x", b"=2C", b"=3D"),
    *(b"tokenauth=true", b"alice", b"bob", b"\xff", b"\xc3\xa9", b"AAAA", b"9" * 50, b"ours", b"theirs", b"\n", b"i=1"),
)
WORDS = ("wonder", "builder")
"""Parts of the passwords."""


def mutated(chance: random.Random, message: bytes) -> bytes:
    """Change the message in a few places: bytes, pieces of the grammar, cuts and repetitions."""
    data = bytearray(message)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(data))
        until = min(len(data), at + chance.randint(0, 8))
        change: Callable[[], bytes] = chance.choice(
            [
                lambda: chance.randbytes(chance.randint(1, 4)),
                lambda: chance.choice(PIECES),
                lambda: b"",
                lambda: bytes(data[at:until]) * chance.randint(2, 3),  # noqa: B023 - called at once
            ]
        )
        data[at:until] = change()
    return bytes(data)


def first_scram(chance: random.Random, mechanism: Mechanism) -> tuple[ScramExchange, bytes]:
    return ScramExchange(mechanism, CANDIDATES, "ours"), mutated(chance, b"n,,n=alice,r=theirs,ext=x")


def last_scram(
    right: dict[Mechanism, bytes], chance: random.Random, mechanism: Mechanism
) -> tuple[ScramExchange, bytes]:
    broker = ScramExchange(mechanism, CANDIDATES, "ours")
    broker.respond(b"n,,n=alice,r=theirs")
    return broker, mutated(chance, right[mechanism])


def finals() -> dict[Mechanism, bytes]:
    """The right last messages of alice."""
    found = {}
    for mechanism in MECHANISMS:
        client = ScramConversation(mechanism, "alice", PASSWORDS["alice"], "theirs")
        found[mechanism] = client.answer(ScramExchange(mechanism, CANDIDATES, "ours").respond(client.first())) or b""
    return found


def test_no_message_of_scram_is_an_exception_of_another_kind_or_logs_in() -> None:
    chance, right, told = random.Random(11), finals(), Counter[str]()
    for case in range(CASES):
        mechanism = MECHANISMS[case % 2]
        broker, message = first_scram(chance, mechanism) if case % 4 < 2 else last_scram(right, chance, mechanism)
        try:
            response = broker.respond(message)
        except LoginRejectedError as error:
            told[_checked(error)] += 1
            assert broker.user is None
        else:
            assert broker.user is None or message == right[mechanism], message
            assert response.startswith((b"r=", b"v="))
            told["response"] += 1
    assert len(told) > 12, told
    assert told["response"] > 500


def test_no_message_of_plain_is_an_exception_of_another_kind_or_logs_in() -> None:
    chance, told = random.Random(12), Counter[str]()
    for _ in range(CASES):
        broker = PlainExchange(CANDIDATES)
        try:
            derivation = broker.respond(mutated(chance, b"\0alice\0alice-wonder-17"))
            assert isinstance(derivation, Derivation)
            derivation.respond(b"of another password".ljust(32))
        except LoginRejectedError as error:
            told[_checked(error)] += 1
        assert broker.user is None
    assert len(told) >= 4, told


def _checked(error: LoginRejectedError) -> str:
    text = f"{error} {error.cause}"
    assert error.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert len(text) < 500
    assert not any(word in text for word in WORDS)
    return error.message
