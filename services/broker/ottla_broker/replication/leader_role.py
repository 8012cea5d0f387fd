"""What a replica does while it leads: append, answer followers, acknowledge, confirm that it leads still.

Everything here runs on the loop and an append never yields (I1).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ottla_broker.machines.epochs import EpochStart
from ottla_broker.machines.partition import Leader, find_divergence
from ottla_broker.machines.transactions import TransactionEnd
from ottla_broker.replication.fetch_purgatory import ConfirmationPurgatory, FetchPurgatory
from ottla_broker.replication.pending import PendingBytes
from ottla_broker.replication.replica_state import ReplicaState
from ottla_broker.storage.log import AppendResult
from ottla_broker.storage.owned import OwnedBatches, append_owned, find_repeated
from ottla_broker.storage.positioned import in_epoch
from ottla_broker.storage.reading import FoundOffset
from ottla_broker.storage.transactions.markers import append_marker, find_repeated_marker
from ottla_broker.storage.validator import check_appendable, check_imported
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla_core.plural import counted
from ottla_core.records.batch import BatchHeader, Buffer, iter_headers, max_timestamp

ACKS_ALL: Final = -1


class LeaderRole(ReplicaState):
    # ---- appending -----------------------------------------------------------------------------------------------

    async def look_inside(self, records: bytes) -> bool:
        """Check what `append` would check and takes long, in a thread; whether there was any need to.

        Raises what `Log.append` raises.
        """
        config = self.log.config
        if config.compacts:
            check = partial(check_appendable, records, config, self._clock.wall_ms(), transactional=True)
            await self._threads.work(check)
        await self._context.turn.rest()
        return config.compacts

    def expect(self, header: BatchHeader) -> None:
        """Note a batch that is not appended now, and comes again or waits (`Producers.expect`)."""
        if self.leads:
            self.log.producers.expect(header, self._clock.wall_ms())

    @property
    def pending_bytes(self) -> PendingBytes:
        return self._context.pending_bytes

    def append(
        self,
        records: Buffer,
        acks: int = 1,
        *,
        looked_inside: bool = False,
        transactional: bool = False,
        begins_at_zero: bool = False,
    ) -> AppendResult:
        """Check, give offsets, write; without a yield (I1). `looked_inside`: `look_inside` has, into these records.

        `transactional`: batches of transactions are taken. The caller knows their transactional id, and that the
        transaction is open and has this partition. `begins_at_zero`: an unknown producer begins with the sequence 0.

        Raises what `Log.append` raises, and NOT_ENOUGH_REPLICAS for acks=all below min.insync.replicas: then nothing
        was appended (rule 9).
        """
        leader = self.check_leader(None)
        if acks == ACKS_ALL:
            self._check_min_isr(leader)
        now_ms = self._clock.wall_ms()
        with self._watching_the_disk():
            done = self.log.append(
                records,
                leader.epoch,
                now_ms,
                looked_inside=looked_inside,
                transactional=transactional,
                begins_at_zero=begins_at_zero,
            )
        if not done.duplicate:
            self._on_appended(leader, done, now_ms)
            if self.log.config.retention_ms >= 0 and done.log_append_time_ms < 0:
                self._count_past_retention(records, now_ms - self.log.config.retention_ms, now_ms)
        return done

    def _count_past_retention(self, records: Buffer, oldest_ms: int, now_ms: int) -> None:
        """A producer whose clock is wrong, or that writes history, loses its records soon: better to hear of it."""
        if max_timestamp(records) >= oldest_ms:
            return
        past = [header for _, header in iter_headers(records) if 0 <= header.max_timestamp < oldest_ms]
        if past:
            records_past, by_ms = sum(header.record_count for header in past), oldest_ms - past[0].max_timestamp
            self.traffic.on_past_retention(str(self), records_past, by_ms, now_ms)

    def append_owned(self, batches: OwnedBatches, leader_epoch: int) -> AppendResult:
        """Append for the owner of a shard; whether it may append, and where, is checked in this step.

        What is a repeat is found before the ISR is looked at: it must not be rejected as if it were not in the log.
        Raises what `check_leader`, `find_repeated` and `append_owned` raise, and NOT_ENOUGH_REPLICAS.
        """
        leader = self.check_leader(leader_epoch)
        now_ms = self._clock.wall_ms()
        with self._watching_the_disk():
            repeated = find_repeated(self.log, batches)
            if repeated is not None:
                return repeated
            self._check_min_isr(leader)
            done = append_owned(self.log, batches, leader.epoch, now_ms)
        self._on_appended(leader, done, now_ms)
        return done

    def append_marker(self, end: TransactionEnd) -> AppendResult:
        """End a producer's transaction here, without a yield; a repeat writes nothing. Raises NOT_LEADER_OR_FOLLOWER,
        NOT_ENOUGH_REPLICAS, TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR."""
        leader = self.check_leader(None)
        repeated = find_repeated_marker(self.log, end)
        self.guards.on_marker(end.producer_id)
        if repeated is not None:
            return repeated
        self._check_min_isr(leader)
        now_ms = self._clock.wall_ms()
        with self._watching_the_disk():
            done = append_marker(self.log, end, leader.epoch, now_ms)
        self._on_appended(leader, done, now_ms)
        return done

    async def check_imported(self, records: bytes) -> None:
        """In a thread. Raises INVALID_RECORD, RECORD_LIST_TOO_LARGE."""
        await self._threads.work(check_imported, records, self.log.config)

    async def read_back(self, offset: int, max_bytes: int) -> bytes:
        """Like `Log.read`, over all that was appended."""
        return await self._threads.look_up(self.log.read, offset, max_bytes, self.log.log_end_offset)

    def append_imported(self, records: bytes, expected_offset: int) -> AppendResult:
        """Write checked batches of another cluster's log at their own offsets, if the log ends where it is expected to.

        Raises OFFSET_MISMATCH, NOT_ENOUGH_REPLICAS, and what `Log.append_replicated` raises; nothing was appended then.
        """
        leader = self.check_leader(None)
        self._check_min_isr(leader)
        if self.log.log_end_offset != expected_offset:
            raise OttlaError(
                ErrorCode.OFFSET_MISMATCH,
                f"{self} ends at offset {self.log.log_end_offset}, but the import continues from {expected_offset}",
                hint="import into a topic that has no other writer",
            )
        now_ms = self._clock.wall_ms()
        with self._watching_the_disk():
            done = self.log.append_replicated(in_epoch(records, leader.epoch), now_ms)
        self._on_appended(leader, done, now_ms)
        return done

    def _on_appended(self, leader: Leader, done: AppendResult, now_ms: int) -> None:
        self.traffic.bytes_in += done.size_bytes
        self.traffic.records_in += done.record_count
        self._high_watermark_waiters.on_appended(self.log.log_end_offset, done.size_bytes)
        self._context.followers.on_appended(self.id, done.size_bytes)
        self._after(leader.on_appended(self.log.log_end_offset, self._now()))
        if self.log.is_flush_due(now_ms):
            self.start_flush()

    def _check_min_isr(self, leader: Leader) -> None:
        if not leader.has_min_isr:
            raise self._not_enough(ErrorCode.NOT_ENOUGH_REPLICAS, leader, "nothing was appended")

    async def committed(self, end_offset: int, leadership: int) -> None:
        """Return once the high watermark has reached `end_offset`, for acks=all; `leadership` is that of the append.

        Raises NOT_LEADER_OR_FOLLOWER where leadership went meanwhile, NOT_ENOUGH_REPLICAS_AFTER_APPEND where the ISR
        became too small: either way the batch may survive (rules 9 and 10).
        """
        if leadership != self._leadership:
            raise self._not_leader()
        if self.high_watermark < end_offset:
            await self._high_watermark_waiters.until(end_offset)
        leader = self.check_leader(None)
        if not leader.has_min_isr:
            raise self._not_enough(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, leader, "the batch may survive")

    def _not_enough(self, code: ErrorCode, leader: Leader, consequence: str) -> OttlaError:
        return OttlaError(
            code,
            f"{self} has {counted(len(leader.isr), 'replica')} in sync, but min.insync.replicas is "
            f"{leader.effective_min_isr}: {consequence}",
            hint="try again when the other brokers are back in sync",
        )

    # ---- its followers -------------------------------------------------------------------------------------------

    def on_follower_fetch(
        self, follower_id: int, broker_epoch: int, offset: int, last_epoch: int, log_start_offset: int
    ) -> EpochStart | None:
        """A follower has everything from `log_start_offset` up to `offset`, the last of it in `last_epoch`.

        Where its log has left this one, nothing is noted and the end of that epoch here is returned. Raises
        NOT_LEADER_OR_FOLLOWER for a broker that is not a replica, OFFSET_OUT_OF_RANGE for what this log never held.
        """
        leader = self.check_leader(None)
        if not leader.is_replica(follower_id):
            raise OttlaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {follower_id} has no replica of {self}",
                hint="the metadata of one of the two brokers is behind",
            )
        diverging = find_divergence(self.log.epochs, self.log.log_end_offset, last_epoch, offset)
        if diverging is not None:
            return diverging
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise OttlaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"follower {follower_id} of {self} is at offset {offset}, but the leader's log goes from "
                f"{self.log.log_start_offset} to {self.log.log_end_offset}",
            )
        self._after(leader.on_fetch(follower_id, broker_epoch, offset, self._now(), log_start_offset=log_start_offset))
        self._context.deletions.wake(self.id)
        return None

    @property
    def confirmations(self) -> ConfirmationPurgatory:
        """Where calls that need proof that this broker leads are delayed."""
        return self._context.confirmations

    def begin_confirmation(self) -> int:
        """The number of a check that is made now; the followers' delayed fetches are answered for it."""
        self.newest_confirmation = self.confirmations.begin()
        self._context.followers.confirm(self.id)
        return self.newest_confirmation

    def on_seen_confirmation(self, follower_id: int, number: int) -> None:
        """A follower in this leader's epoch has sent its fetch after check `number`."""
        self.check_leader(None).on_seen_confirmation(follower_id, number)
        self.confirmations.wake(self.id)

    # ---- its log's ends ------------------------------------------------------------------------------------------

    async def offset_for_time(self, timestamp_ms: int, *, read_committed: bool = False) -> FoundOffset | None:
        """The first record at or after `timestamp_ms`, or what Kafka's -1, -2, -3 stand for; None where there is none.
        For readers of committed records all ends at the last stable offset.

        Raises OFFSET_NOT_AVAILABLE while a new leader does not know yet how much is committed (KIP-207, rule 15).
        """
        leader = self.check_leader(None)
        limit = self.last_stable_offset if read_committed else leader.high_watermark
        with self._watching_the_disk():
            if timestamp_ms in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
                found = self.log.offset_for_time(timestamp_ms, limit)  # which reads nothing
            else:
                found = await self._threads.look_up(self.log.offset_for_time, timestamp_ms, limit)
        if (found is None or timestamp_ms == LATEST_TIMESTAMP) and not leader.is_settled:
            raise OttlaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self} has a new leader, which does not know its high watermark yet",
                hint="try again",
            )
        return found

    @property
    def deletions(self) -> FetchPurgatory:
        """Where DeleteRecords waits for the low watermark."""
        return self._context.deletions

    @property
    def low_watermark(self) -> int:
        """Records before it are gone on every live replica, as far as their fetches show; on the leader only."""
        return self.check_leader(None).low_watermark(self.log.log_start_offset)

    def delete_records(self, before_offset: int) -> int:
        """Make everything below `before_offset` (-1: the high watermark) unreadable here; that offset.

        Raises POLICY_VIOLATION where cleanup.policy does not have delete: a compacted topic keeps its newest values.
        """
        high_watermark = self.check_leader(None).high_watermark
        if not self.log.config.deletes:
            raise OttlaError(
                ErrorCode.POLICY_VIOLATION,
                f"records of {self} can't be deleted: the topic's cleanup.policy does not include delete",
                hint="delete keys with tombstones, or set cleanup.policy to compact,delete",
            )
        offset = high_watermark if before_offset == -1 else before_offset
        self.begin_at(offset)
        return offset

    def begin_at(self, offset: int) -> None:
        """Serve nothing before `offset` from now on. Raises OFFSET_OUT_OF_RANGE above the high watermark."""
        high_watermark = self.check_leader(None).high_watermark
        with self._watching_the_disk():
            self.log.delete_records_before(offset, high_watermark)
        self._wake()
