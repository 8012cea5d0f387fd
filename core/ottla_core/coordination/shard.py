"""A coordinator's state machine as the runtime sees it. It decides and changes nothing, and decisions are then applied.

    request ──► decide(shard, now) ──► ShardDecision(response, records, effects, timers)
                                          │ records are applied, appended to the shard's log, and when the log's
                                          │ high watermark is past them
                                          └──► response and effects leave

A load calls `apply` for the records of the log, and the state has no other source. It applies the newest record of each
key, as the log is compacted, in any order. Records of transactions are applied in the log's order. Source of the shape:
Apache Kafka's CoordinatorShard and CoordinatorResult.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ottla_core.coordination.timers import Moment, TimerKey

Response = TypeVar("Response", covariant=True)
S = TypeVar("S", bound="ShardState")


class TransactionProducer(NamedTuple):
    """The producer of a transactional batch."""

    id: int
    epoch: int


class Entry(NamedTuple):
    """One keyed record. A value of None deletes the key. With a producer, it is pending until that producer's
    marker."""

    key: bytes
    value: bytes | None
    producer: TransactionProducer | None = None


class Marker(NamedTuple):
    """The end of a producer's transaction, which commits or drops what is pending for it."""

    producer: TransactionProducer
    committed: bool
    coordinator_epoch: int


Record: TypeAlias = Entry | Marker


@dataclass(frozen=True, slots=True)
class Later:
    """The response of a request that waits for others, such as a join. It comes as the effect `Resolve` of that key."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Resolve:
    """Respond to the request whose response was `Later`, if it still waits. An OttlaError rejects it."""

    key: Hashable
    response: Any


@dataclass(frozen=True, slots=True)
class ShardDecision(Generic[Response]):
    """The outcome of a request. A decision without records is a read, whose response is proved fresh before it is sent.

    `records` are written together or not at all, in one batch: they are of no producer, of one producer, or one marker.
    `memory` has changes of the state that are not written, and that a load forgets (such as the members of a join that
    is not complete). `timers` are only in memory, too (None: cancelled). `effects` are done once the records are
    durable: `Resolve` by the runtime, any other by the service. `by_last_proof` is for a read that need not be fresh,
    because its reader would notice a newer owner.
    """

    response: Response | Later
    records: tuple[Record, ...] = ()
    memory: tuple[Any, ...] = ()
    timers: Mapping[TimerKey, float | None] = field(default_factory=dict)
    effects: tuple[Any, ...] = ()
    by_last_proof: bool = False


class ShardState(Protocol):
    """The state of one shard. The durable part is the same wherever the same records were applied.

    `apply` and `remember` raise nothing: what can't be done was rejected when it was decided.
    """

    def apply(self, record: Record) -> None:
        """Change the durable part, by a record of the log, or one that is about to be written."""
        ...

    def remember(self, change: Any) -> None:
        """Change the other part, by one of a decision's `memory`, after its records."""
        ...

    def on_loaded(self, now: Moment) -> ShardDecision[None]:
        """Make the first decision after a load: timers in full (rule 10), and what the former owner left undone."""
        ...

    def on_timer(self, key: TimerKey, now: Moment) -> ShardDecision[None]: ...


Decide: TypeAlias = Callable[[S, Moment], ShardDecision[Any]]
"""A function that decides. It raises OttlaError to reject, which depends on the state like a read, and waits for
confirmation like one."""


class Recalled(NamedTuple):
    """A response from memory, and the timers that it sets. It changes nothing else."""

    response: Any
    timers: Mapping[TimerKey, float | None]


FromMemory: TypeAlias = Callable[[S, Moment], Recalled | None]
"""A function that decides what may be answered from memory, and returns None for anything else."""
