"""The rules of transactions, broken on purpose in services: each must be found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from tests.faults.put_in_place import put_in_place

import ottla_broker.machines.producers
import ottla_broker.replication.produce
import ottla_group_coordinator.machines.transactions
import ottla_txn_coordinator.machines.transaction
from ottla_broker.machines.transactions import Transactions
from ottla_core.coordination.batches import StoredBatch
from ottla_core.coordination.replay import Replay
from ottla_core.coordination.shard import Entry, ShardState, TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.transactions import TRANSACTIONS_V1, ProducerEpochs, is_repeated_marker
from ottla_txn_coordinator.machines.records import TransactionRecord
from ottla_txn_coordinator.machines.shard import TransactionShard
from ottla_txn_coordinator.machines.states import TransactionState
from ottla_txn_coordinator.machines.transaction import SendMarkers


def _no_epoch_bump() -> None:
    """The next transaction has the epoch of the last (rule 40)."""

    def same(record: TransactionRecord, former_epoch: int, holder: TransactionProducer) -> TransactionRecord:
        next_ = None if holder.id == record.producer.id else holder
        return replace(record, former_epoch=former_epoch, next=next_, version=TRANSACTIONS_V1)

    put_in_place(ottla_txn_coordinator.machines.transaction, "_with_epoch_raised", same)


def _judge_markers_by(rule: Callable[..., bool]) -> None:
    put_in_place(ottla_broker.machines.producers, "is_repeated_marker", rule)
    put_in_place(ottla_group_coordinator.machines.transactions, "is_repeated_marker", rule)


def _marker_without_coordinator_epoch() -> None:
    """Who sends a marker is not asked (rule 36)."""

    def rule(
        known: ProducerEpochs, marker: ProducerEpochs, producer_id: int, *, is_open: bool, raises_epochs: bool
    ) -> bool:
        marker = marker._replace(coordinator=known.coordinator)
        return is_repeated_marker(known, marker, producer_id, is_open=is_open, raises_epochs=raises_epochs)

    _judge_markers_by(rule)


def _equal_epoch_marker_refused() -> None:
    """A marker has to raise the epoch (KAFKA-19446)."""

    def rule(
        known: ProducerEpochs, marker: ProducerEpochs, producer_id: int, *, is_open: bool, raises_epochs: bool
    ) -> bool:
        if marker.producer == known.producer:
            raise OttlaError(ErrorCode.INVALID_PRODUCER_EPOCH, "it is not higher")
        return is_repeated_marker(known, marker, producer_id, is_open=is_open, raises_epochs=raises_epochs)

    _judge_markers_by(rule)


def _prepare_reverted() -> None:
    """Whoever takes over aborts what was to be committed (rule 35)."""
    on_loaded = TransactionShard.on_loaded

    def revert(self: Any, now: Any) -> Any:
        decision, effects = on_loaded(self, now), []
        for effect in decision.effects:
            if isinstance(effect, SendMarkers) and effect.record.state is TransactionState.PREPARE_COMMIT:
                record = replace(effect.record, state=TransactionState.PREPARE_ABORT)
                self._records[effect.transactional_id] = record
                effect = effect._replace(record=record)
            effects.append(effect)
        return replace(decision, effects=tuple(effects))

    put_in_place(TransactionShard, "on_loaded", revert)


def _last_stable_offset_without_the_unreplicated() -> None:
    """A transaction is over as soon as the leader has its marker (rule 37)."""
    put_in_place(Transactions, "first_unstable", lambda self, high_watermark: self.first_open())


def _verification_skipped() -> None:
    """A first batch is taken from whoever sends it (rule 39)."""
    put_in_place(ottla_broker.replication.produce._Append, "_is_unverified", property(lambda self: False))


def _pending_offsets_applied_at_load() -> None:
    """To a group-coordinator that loads, what lies in the log is committed (rule 50)."""
    add = Replay.add

    def add_all(self: Replay, batch: StoredBatch, shard: ShardState) -> None:
        add(self, batch, shard)
        for record in batch.of_transactions:
            if isinstance(record, Entry):
                shard.apply(Entry(record.key, record.value))

    put_in_place(Replay, "add", add_all)


MUTANTS: Final = MappingProxyType[str, Callable[[], None]](
    {
        "none": lambda: None,
        "no-epoch-bump": _no_epoch_bump,
        "marker-without-coordinator-epoch": _marker_without_coordinator_epoch,
        "prepare-reverted": _prepare_reverted,
        "last-stable-offset-without-the-unreplicated": _last_stable_offset_without_the_unreplicated,
        "equal-epoch-marker-refused": _equal_epoch_marker_refused,
        "verification-skipped": _verification_skipped,
        "pending-offsets-applied-at-load": _pending_offsets_applied_at_load,
    }
)
