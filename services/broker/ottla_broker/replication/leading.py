"""A replica that leads appends, serves its followers, acknowledges producers, and proves on request that it still
leads.

The danger of leading is to go on after the leadership is over. An append that was checked against one epoch must not be
written in another, and a producer must not hear of success from a log that may be truncated. So each leader epoch has
an object, `Leading`, and having one is the proof of leadership: only `Replica` makes and ends it, on the loop. A caller
that got one need not check again until its next await, because nothing else runs in between (I1). After an await it
asks `present`.

What waits for the high watermark waits longer than an epoch may last. If this broker leads the next epoch too, its log
has stayed what it was, and the waiters go over to the next `Leading`. If another broker leads, the log may be
truncated, so they fail with an error that leaves the outcome open (rule 10).

`machines.partition.Leader` decides, and this class carries it out: writes, wakes, proposes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from ottla_broker.machines.guards import VerificationGuards
from ottla_broker.machines.partition import IsrProposal, Leader, find_divergence
from ottla_broker.machines.transactions import TransactionEnd
from ottla_broker.replication.disk_log import DiskLog
from ottla_broker.replication.fetch_purgatory import ConfirmationPurgatory, FetchPurgatory, Sessions
from ottla_broker.replication.high_watermark_waiters import HighWatermarkWaiters
from ottla_broker.replication.pending import PendingBytes
from ottla_broker.replication.replica_offsets import ReplicaOffsets
from ottla_broker.replication.topic_metrics import Traffic
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log import AppendResult
from ottla_broker.storage.owned import OwnedBatches, append_owned, find_repeated
from ottla_broker.storage.positioned import in_epoch
from ottla_broker.storage.reading import FoundOffset
from ottla_broker.storage.transactions.markers import append_marker, find_repeated_marker
from ottla_broker.storage.validator import Walk
from ottla_core.clock import Clock
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, PartitionId
from ottla_core.plural import counted
from ottla_core.records.batch import BatchHeader, Buffer, iter_headers, max_timestamp
from ottla_core.records.leader_epochs import EpochStart

ACKS_ALL: Final = -1


@dataclass(frozen=True, slots=True)
class ReplicaContext:
    """What every replica of a broker shares.

    `live` are the brokers that may be in an ISR, with the epoch of their present incarnation.
    """

    broker_id: int
    clock: Clock
    threads: DiskThreads
    on_disk_failure: Callable[[OttlaError], None]
    on_proposal: Callable[[Leading], None]
    """It is called when an ISR is to be proposed to the controller (`Leading.proposal`)."""
    live: Mapping[int, int]
    consumers: FetchPurgatory
    followers: Sessions
    deletions: FetchPurgatory
    confirmations: ConfirmationPurgatory
    is_registered: Callable[[], bool] = lambda: True
    read_only: Set[int] = frozenset()
    """These brokers' disks take no appends for the moment."""
    ticking: dict[Leading, None] = field(default_factory=dict)
    """Leaderships in which the passing of time may change something. The others cost nothing while they are idle."""
    pending_bytes: PendingBytes = field(default_factory=PendingBytes)
    turn: Slice = field(default_factory=Slice)
    """All partitions share it for batches that are appended later than they came."""
    traffic: Callable[[str], Traffic] = Traffic
    """It returns the counters for a topic's replicas."""

    def wake(self, partition_id: PartitionId) -> None:
        """Have delayed requests look again, because the partition's leader, leader epoch or log start has changed.

        Rule 56: a delayed fetch completes on a change of leadership. A client that slept through it would wait at a
        broker that will never have more for it.
        """
        self.followers.wake(partition_id)
        for purgatory in (self.consumers, self.deletions, self.confirmations):
            purgatory.wake(partition_id)


def not_leader(partition: object) -> OttlaError:
    return OttlaError(
        ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {partition}", hint="refresh the metadata"
    )


class Leading:
    """One leader epoch of a partition that this broker leads.

    A caller that gets one need not check that this broker leads, until the next await: only `Replica` makes it and
    ends it, on the loop. After an await, `present` checks that. Until it ends, nothing else appends to the log or moves
    the high watermark, which is why it may trust `leader` to know both.
    """

    def __init__(
        self,
        disk: DiskLog,
        offsets: ReplicaOffsets,
        leader: Leader,
        former: Leading | None,
        guards: VerificationGuards,
        traffic: Traffic,
        context: ReplicaContext,
    ) -> None:
        """Begin an epoch. `former` is the Leading of an earlier epoch, if this broker has led in every epoch since.

        The log has stayed what it was, so what waits for the high watermark waits on.
        """
        self.id: Final = disk.id
        self.log: Final = disk.log
        self.disk: Final = disk
        self.offsets: Final = offsets
        self.leader: Final = leader
        """It is what this broker knows of its followers, and the ISR."""
        self.epoch: Final = leader.epoch
        self.deletions: Final = context.deletions
        """DeleteRecords waits here for the low watermark."""
        self.confirmations: Final = context.confirmations
        """Calls that need proof that this broker leads wait here."""
        self.newest_confirmation = 0
        self.waiters: Final[HighWatermarkWaiters] = HighWatermarkWaiters() if former is None else former.waiters
        self.successor: Leading | None = None
        """It is the Leading of the next epoch, if this broker leads that, too."""
        self._has_ended = False
        self._guards: Final = guards
        self._traffic: Final = traffic
        self._clock: Final = context.clock
        self._context: Final = context
        if former is not None:
            former.successor = self

    def __str__(self) -> str:
        return str(self.disk)

    # ---- its epoch -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin to commit: the epoch's start is known, so what is in the log may be committed from now on."""
        # What was copied as a follower becomes visible with the first steps of the high watermark. It is noted as
        # appended bytes, so that delayed consumers count it towards their min_bytes.
        if self.log.log_end_offset > self.offsets.high_watermark:
            self.waiters.on_appended(self.log.log_end_offset, self.log.size_bytes)
        # The offsets may be behind what the new `Leader` found when it was made: a lone replica commits everything at
        # once.
        self._after(moved=True)

    def end(self) -> None:
        """End the epoch. What waits for the high watermark waits on, because this broker may lead the next epoch,
        too."""
        self._has_ended = True

    def retire(self) -> None:
        """End the leadership for good: another broker leads, or none.

        What waits for the high watermark will not learn here whether it was committed, so it fails with an error that
        leaves that open (rule 10).
        """
        self._has_ended = True
        self.waiters.fail(not_leader(self))

    @property
    def has_retired(self) -> bool:
        """It tells whether another broker may have led since, so that what was appended here may have been
        truncated."""
        return self.waiters.have_failed

    def present(self) -> Leading:
        """Return the Leading of the newest epoch, if this broker has led in all epochs since this one.

        Raises NOT_LEADER_OR_FOLLOWER if it no longer leads.
        """
        leading = self
        while leading._has_ended:
            if leading.successor is None:
                raise not_leader(self)
            leading = leading.successor
        return leading

    # ---- appending -----------------------------------------------------------------------------------------------

    def expect(self, header: BatchHeader) -> None:
        """Note a batch that is not appended now, and comes again or waits (`Producers.expect`)."""
        self.log.producers.expect(header, self._clock.wall_ms())

    def append(
        self,
        records: Buffer,
        acks: int = 1,
        *,
        walk: Walk = Walk.WHOLE,
        transactional: bool = False,
        begins_at_zero: bool = False,
    ) -> AppendResult:
        """Check the records, give them offsets and write them, without a yield (I1: one writer).

        With `transactional`, batches of transactions are taken: the caller knows their transactional id, and that the
        transaction is open and has this partition. With `begins_at_zero`, an unknown producer has to begin with the
        sequence 0.

        Raises what `Log.append` raises, and NOT_ENOUGH_REPLICAS for acks=all below min.insync.replicas: then nothing
        was appended (rule 9: the minimum is checked at the append and again at the completion).
        """
        if acks == ACKS_ALL:
            self.check_min_isr()
        now_ms = self._clock.wall_ms()
        with self.disk.watching_the_disk():
            done = self.log.append(
                records,
                self.epoch,
                now_ms,
                walk=walk,
                transactional=transactional,
                begins_at_zero=begins_at_zero,
            )
        # A repeat has written nothing. Its bytes were counted when they came first.
        if not done.duplicate:
            self._on_appended(done, now_ms)
            # With LogAppendTime no record is older than now.
            if self.log.config.retention_ms >= 0 and done.log_append_time_ms < 0:
                self._count_past_retention(records, now_ms - self.log.config.retention_ms, now_ms)
        return done

    def _count_past_retention(self, records: Buffer, oldest_ms: int, now_ms: int) -> None:
        """Count records that are older than their topic's retention.

        A producer whose clock is wrong, or that writes history, loses such records soon. Its operator should hear of
        that.
        """
        if max_timestamp(records) >= oldest_ms:
            return
        past = [header for _, header in iter_headers(records) if 0 <= header.max_timestamp < oldest_ms]
        if past:
            records_past, by_ms = sum(header.record_count for header in past), oldest_ms - past[0].max_timestamp
            self._traffic.on_past_retention(str(self), records_past, by_ms, now_ms)

    def append_owned(self, batches: OwnedBatches) -> AppendResult:
        """Append for the owner of a shard. Whether it may append, and where, is checked in this step (I19).

        A repeat is found before the ISR is looked at: its batches are in the log, and NOT_ENOUGH_REPLICAS would tell
        the owner that they are not. Raises what `find_repeated` and `append_owned` raise, and NOT_ENOUGH_REPLICAS.
        """
        now_ms = self._clock.wall_ms()
        with self.disk.watching_the_disk():
            repeated = find_repeated(self.log, batches)
            if repeated is not None:
                return repeated
            self.check_min_isr()
            done = append_owned(self.log, batches, self.epoch, now_ms)
        self._on_appended(done, now_ms)
        return done

    def append_marker(self, end: TransactionEnd) -> AppendResult:
        """End a producer's transaction in this partition, without a yield. A repeat writes nothing.

        Raises NOT_ENOUGH_REPLICAS, TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH and KAFKA_STORAGE_ERROR.
        """
        repeated = find_repeated_marker(self.log, end)
        # Any marker destroys the guards of pending verifications, even a repeated one (rule 39). A batch that was
        # verified before it would otherwise open a transaction that no coordinator knows.
        self._guards.on_marker(end.producer_id)
        if repeated is not None:
            return repeated
        self.check_min_isr()
        now_ms = self._clock.wall_ms()
        with self.disk.watching_the_disk():
            done = append_marker(self.log, end, self.epoch, now_ms)
        self._on_appended(done, now_ms)
        return done

    def append_imported(self, records: bytes, expected_offset: int) -> AppendResult:
        """Write checked batches of another cluster's log at their own offsets, if the log ends where the import expects
        it.

        A repeat finds another end, so each batch is written once without a transaction. Raises OFFSET_MISMATCH,
        NOT_ENOUGH_REPLICAS, and what `Log.append_replicated` raises; then nothing was appended.
        """
        self.check_min_isr()
        if self.log.log_end_offset != expected_offset:
            raise OttlaError(
                ErrorCode.OFFSET_MISMATCH,
                f"{self} ends at offset {self.log.log_end_offset}, but the import continues from {expected_offset}",
                hint="import into a topic that has no other writer",
            )
        now_ms = self._clock.wall_ms()
        with self.disk.watching_the_disk():
            done = self.log.append_replicated(in_epoch(records, self.epoch), now_ms)
        self._on_appended(done, now_ms)
        return done

    def _on_appended(self, done: AppendResult, now_ms: int) -> None:
        self._traffic.bytes_in += done.size_bytes
        self._traffic.records_in += done.record_count
        # It is noted before the machine hears of the append: without followers it commits at once, and the step has to
        # find its bytes.
        self.waiters.on_appended(self.log.log_end_offset, done.size_bytes)
        self._context.followers.on_bytes(self.id, done.size_bytes)
        self._after(self.leader.on_appended(self.log.log_end_offset, self._clock.monotonic()))
        if self.log.is_flush_due(now_ms):
            self.disk.start_flush()

    def check_min_isr(
        self, code: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS, consequence: str = "nothing was appended"
    ) -> None:
        if not self.leader.has_min_isr:
            raise OttlaError(
                code,
                f"{self} has {counted(len(self.leader.isr), 'replica')} in sync, but min.insync.replicas is "
                f"{self.leader.effective_min_isr}: {consequence}",
                hint="try again when the other brokers are back in sync",
            )

    async def committed(self, end_offset: int) -> None:
        """Return once the high watermark has reached `end_offset`, which was appended here, for acks=all.

        Raises NOT_LEADER_OR_FOLLOWER if the leadership ended in the meantime, and NOT_ENOUGH_REPLICAS_AFTER_APPEND if
        the ISR became too small. In both cases the batch may survive (rules 9 and 10: these errors are indefinite).
        """
        # The append and this call are two steps. After a leadership in between, the high watermark may have passed
        # `end_offset` with another leader's records.
        if self.has_retired:
            raise not_leader(self)
        if self.offsets.high_watermark < end_offset:
            await self.waiters.until(end_offset)
        # The high watermark may have come from a larger ISR that has shrunk since. acks=all promises
        # min.insync.replicas at the completion as well.
        self.present().check_min_isr(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "the batch may survive")

    # ---- its followers -------------------------------------------------------------------------------------------

    def on_follower_fetch(
        self, follower_id: int, broker_epoch: int, offset: int, last_epoch: int, log_start_offset: int
    ) -> EpochStart | None:
        """Note that a follower has everything from `log_start_offset` up to `offset`, the last of it in `last_epoch`.

        If its log has left this one, nothing is noted, and the end of that epoch in this log is returned. Raises
        NOT_LEADER_OR_FOLLOWER for a broker that is not a replica, and OFFSET_OUT_OF_RANGE for offsets outside this log.
        """
        if not self.leader.is_replica(follower_id):
            raise OttlaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {follower_id} has no replica of {self}",
                hint="the metadata of one of the two brokers is behind",
            )
        log = self.log
        # Divergence is checked before the end of the range. A follower whose log is longer must truncate by epochs; an
        # out-of-range error would have it discard its whole log.
        # A follower that ends before this log's start is not compared: it has nothing that this log has. Nor does this
        # log still know where its first epoch really began: it seems to begin at the log's start.
        if offset >= log.log_start_offset:
            diverging = find_divergence(log.epochs, log.log_end_offset, last_epoch, offset)
            if diverging is not None:
                return diverging
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise OttlaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"follower {follower_id} of {self} is at offset {offset}, but the leader's log goes from "
                f"{log.log_start_offset} to {log.log_end_offset}",
            )
        moved = self.leader.on_fetch(
            follower_id,
            broker_epoch,
            offset,
            self._clock.monotonic(),
            log_start_offset=log_start_offset,
            is_purging=log.compaction.is_purging,
        )
        self._after(moved)
        self.deletions.wake(self.id)
        return None

    def check_has_met_purged(self, follower_id: int, offset: int) -> int:
        """Return the offset before which tombstones and markers may be gone from this log, for a follower to which it
        was just read from `offset` on, or 0 if the follower has met all of them.

        Raises OFFSET_OUT_OF_RANGE if one of them may have been about what the follower has. The follower then begins
        anew. The check comes after the read: what is gone by then may be missing in what was read.
        """
        purged_before = self.log.compaction.purged_before
        if offset >= purged_before:
            return 0
        if self.leader.may_lack(follower_id, offset, purged_before):
            raise OttlaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"follower {follower_id} of {self} is at offset {offset}, but tombstones or markers of transactions "
                f"before offset {purged_before} are gone from the leader's log",
            )
        return purged_before

    def on_partition(self, partition: Partition) -> None:
        """Apply a decision of the controller that is no new leadership."""
        self._after(self.leader.on_partition(partition, self._clock.monotonic()))

    def on_tick(self) -> None:
        """Act on the passing of time, or on a broker that came or went."""
        if not self._has_ended:
            self._after(self.leader.on_tick(self._clock.monotonic()))
            self.deletions.wake(self.id)  # a follower that they wait for may have died
            self.confirmations.wake(self.id)
        # The look comes after the tick: the last proposal may just have been made, and needs to be looked after.
        if self._has_ended or not self.leader.needs_ticks:
            self._context.ticking.pop(self, None)

    def _after(self, moved: bool) -> None:
        """Act on an event of the machine: complete waiters of the high watermark, and send a proposal."""
        if moved:
            high_watermark = self.leader.high_watermark
            self.offsets.on_step(high_watermark, self.waiters.on_high_watermark(high_watermark))
            # Readers of a follower wait for the high watermark, too (rule 18: a fetch with nothing new completes when
            # the high watermark moved).
            self._context.followers.on_high_watermark(self.id)
        if self.leader.proposal is not None:
            self._context.on_proposal(self)
        # The next tick finds out whether time still matters, and takes this leadership out again if not.
        self._context.ticking[self] = None

    @property
    def proposal(self) -> IsrProposal | None:
        """This is the ISR that the controller is to decide on. It is None if there is none, or once this epoch has
        ended."""
        return None if self._has_ended else self.leader.proposal

    def on_rejected(self, proposal: IsrProposal) -> None:
        if not self._has_ended:
            self.leader.on_rejected(proposal)
            self._context.ticking[self] = None

    # ---- proof that it leads still (leadership_confirmation) -----------------------------------------------------

    def begin_confirmation(self) -> int:
        """Return the number of a check that is made now. The followers' delayed fetches complete for it."""
        self.newest_confirmation = self.confirmations.begin()
        # A follower on an idle partition has its fetch parked for half a second. It is completed now, so that the next
        # one, which proves something, comes at once.
        self._context.followers.confirm(self.id)
        return self.newest_confirmation

    def on_seen_confirmation(self, follower_id: int, number: int) -> None:
        """Note that a follower in this leader epoch has sent its fetch after check `number`."""
        self.leader.on_seen_confirmation(follower_id, number)
        self.confirmations.wake(self.id)

    def is_confirmed(self, number: int) -> bool:
        """Return whether it is proved that this broker led when check `number` was made.

        If no other broker can be elected, this broker's registration is the proof: without it the controller would
        elect no broker either.
        """
        return self.leader.has_led_since(number) or (self.leader.is_alone and self._context.is_registered())

    # ---- its log's ends ------------------------------------------------------------------------------------------

    async def offset_for_time(self, timestamp_ms: int, *, read_committed: bool = False) -> FoundOffset | None:
        """Return the first record at or after `timestamp_ms`, or what Kafka's -1, -2 and -3 stand for. Return None if
        there is none.

        For readers of committed records everything ends at the last stable offset. Raises OFFSET_NOT_AVAILABLE while a
        new leader does not know yet how much is committed (KIP-207; rule 15: its high watermark may be behind its
        predecessor's).
        """
        limit = self.offsets.last_stable_offset if read_committed else self.offsets.high_watermark
        with self.disk.watching_the_disk():
            if timestamp_ms in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
                found = self.log.offset_for_time(timestamp_ms, limit)  # this reads nothing
            else:
                found = await self._context.threads.look_up(self.log.offset_for_time, timestamp_ms, limit)
        # A record that was found below the high watermark is committed, so the lookup is right even on a new leader.
        # "None" and "the end" are not, since committed records may follow.
        if (found is None or timestamp_ms == LATEST_TIMESTAMP) and not self.leader.is_settled:
            raise OttlaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self} has a new leader, which does not know its high watermark yet",
                hint="try again",
            )
        return found

    @property
    def low_watermark(self) -> int:
        """This is the offset before which records are gone on every live replica, as far as their fetches show."""
        return self.leader.low_watermark(self.log.log_start_offset)

    def delete_records(self, before_offset: int) -> int:
        """Make everything below `before_offset` (-1: the high watermark) unreadable here, and return that offset.

        Raises POLICY_VIOLATION if cleanup.policy does not have delete: a compacted topic keeps its newest values.
        """
        if not self.log.config.deletes:
            raise OttlaError(
                ErrorCode.POLICY_VIOLATION,
                f"records of {self} can't be deleted: the topic's cleanup.policy does not include delete",
                hint="delete keys with tombstones, or set cleanup.policy to compact,delete",
            )
        offset = self.offsets.high_watermark if before_offset == -1 else before_offset
        self.begin_at(offset)
        return offset

    def begin_at(self, offset: int) -> None:
        """Serve nothing before `offset` from now on. Raises OFFSET_OUT_OF_RANGE above the high watermark."""
        with self.disk.watching_the_disk():
            self.log.delete_records_before(offset, self.offsets.high_watermark)
        self._context.wake(self.id)
