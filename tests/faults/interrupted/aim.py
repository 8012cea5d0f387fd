"""Lets signals come while a reader has gathered something that is not handed out, which is a matter of microseconds."""

from __future__ import annotations

import signal
from collections.abc import Callable
from random import Random
from typing import Any, Final

from ottla.consumer.completed_fetch import CompletedFetch, RecordRange
from ottla.consumer.reader import RecordReader

_PLACES: Final = ("_take", "batch", "on_handed_out")
"""Where something is in hand: when it has been taken, when it is made a batch, before it is given away."""


def is_in_hand(reader: RecordReader[Any, Any]) -> bool:
    """Whether records are gathered that nobody has."""
    return reader._in_hand and reader._gathered > 0


class Failpoint:
    """Raises a signal once, when the reader comes by one of the places with something in hand."""

    def __init__(self, reader: RecordReader[Any, Any], random: Random) -> None:
        self._signal = 0
        self._skip = 0
        self._random: Final = random
        self._reader: Final = reader
        for name in _PLACES:
            setattr(reader, name, self._around(name, getattr(reader, name)))

    def arm(self, number: int) -> None:
        """Raise this signal at one of the next times."""
        self._skip = self._random.randrange(9)
        self._signal = number

    def disarm(self) -> None:
        """It is over."""
        self._signal = 0

    def _around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        before = name == "on_handed_out"  # nothing is in hand afterwards

        def around(*arguments: Any) -> Any:
            if before:
                self._come_by(is_in_hand(self._reader))
            outcome = call(*arguments)
            if not before:
                self._come_by(bool(outcome))
            return outcome

        return around

    def _come_by(self, in_hand: bool) -> None:
        if self._signal and in_hand:
            self._skip -= 1
            if self._skip < 0:
                number, self._signal = self._signal, 0
                signal.raise_signal(number)


def move_first(reader: RecordReader[Any, Any]) -> None:
    """The order that there was before: what is taken counts as handed out, whoever gets it."""
    take = reader._take

    def moving(run: CompletedFetch, limit: int) -> RecordRange | None:
        part = take(run, limit)
        reader.on_handed_out()
        reader._before = {}
        return part

    reader._take = moving
