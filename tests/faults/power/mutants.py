"""Each mutant breaks one rule at the seams of log, cleaner, elections and transactions, on purpose, in brokers.

Those that a cleaner's worker keeps are in `worker_mutants`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Final

from tests.faults.power.worker_mutants import WORKER_MUTANTS
from tests.faults.put_in_place import put_in_place

import ottla_broker.replication.leading
import ottla_broker.storage.recovery
from ottla_broker.machines.epochs import NO_EPOCH, LeaderEpochs
from ottla_broker.machines.first_sequences import FirstSequences
from ottla_broker.machines.offsets import HighWatermark, LastStableOffset, LogEndOffset, RecoveryPoint
from ottla_broker.machines.partition import find_divergence
from ottla_broker.machines.producers import Producers
from ottla_broker.replication.following import Following
from ottla_broker.replication.pending import _Pending
from ottla_broker.replication.replica_offsets import ReplicaOffsets
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.segment import Segment
from ottla_core.records.batch import BatchHeader
from ottla_core.records.leader_epochs import EpochStart


def _ended_transactions_kept_by_followers() -> None:
    """Only leaders forget the transactions whose ends every replica knows."""
    on_step = ReplicaOffsets.on_step

    def on_step_and_forget(self: ReplicaOffsets, high_watermark: HighWatermark, passed_bytes: int) -> None:
        self._log.producers.transactions.forget_below(high_watermark)
        on_step(self, high_watermark, passed_bytes)

    put_in_place(ReplicaOffsets, "on_step", on_step_and_forget)
    put_in_place(ReplicaOffsets, "_forget_ended_transactions", lambda self: None)


def _last_stable_offset_below_the_log_start() -> None:
    """The last stable offset ignores where the log begins."""
    last_stable_offset = Producers.last_stable_offset

    def of_transactions(self: Producers, log_start_offset: int, high_watermark: HighWatermark) -> LastStableOffset:
        return last_stable_offset(self, 0, high_watermark)

    put_in_place(Producers, "last_stable_offset", of_transactions)


def _cleaned_above_the_recovery_point() -> None:
    """Sealed segments are cleaned though nothing has made them durable. The stored epochs would still say where the
    cleaned ones began, so they are dropped, too."""
    _stored_epochs_dropped()

    def secured(self: Log) -> RecoveryPoint:
        self.compaction.on_secured(self.next_recovery_point, self.compaction.truncations)
        return self.compaction.recovery_point

    put_in_place(Log, "secure_sealed", secured)


def _recovery_point_not_written_before_a_clean() -> None:
    """Sealed segments are made durable, but the checkpoint of recovery points is not written."""
    put_in_place(LogDir, "cover", lambda self, partition, recovery_point: recovery_point)


def _stored_epochs_dropped() -> None:
    """A start that reads batches takes the epochs only from them: each begins at its first batch."""
    recover = ottla_broker.storage.recovery._recover

    def shown_by(headers: Iterable[BatchHeader], end_offset: int, latest_epoch: int) -> Sequence[EpochStart]:
        firsts = {header.leader_epoch: header.base_offset for header in reversed([*headers])}
        return [EpochStart(epoch, at) for epoch, at in sorted(firsts.items()) if epoch > latest_epoch]

    def from_batches(segments: list[Segment], first: int, epochs: LeaderEpochs, gaps_before: int) -> tuple[int, bool]:
        if first < len(segments):
            epochs.truncate_from_end(segments[first].base_offset if first else 0)
        return recover(segments, first, epochs, gaps_before)

    put_in_place(ottla_broker.storage.recovery, "_recover", from_batches)
    put_in_place(ottla_broker.storage.recovery, "shown_by", shown_by)


def _emptied_log_forgets_its_epoch() -> None:
    """A log keeps only the epochs of the records that it still has."""

    def cut_to(self: LeaderEpochs, start_offset: int, end_offset: int) -> None:
        self.truncate_from_start(start_offset)
        self.truncate_from_end(end_offset)

    put_in_place(LeaderEpochs, "cut_to", cut_to)


def _emptied_log_counts_as_in_sync() -> None:
    """A follower without an epoch, whose log ends after its leader's, is not truncated: it counts as in sync once the
    leader's log has grown to its end."""
    _emptied_log_forgets_its_epoch()
    find, begin_anew = find_divergence, Following.on_out_of_range

    def find_by_epochs(
        epochs: LeaderEpochs, log_end_offset: LogEndOffset, last_epoch: int, fetch_offset: int
    ) -> EpochStart | None:
        return None if last_epoch == NO_EPOCH else find(epochs, log_end_offset, last_epoch, fetch_offset)

    async def on_out_of_range(self: Following, leader_start: int) -> None:
        if leader_start > self._disk.log.log_end_offset:
            await begin_anew(self, leader_start)

    put_in_place(ottla_broker.replication.leading, "find_divergence", find_by_epochs)
    put_in_place(Following, "on_out_of_range", on_out_of_range)


def _later_sequence_taken_first() -> None:
    """Any batch of an unknown producer is taken, even while an earlier one waits or is to be sent again."""
    put_in_place(FirstSequences, "expect", lambda self, header, now_ms: None)
    put_in_place(_Pending, "failure", property(lambda self: None))


MUTANTS: Final = MappingProxyType[str, Callable[[], None]](
    {
        "none": lambda: None,
        "ended-transactions-kept-by-followers": _ended_transactions_kept_by_followers,
        "last-stable-offset-below-the-log-start": _last_stable_offset_below_the_log_start,
        "cleaned-above-the-recovery-point": _cleaned_above_the_recovery_point,
        "recovery-point-not-written-before-a-clean": _recovery_point_not_written_before_a_clean,
        "emptied-log-counts-as-in-sync": _emptied_log_counts_as_in_sync,
        "later-sequence-taken-first": _later_sequence_taken_first,
        "stored-epochs-dropped": _stored_epochs_dropped,
        "emptied-log-forgets-its-epoch": _emptied_log_forgets_its_epoch,
        **dict.fromkeys(WORKER_MUTANTS, lambda: None),
    }
)
