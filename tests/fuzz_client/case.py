"""A case: one client against one server that is honest except for one response."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Final, Self

from tests.fuzz_client.logins import MECHANISMS
from tests.fuzz_client.misdeeds import MISDEEDS, Where

CLIENT_PREFIX: Final = "case-"
_WHOLE_SHARE: Final = 0.05
_HANDSHAKE_SHARE: Final = 0.25
_LOGIN_SHARE: Final = 0.15
_LOGIN_RESPONSES: Final = 4
"""The most responses before the first call: ApiVersions, SaslHandshake, and SaslAuthenticate up to twice."""
_MOST_CALLS: Final = 3
"""The most frames that a stream sends."""
_POOLS: Final = {
    where: [name for name, misdeed in MISDEEDS.items() for _ in range(misdeed.weight) if misdeed.where & where]
    for where in (Where.HANDSHAKE, Where.LOGIN, Where.CALL)
}


class Level(Enum):
    """What is played against the server."""

    CALL = "call"
    STREAM = "stream"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    OPERATOR = "operator"

    @property
    def is_whole_client(self) -> bool:
        return self in _WHOLE_CLIENTS


_WHOLE_CLIENTS: Final = {Level.PRODUCER: 7, Level.CONSUMER: 7, Level.OPERATOR: 3}
"""The hostile response is chosen among this many."""


@dataclass(frozen=True, slots=True)
class Case:
    """The server does the misdeed instead of its response number `at`, counted from 0.

    It counts only responses to ApiVersions and to those of a login if the misdeed is `in_handshake`, else only the
    others. `asks` is the name of an exchange, and "" for whole clients. `mechanism` is that of the login, and ""
    without one. `seed` decides all the rest.
    """

    number: int
    level: Level
    asks: str
    misdeed: str
    in_handshake: bool
    at: int
    seed: int
    mechanism: str = ""

    @property
    def client_id(self) -> str:
        return f"{CLIENT_PREFIX}{self.number}"

    def chance(self, of: str) -> random.Random:
        """Return the chance that decides one thing about the case."""
        return random.Random(f"{self.seed}/{of}")

    def as_json(self) -> str:
        return json.dumps({**asdict(self), "level": self.level.value}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        return cls(**{name: fields[name] for name in cls.__slots__} | {"level": Level(fields["level"])})


def cases(exchanges: Mapping[str, Level], count: int, seed: int) -> list[Case]:
    """Return this many cases, which are always the same for one seed. The names of the exchanges have their levels."""
    chance = random.Random(seed)
    names = list(exchanges)
    return [_case(exchanges, names[number % len(names)], number, chance) for number in range(count)]


def _case(exchanges: Mapping[str, Level], asks: str, number: int, chance: random.Random) -> Case:
    if chance.random() < _WHOLE_SHARE:
        level, asks = chance.choice(tuple(_WHOLE_CLIENTS)), ""
        at = chance.randrange(_WHOLE_CLIENTS[level])
    else:
        level = exchanges[asks]
        at = chance.choice((0, 0, chance.randrange(_MOST_CALLS))) if level is Level.STREAM else 0
    in_handshake = chance.random() < _HANDSHAKE_SHARE
    if in_handshake:
        at = chance.choice((0, 0, 0, 1)) if level.is_whole_client else 0
    where = Where.HANDSHAKE if in_handshake else Where.CALL
    mechanism = chance.choice(MECHANISMS) if chance.random() < _LOGIN_SHARE else ""
    if mechanism and in_handshake:
        where, at = Where.LOGIN, chance.randrange(1, _LOGIN_RESPONSES)
    misdeed, seed = chance.choice(_POOLS[where]), chance.randrange(1 << 31)
    return Case(number, level, asks, misdeed, in_handshake, at, seed, mechanism)
