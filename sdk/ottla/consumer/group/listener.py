"""Callbacks for assigned and revoked partitions: Kafka's ConsumerRebalanceListener."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Final

from ottla.errors import config_error
from ottla_core.model import TopicPartition

Partitions = list[TopicPartition]
"""Sorted."""

Listener = Callable[[Partitions], object]


class RebalanceListener:
    """To handle rebalances, subclass this class, or pass callables to a consumer instead.

    The methods run in the reading thread, during a read. If a method raises, the rebalance continues, and then the read
    raises that error. The methods may use the consumer, for example to seek in `on_assigned` or to commit in
    `on_revoked`.
    """

    def on_assigned(self, partitions: Partitions) -> object:
        """Handle the newly assigned partitions, possibly none, after a rebalance.

        Reading begins at their committed offsets.
        """

    def on_revoked(self, partitions: Partitions) -> object:
        """Handle partitions that are about to move to other members.

        Until this method returns, you may commit their offsets.
        """

    def on_lost(self, partitions: Partitions) -> object:
        """Handle partitions that may already belong to other members: this member was evicted and can't commit. Calls
        `on_revoked` by default."""
        return self.on_revoked(partitions)


class Callbacks:
    """Calls listeners, and keeps the first error until the partitions are updated."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def call(self, listener: Listener, partitions: Iterable[TopicPartition]) -> None:
        """Call the listener; never raises."""
        try:
            listener(list(partitions))
        except Exception as error:
            self._error = self._error or error

    def raise_error(self) -> None:
        """Raise the kept error, once."""
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
    """Return one listener. Raises ConfigError if both kinds are given, or for non-callables and coroutine functions."""
    callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
    if listener is not None:
        if any(callbacks.values()):
            raise config_error("listener= and callables can't be combined", hint="pass one or the other")
        callbacks = {name: getattr(listener, name, None) for name in callbacks}
    for name, call in callbacks.items():
        if inspect.iscoroutinefunction(call):
            raise config_error(
                f"{name} is a coroutine function", hint="pass a plain function: it is called during a read"
            )
        if not callable(call) and (call is not None or listener is not None):
            raise config_error(
                f"{name}={call!r} is not callable", hint="pass a function that takes a list of partitions"
            )
    return _Callables(callbacks["on_assigned"], callbacks["on_revoked"], callbacks["on_lost"])
