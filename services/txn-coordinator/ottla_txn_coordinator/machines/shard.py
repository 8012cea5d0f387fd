"""A shard of transactional ids: all that hash to one partition of `__transaction_state`.

The state is what the log says. Only the history of an id (`history`) is just in memory. `caught` returns what the
functions in `transaction` decide on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla_core.coordination.batches import size_limit
from ottla_core.coordination.look import Looked
from ottla_core.coordination.shard import Entry, Marker, Record, ShardDecision
from ottla_core.coordination.timers import Moment, TimerKey
from ottla_core.kafka_formats.primitives import MalformedError
from ottla_txn_coordinator.machines.history import UNNAMED, Caller, History, HistoryEvent
from ottla_txn_coordinator.machines.records import TransactionRecord, decode_key, decode_value, encode_key
from ottla_txn_coordinator.machines.states import ENDING, NEXT, TransactionEvent, TransactionState
from ottla_txn_coordinator.machines.transaction import (
    Caught,
    SendMarkers,
    TransactionSettings,
    TransactionTimer,
    decide_timeout,
    timeout_of,
)

_LOOKED_AT_ONCE: Final = 1_000
_AT_ONCE_BYTES: Final = 1 << 18
_NEXT_LOOK_S: Final = 0.1


class ExpiryTimer(NamedTuple):
    """It is time to look for expired ids, among those that the last look has left or, if none, among all."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The state is that of the log, except for records that are `unreadable`."""

    unreadable: int


class TransactionShard:
    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.history: Final = History()
        self.unreadable = 0
        """It counts records that are of an unknown kind, or not what they say they are. They stay in the log."""
        self._records: Final[dict[str, TransactionRecord]] = {}
        self._started_at_ms: Final[dict[str, int]] = {}
        self._to_look_at: list[str] = []
        """These are the ids that a look for expired ones has left."""
        self.states: Final[Counter[TransactionState]] = Counter()
        """It counts the ids in each state."""

    # ---- the state --------------------------------------------------------------------------------------------------

    def caught(self, transactional_id: str, caller: Caller = UNNAMED) -> Caught:
        cause = self.history.last_cause(transactional_id)
        return Caught(transactional_id, self._records.get(transactional_id), cause, caller)

    def record(self, transactional_id: str) -> TransactionRecord | None:
        return self._records.get(transactional_id)

    def records(self) -> Iterator[tuple[str, TransactionRecord]]:
        return iter(self._records.items())

    def open_since_ms(self) -> list[int]:
        """Return when each open transaction began. From any thread."""
        return list(self._started_at_ms.values())

    def apply(self, record: Record) -> None:
        if isinstance(record, Marker):
            return  # it has no meaning in this topic
        try:
            transactional_id = decode_key(record.key)
            value = None if record.value is None else decode_value(record.value)
        except MalformedError:
            transactional_id, value = None, None
        if transactional_id is None or (value is None and record.value is not None):
            self.unreadable += 1
        elif value is None or value.state is TransactionState.DEAD:
            self._remove(transactional_id)
        else:
            self._put(transactional_id, value)

    def _put(self, transactional_id: str, record: TransactionRecord) -> None:
        self._count_out(transactional_id)
        self._records[transactional_id] = record
        self.states[record.state] += 1
        if record.state is TransactionState.ONGOING:
            self._started_at_ms[transactional_id] = record.started_at_ms
        else:
            self._started_at_ms.pop(transactional_id, None)

    def _remove(self, transactional_id: str) -> None:
        self._count_out(transactional_id)
        self._records.pop(transactional_id, None)
        self._started_at_ms.pop(transactional_id, None)
        self.history.forget(transactional_id)

    def _count_out(self, transactional_id: str) -> None:
        if (former := self._records.get(transactional_id)) is not None:
            self.states[former.state] -= 1

    def remember(self, change: Any) -> None:
        if isinstance(change, Looked):
            self._to_look_at = change.rest()
            return
        assert isinstance(change, HistoryEvent)
        self.history.add(change)

    # ---- time -------------------------------------------------------------------------------------------------------

    def on_loaded(self, now: Moment) -> ShardDecision[None]:
        """Start what a new owner has to do. Timeouts go on where they were, and every decided transaction is carried
        out (rule 35)."""
        timers: dict[TimerKey, float | None] = {ExpiryTimer(): now.at + self.settings.expiry_check_s}
        effects: list[Any] = [Loaded(self.unreadable)]
        for transactional_id, record in self._records.items():
            if record.state is TransactionState.ONGOING:
                timers.update(timeout_of(transactional_id, record, now))
            elif record.state in ENDING:
                effects.append(SendMarkers(transactional_id, record))
        return ShardDecision(None, timers=timers, effects=tuple(effects))

    def on_timer(self, key: TimerKey, now: Moment) -> ShardDecision[None]:
        if isinstance(key, ExpiryTimer):
            return self._expire(now)
        assert isinstance(key, TransactionTimer)
        return decide_timeout(self.caught(key.transactional_id), now)

    def _expire(self, now: Moment) -> ShardDecision[None]:
        """Look at a limited number of ids at a time, because all requests wait for it. A look lists the ids once."""
        ids = self._to_look_at or list(self._records)
        tombstones: list[Entry] = []
        left = len(ids)
        size_bytes = 0
        while left > max(0, len(ids) - _LOOKED_AT_ONCE) and size_bytes <= _AT_ONCE_BYTES:
            left -= 1
            record = self._records.get(ids[left])
            if record is not None and self._is_over(record, now):
                tombstones.append(Entry(encode_key(ids[left]), None))
                size_bytes += size_limit(tombstones[-1:])
        pause_s = _NEXT_LOOK_S if left else self.settings.expiry_check_s
        return ShardDecision(
            None, tuple(tombstones), memory=(Looked(ids, left),), timers={ExpiryTimer(): now.at + pause_s}
        )

    def _is_over(self, record: TransactionRecord, now: Moment) -> bool:
        is_idle = (record.state, TransactionEvent.REMOVED) in NEXT
        return is_idle and now.wall_ms - record.updated_at_ms >= self.settings.id_expiration_ms
