"""Callbacks for partitions that come and go: Kafka's ConsumerRebalanceListener."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Final

from ottla.errors import config_error
from ottla_core.model import TopicPartition

Partitions = list[TopicPartition]
"""In their order."""

Listener = Callable[[Partitions], object]


class RebalanceListener:
    """Subclass it, or give a consumer callables. All of it runs in the thread that reads, inside of its reading.

    What it raises, the reading raises, after the rebalance went on. The consumer may be used in here: to seek in
    `on_assigned`, to commit in `on_revoked`.
    """

    def on_assigned(self, partitions: Partitions) -> object:
        """A rebalance is over, and these are new (there may be none). They are read from where the group left off."""

    def on_revoked(self, partitions: Partitions) -> object:
        """These are about to go to others; until this returns they are still ours, and may be committed."""

    def on_lost(self, partitions: Partitions) -> object:
        """These are others' already: this member was left behind, and can't commit. By default as `on_revoked`."""
        return self.on_revoked(partitions)


class Callbacks:
    """Calls listeners; what the first of them raises is kept until the partitions are updated."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def call(self, listener: Listener, partitions: Iterable[TopicPartition]) -> None:
        """Never raises."""
        try:
            listener(list(partitions))
        except Exception as error:
            self._error = self._error or error

    def raise_error(self) -> None:
        """Raise what was kept, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error


class _Callables(RebalanceListener):
    def __init__(self, assigned: Listener | None, revoked: Listener | None, lost: Listener | None) -> None:
        self._assigned: Final = assigned
        self._revoked: Final = revoked
        self._lost: Final = lost or revoked

    def on_assigned(self, partitions: Partitions) -> object:
        return None if self._assigned is None else self._assigned(partitions)

    def on_revoked(self, partitions: Partitions) -> object:
        return None if self._revoked is None else self._revoked(partitions)

    def on_lost(self, partitions: Partitions) -> object:
        return None if self._lost is None else self._lost(partitions)


def listener_of(
    listener: RebalanceListener | None,
    on_assigned: Listener | None,
    on_revoked: Listener | None,
    on_lost: Listener | None,
) -> RebalanceListener:
    """One object. Raises ConfigError for both kinds at once, for what can't be called, and for coroutine functions."""
    callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
    if listener is not None:
        if any(callbacks.values()):
            raise config_error("listener= and callables exclude each other", hint="give either")
        callbacks = {name: getattr(listener, name, None) for name in callbacks}
    for name, call in callbacks.items():
        if inspect.iscoroutinefunction(call):
            raise config_error(f"{name} is a coroutine function", hint="give a plain one: it is called while reading")
        if not callable(call) and (call is not None or listener is not None):
            raise config_error(f"{name}={call!r} can't be called", hint="give a function of a list of partitions")
    return _Callables(callbacks["on_assigned"], callbacks["on_revoked"], callbacks["on_lost"])
