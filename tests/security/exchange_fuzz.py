"""Sends messages of SCRAM and PLAIN that nobody should send: each gets an answer or one clean error, and none logs
in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from users import PASSWORDS, Users

from ottla.client.kafka.sasl.scram import ScramConversation
from ottla_core.errors import ErrorCode
from ottla_core.security.candidates import Candidates
from ottla_core.security.exchange import Derivation, LoginRejectedError
from ottla_core.security.plain import PlainExchange
from ottla_core.security.scram import MECHANISMS, Mechanism
from ottla_core.security.scram_exchange import ScramExchange

RESPONSE: Final = "response"
"""How `scram` and `plain` count a message that was answered."""

_CANDIDATES: Final = Candidates(Users(), lambda: b"secret")
_PIECES: Final = (
    *(b",", b"=", b"\0", b"n,,", b"y,,", b"p=x,,", b"n=", b"r=", b"c=biws", b"p=", b"a=alice", b"m=x", b"=2C", b"=3D"),
    *(b"tokenauth=true", b"alice", b"bob", b"\xff", b"\xc3\xa9", b"AAAA", b"9" * 50, b"ours", b"theirs", b"\n", b"i=1"),
)
_WORDS: Final = ("wonder", "builder")
"""Parts of the passwords."""


class LeakError(Exception):
    """A message was taken that should not be, or an error says too much."""


def mutated(chance: random.Random, message: bytes) -> bytes:
    """Change the message in a few places: bytes, pieces of the grammar, cuts and repetitions."""
    data = bytearray(message)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(data))
        until = min(len(data), at + chance.randint(0, 8))
        change: Callable[[], bytes] = chance.choice(
            [
                lambda: chance.randbytes(chance.randint(1, 4)),
                lambda: chance.choice(_PIECES),
                lambda: b"",
                lambda: bytes(data[at:until]) * chance.randint(2, 3),  # noqa: B023 - called at once
            ]
        )
        data[at:until] = change()
    return bytes(data)


def scram(seed: int, cases: int) -> Counter[str]:
    """Try mutated first and last messages of both mechanisms. Return how often each answer came. Raises LeakError."""
    chance, right, told = random.Random(seed), _finals(), Counter[str]()
    for case in range(cases):
        mechanism = MECHANISMS[case % 2]
        broker = ScramExchange(mechanism, _CANDIDATES, "ours")
        if case % 4 < 2:
            message = mutated(chance, b"n,,n=alice,r=theirs,ext=x")
        else:
            broker.respond(b"n,,n=alice,r=theirs")
            message = mutated(chance, right[mechanism])
        try:
            response = broker.respond(message)
        except LoginRejectedError as error:
            told[_checked(error)] += 1
            if broker.user is not None:
                raise LeakError(f"{message!r} has logged in, though it was rejected") from None
        else:
            if broker.user is not None and message != right[mechanism]:
                raise LeakError(f"{message!r} has logged in")
            if not response.startswith((b"r=", b"v=")):
                raise LeakError(f"{message!r} was answered by {response!r}")
            told[RESPONSE] += 1
    return told


def plain(seed: int, cases: int) -> Counter[str]:
    """Try mutated messages of PLAIN, whose password is another one. Return how often each answer came. Raises
    LeakError."""
    chance, told = random.Random(seed), Counter[str]()
    for _ in range(cases):
        broker = PlainExchange(_CANDIDATES)
        message = mutated(chance, b"\0alice\0alice-wonder-17")
        try:
            derivation = broker.respond(message)
            if not isinstance(derivation, Derivation):
                raise LeakError(f"{message!r} was answered by {derivation!r}")
            derivation.respond(b"of another password".ljust(32))
        except LoginRejectedError as error:
            told[_checked(error)] += 1
        if broker.user is not None:
            raise LeakError(f"{message!r} has logged in")
    return told


def _finals() -> dict[Mechanism, bytes]:
    """Return the right last messages of alice."""
    found = {}
    for mechanism in MECHANISMS:
        client = ScramConversation(mechanism, "alice", PASSWORDS["alice"], "theirs")
        found[mechanism] = client.answer(ScramExchange(mechanism, _CANDIDATES, "ours").respond(client.first())) or b""
    return found


def _checked(error: LoginRejectedError) -> str:
    text = f"{error} {error.cause}"
    is_clean = error.code == ErrorCode.SASL_AUTHENTICATION_FAILED and len(text) < 500
    if not is_clean or any(word in text for word in _WORDS):
        raise LeakError(f"the error is {error.code!r}: {text!r}")
    return error.message
