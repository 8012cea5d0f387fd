"""A story is a list of steps, each of which says who does what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple


class Step(NamedTuple):
    """A step calls one consumer or query by name, the `world` that both sides share, or `all` consumers of a side."""

    who: str
    what: str
    arguments: Mapping[str, Any]

    @property
    def label(self) -> str:
        words = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.who} {self.what} {words}".rstrip()


class Story(NamedTuple):
    """A story is what is done with one topic, in order. Both sides do a step before either does the next one."""

    name: str
    steps: tuple[Step, ...]
    partitions: int = 1
    config: Mapping[str, str] = {}


def actor(who: str) -> Callable[..., Step]:
    """Return a function that makes steps for `who`: `actor("a")("seek", partition=0, offset=3)`."""

    def does(what: str, **arguments: Any) -> Step:
        return Step(who, what, arguments)

    return does


WORLD: Final = "world"
ALL: Final = "all"
world: Final = actor(WORLD)
"""Changes the topic, or waits for it, once for both sides."""
everyone: Final = actor(ALL)
a: Final = actor("a")
b: Final = actor("b")
c: Final = actor("c")


def transaction(count: int, end: Literal["commit", "abort"]) -> tuple[Step, ...]:
    """Return the steps that write records in a transaction and end it."""
    return world("begin"), world("write_in_transaction", count=count), world(end)
