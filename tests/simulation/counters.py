"""The state machine of the simulation: a counter per key.

A record says which count its key has and for whom that was made: `7 w31` is the seventh, for write 31. A round writes
the last record of a key alone, so each decision writes a note beside it, with a key that no other decision has:
`a/7/w31`. By the notes the log itself tells whether a decision was made against another state than the log's, or was
written twice.
"""

from __future__ import annotations

from typing import Any

from ottla_core.coordination.shard import (
    Decide,
    Entry,
    Later,
    Marker,
    Record,
    Resolve,
    ShardDecision,
    TransactionProducer,
)
from ottla_core.coordination.timers import Moment, TimerKey
from ottla_group_coordinator.machines.transactions import Guard, OffsetTransactions

Written = tuple[bytes, int, bytes]
"""Key, count, and for whom."""


def written(entry: Entry) -> Written:
    """Read a record of a key, or a note."""
    assert entry.value is not None
    if is_note(entry.key):
        key, number, who = entry.key.split(b"/")
        return key, int(number), who
    count, who = entry.value.split(b" ")
    return entry.key, int(count), who


def is_note(key: bytes) -> bool:
    return b"/" in key


class Counters:
    def __init__(self) -> None:
        self.values: dict[bytes, tuple[int, bytes]] = {}
        self.watchers: dict[bytes, tuple[bytes, ...]] = {}
        self.transactions = OffsetTransactions()
        self.offsets: dict[bytes, int] = {}
        self.pending: dict[int, dict[bytes, int]] = {}

    def apply(self, record: Record) -> None:
        if isinstance(record, Marker):
            self.transactions.on_marker(record)
            apply_marker(record, self.offsets, self.pending)
            return
        if record.producer is not None:
            self.transactions.on_entry(record.producer)
            self.pending.setdefault(record.producer.id, {})[record.key] = int(record.value or b"")
            return
        if not is_note(record.key):
            key, count, who = written(record)
            self.values[key] = (count, who)

    def remember(self, change: Any) -> None:
        """Who watches a key: memory alone, gone with a load."""
        if isinstance(change, Guard):
            self.transactions.keep(change)
            return
        key, watchers = change
        self.watchers[key] = watchers

    def on_loaded(self, now: Moment) -> ShardDecision[None]:
        return ShardDecision(
            None, timers={key: now.at + 0.5 for key, (count, _) in self.values.items() if count % 4 == 0}
        )

    def on_timer(self, key: TimerKey, now: Moment) -> ShardDecision[None]:
        assert isinstance(key, bytes)
        return self._added(key, b"t", None, {})

    def count(self, key: bytes) -> int:
        return self.values.get(key, (0, b""))[0]

    def _added(self, key: bytes, who: bytes, response: Any, timers: dict[TimerKey, float | None]) -> ShardDecision[Any]:
        count = self.count(key) + 1
        watchers = self.watchers.get(key, ())
        return ShardDecision(
            count if response is None else response,
            records=(Entry(key, b"%d %s" % (count, who)), Entry(b"%s/%d/%s" % (key, count, who), b"")),
            memory=((key, ()),) if watchers else (),
            timers=timers,
            effects=tuple(Resolve(w, count) for w in watchers),
        )


def add(key: bytes, who: bytes, *, timer_s: float | None) -> Decide[Counters]:
    """Count one more, answered with the count; every now and then a timer counts another one."""

    def decide(counters: Counters, now: Moment) -> ShardDecision[Any]:
        at = None if timer_s is None else now.at + timer_s
        return counters._added(key, who, None, {key: at})

    return decide


def get(key: bytes) -> Decide[Counters]:
    return lambda counters, now: ShardDecision(counters.count(key))


def get_by_last_proof(key: bytes) -> Decide[Counters]:
    return lambda counters, now: ShardDecision(counters.count(key), by_last_proof=True)


def watch(key: bytes, who: bytes) -> Decide[Counters]:
    """Answered with the next count, by whomever it is made."""
    return lambda counters, now: ShardDecision(Later(who), memory=((key, (*counters.watchers.get(key, ()), who)),))


# ---- offsets in transactions ----------------------------------------------------------------------------------------


def apply_marker(marker: Marker, offsets: dict[bytes, int], pending: dict[int, dict[bytes, int]]) -> None:
    ended = pending.pop(marker.producer.id, {})
    if marker.committed:
        offsets.update(ended)


def commit_in(
    producer: TransactionProducer, key: bytes, offset: int, guard: Guard | None, *, guarded: bool
) -> Decide[Counters]:
    """Answered with a guard, or with nothing once the offset is pending."""
    plain: ShardDecision[Any] = ShardDecision(None, records=(Entry(key, b"%d" % offset),))

    def decide(counters: Counters, now: Moment) -> ShardDecision[Any]:
        if not guarded and guard is not None:
            return ShardDecision(None, records=(Entry(key, b"%d" % offset, producer),))
        return counters.transactions.decide_commit(producer, plain, guard)

    return decide


def mark(marker: Marker) -> Decide[Counters]:
    return lambda counters, now: counters.transactions.decide_marker(marker, raises_epochs=True)
