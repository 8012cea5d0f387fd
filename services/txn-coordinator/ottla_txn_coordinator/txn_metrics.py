"""A coordinator's metrics of transactions: how they end, how many are open, and for how long."""

from __future__ import annotations

import logging
from typing import Any, Final

from ottla_core.clock import Clock
from ottla_core.coordination.shards import Shards
from ottla_core.telemetry import Metrics, Table
from ottla_txn_coordinator.machines.history import HistoryEvent, Kind
from ottla_txn_coordinator.machines.shard import Loaded, TransactionShard
from ottla_txn_coordinator.machines.states import TransactionState
from ottla_txn_coordinator.machines.transaction import TransactionCompleted

_ENDS: Final = (Kind.COMMITTED, Kind.ABORTED, Kind.TIMED_OUT, Kind.FENCED)

_DEAD: Final = TransactionState.DEAD

_log = logging.getLogger(__name__)


class TxnMetrics:
    """`on_effect` is for the coordinator's host."""

    def __init__(self, shards: Shards[TransactionShard], metrics: Metrics, clock: Clock) -> None:
        self._shards: Final = shards
        self._clock: Final = clock
        name, text = "ottla_txn_ends_total", "Transactions whose outcome was decided, by result."
        self._ends: Final = {kind: metrics.counter(name, text, result=kind.value) for kind in _ENDS}
        self._inits: Final = metrics.counter("ottla_txn_producers_total", "Transactional producers initialized.")
        self._completions: Final = metrics.histogram(
            "ottla_txn_complete_seconds", "Time from the decision to commit or abort a transaction to its last marker."
        )
        metrics.table("ottla_txn_ids", Table("Transactional ids in each state.", ("state",), self._states))
        metrics.gauge("ottla_txn_open", "Open transactions.", lambda: len(self._open_since_ms()))
        metrics.gauge("ottla_txn_oldest_seconds", "Age of the oldest open transaction.", self._oldest_s)
        metrics.gauge(
            "ottla_txn_records_unreadable",
            "Records in the transaction log that this release can't read.",
            self._unreadable,
        )

    def on_effect(self, shard: int, epoch: int, effect: Any) -> None:
        if isinstance(effect, Loaded) and effect.unreadable:
            _log.warning("records in shard %d that this release keeps but can't read: %d", shard, effect.unreadable)
        if isinstance(effect, TransactionCompleted):
            self._completions.observe(effect.after_ms / 1000)
        if isinstance(effect, HistoryEvent):
            if effect.kind in self._ends:
                self._ends[effect.kind].value += 1
            elif effect.kind is Kind.INITIALIZED:
                self._inits.value += 1

    def _states(self) -> dict[tuple[str, ...], float]:
        shards = [status.state.states for status in self._shards.statuses()]
        return {(state.value,): sum(ids[state] for ids in shards) for state in TransactionState if state is not _DEAD}

    def _open_since_ms(self) -> list[int]:
        return [since_ms for status in self._shards.statuses() for since_ms in status.state.open_since_ms()]

    def _oldest_s(self) -> float:
        now_ms = self._clock.wall_ms()
        return max(0, now_ms - min(self._open_since_ms(), default=now_ms)) / 1000

    def _unreadable(self) -> float:
        return sum(status.state.unreadable for status in self._shards.statuses())
