"""The history of a transactional id and its causes, kept so that it can be explained. It is bounded, and only in
memory."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from ottla_core.coordination.shard import TransactionProducer

KEPT: Final = 10
"""The most events of an id."""

MOST_IDS: Final = 1_000
"""The most ids of a shard: those with the latest events."""

_LONGEST: Final = 200
"""The most characters that are kept of a client's own name."""


class Kind(Enum):
    INITIALIZED = "initialized"
    FENCED = "fenced"
    TIMED_OUT = "timed-out"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Caller(NamedTuple):
    """The client that made a request, as far as it identifies itself."""

    client_id: str = ""
    client_host: str = ""

    def __str__(self) -> str:
        return f"{self.client_id or 'a client'} at {self.client_host or 'an unknown host'}"


UNNAMED: Final = Caller()


def caller_of(client_id: str, client_host: str) -> Caller:
    return Caller(client_id[:_LONGEST], client_host[:_LONGEST])


class HistoryEvent(NamedTuple):
    """A result of one decision, reported once it is durable. It is an effect, too."""

    transactional_id: str
    at_ms: int
    kind: Kind
    producer: TransactionProducer
    caller: Caller = UNNAMED
    cause: str = ""


class History:
    """The history of the ids of one shard."""

    def __init__(self) -> None:
        self._events: Final[OrderedDict[str, deque[HistoryEvent]]] = OrderedDict()

    def add(self, event: HistoryEvent) -> None:
        self._events.setdefault(event.transactional_id, deque(maxlen=KEPT)).append(event)
        self._events.move_to_end(event.transactional_id)
        if len(self._events) > MOST_IDS:
            self._events.popitem(last=False)

    def of(self, transactional_id: str) -> Sequence[HistoryEvent]:
        """Return the events of an id, oldest first."""
        return tuple(self._events.get(transactional_id, ()))

    def last_cause(self, transactional_id: str) -> str:
        """Return what raised the epoch last, or "" if that is no longer known."""
        events = reversed(self.of(transactional_id))
        return next((event.cause for event in events if event.cause), "")

    def forget(self, transactional_id: str) -> None:
        self._events.pop(transactional_id, None)
