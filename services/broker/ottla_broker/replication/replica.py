"""One partition as this broker holds it: its log, its part in the partition, and what may be done with it.

It leads, or follows a leader, or neither for a moment. The leader appends and answers; a follower writes what its
leader wrote. Who asks with another leader epoch is told which side is behind (rule 5). Everything here runs on the
loop and an append never yields (I1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla_broker.disk_threads import DiskThreads
from ottla_broker.machines.epochs import EpochStart
from ottla_broker.machines.partition import Leader, Proposal, find_cut, find_divergence
from ottla_broker.replication.disk_log import HeldLog
from ottla_broker.replication.fetch_purgatory import Checks, Waiters
from ottla_broker.replication.high_watermark_waiters import Commits
from ottla_broker.replication.pending import PendingActs, PendingBytes
from ottla_broker.storage.log import Appended, Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.owned import OwnedBatch, append_owned, find_repeated
from ottla_broker.storage.reading import FoundOffset
from ottla_broker.storage.validator import check_appendable
from ottla_broker.topic_metrics import Traffic
from ottla_core.clock import Clock
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_LEADER, PartitionId
from ottla_core.records.batch import Buffer
from ottla_core.slices import Slice

ACKS_ALL: Final = -1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every replica of a broker shares. `live`: who may be in an ISR, with the epoch of its present life."""

    broker_id: int
    clock: Clock
    threads: DiskThreads
    on_disk_failure: Callable[[OttlaError], None]
    on_proposal: Callable[[Replica], None]
    """An ISR is to be proposed to the controller (`Replica.proposal`)."""
    live: Mapping[int, int]
    consumers: Waiters
    followers: Waiters
    deletions: Waiters
    checks: Checks
    is_registered: Callable[[], bool] = lambda: True
    read_only: Set[int] = frozenset()
    """Brokers whose disks take no appends for the moment."""
    pending_bytes: PendingBytes = field(default_factory=PendingBytes)
    turn: Slice = field(default_factory=Slice)
    """Of what is appended later than it came, for all partitions."""
    traffic: Callable[[str], Traffic] = Traffic
    """What a topic's replicas count in."""


class LeaderAnswer(NamedTuple):
    """What a leader says of one partition to a follower's fetch."""

    records: bytes
    high_watermark: int
    log_start_offset: int


class Replica(HeldLog):
    def __init__(
        self, partition_id: PartitionId, topic: str, log: Log, around: Surroundings, *, high_watermark: int = 0
    ) -> None:
        super().__init__(partition_id, topic, log, around.threads, around.clock, around.on_disk_failure)
        self._around: Final = around
        self._commits: Final = Commits()
        self._leader: Leader | None = None
        self._partition = Partition(replicas=(), leader_epoch=-1, partition_epoch=-1)
        self._high_watermark = high_watermark
        self._lag_max_s = 30.0
        self._tenures = 0
        self._working: asyncio.Future[object] | None = None
        self.newest_check = 0
        self.traffic: Final = around.traffic(topic)
        self.pending: Final = PendingActs()
        """What is to be appended before anything that comes now."""

    # ---- its part in the partition -------------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def tenure(self) -> int:
        """Changes whenever this broker ceases to lead: what it appended before may have been cut off since."""
        return self._tenures

    @property
    def leads(self) -> bool:
        return self._leader is not None

    @property
    def leader_id(self) -> int | None:
        """The broker to copy from; None where this one leads, and where nobody does."""
        leader = self._partition.leader
        return None if leader in (NO_LEADER, self._around.broker_id) else leader

    @property
    def high_watermark(self) -> int:
        """Up to where every in-sync replica has the log, as far as is known here."""
        return self._high_watermark if self._leader is None else self._leader.high_watermark

    @property
    def is_under_replicated(self) -> bool:
        return self._leader is not None and len(self._leader.isr) < len(self._leader.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        return self._leader is not None and not self._leader.has_min_isr

    @property
    def proposal(self) -> Proposal | None:
        return None if self._leader is None else self._leader.proposal

    def configure(self, config: LogConfig, lag_max_s: float) -> None:
        if self.log.config != config:
            self.log.config = config
        self._lag_max_s = lag_max_s
        if self._leader is not None:
            self._leader.min_isr, self._leader.lag_max_s = config.min_insync_replicas, lag_max_s

    def must_become_leader(self, partition: Partition) -> bool:
        """Whether `step_back`, the start of the epoch on the platter, and `become_leader` are what is next."""
        newer = partition.leader_epoch > self.leader_epoch or self._leader is None
        return partition.leader == self._around.broker_id and newer and partition.leader_epoch >= self.leader_epoch

    def on_partition(self, partition: Partition) -> None:
        """What the controller decided, short of leading anew. A lower leader epoch is an old story (rule C10)."""
        if partition.leader_epoch < self.leader_epoch:
            return
        newer = partition.leader_epoch > self.leader_epoch
        if self._leader is not None and not newer and partition.leader == self._around.broker_id:
            self._partition = partition
            self._after(self._leader.on_partition(partition, self._now()))
        elif self._leader is not None or newer:
            self._retire(partition)
        else:
            self._partition = partition

    def step_back(self) -> None:
        """Take nothing more, from clients or a leader, while the start of the next epoch is written.

        Who waits for the high watermark waits on where this broker goes on leading: its log stays what it is.
        """
        self._high_watermark, self._leader = self.high_watermark, None
        self._partition = Partition(replicas=(), leader_epoch=self.leader_epoch, partition_epoch=-1)

    async def begin_epoch(self, leader_epoch: int) -> None:
        """Take nothing more until the start of the epoch is on the platter; `become_leader` is next."""
        self.step_back()
        await self.until_whole()
        await self._in_thread(self.log.assign_epoch, leader_epoch)

    def become_leader(self, partition: Partition) -> None:
        """Lead the epoch, whose start the log knows already (rule 4), or else before the next append to it."""
        known = self.log.is_read_only or self.log.epochs.latest == partition.leader_epoch
        assert known, f"{self}: the epoch's start has to be written first"
        self._partition = partition
        self._leader = Leader(
            self._around.broker_id,
            partition,
            log_end_offset=self.log.log_end_offset,
            high_watermark=self._high_watermark,
            now=self._now(),
            live=self._around.live,
            read_only=self._around.read_only,
            min_isr=self.log.config.min_insync_replicas,
            lag_max_s=self._lag_max_s,
        )
        if self.log.log_end_offset > self._high_watermark:  # copied, and not yet visible: who waits hears of it then
            self._commits.on_appended(self.log.log_end_offset, self.log.size_bytes)
        self._after(moved=True)
        self._wake()

    def on_tick(self) -> None:
        """Time has passed, or a broker came or went."""
        if self._leader is not None:
            self._after(self._leader.on_tick(self._now()))
            self._around.deletions.wake(self.id)  # whom they wait for may have died
            self.checks.wake(self.id)

    def on_refused(self, proposal: Proposal) -> None:
        if self._leader is not None:
            self._leader.on_refused(proposal)

    def _retire(self, partition: Partition) -> None:
        """Somebody else leads, or nobody: what waits for the high watermark will not learn of it here (rule 10)."""
        self._high_watermark, self._leader = self.high_watermark, None
        self._partition = partition
        self._tenures += 1
        self._commits.fail(self._not_leader())
        self._wake()

    def close(self) -> None:
        """The partition is deleted, or is no longer this broker's."""
        self._retire(Partition(replicas=(), leader_epoch=self.leader_epoch))

    def _after(self, moved: bool) -> None:
        """What an event of the leader brings: news for who waits for the high watermark, and a proposal to send."""
        assert self._leader is not None
        if moved:
            self._around.consumers.on_bytes(self.id, self._commits.on_high_watermark(self._leader.high_watermark))
            self._around.followers.wake(self.id)  # a follower's readers wait for it too (rule 18)
        if self._leader.proposal is not None:
            self._around.on_proposal(self)

    def _wake(self) -> None:
        for waiters in (self._around.consumers, self._around.followers, self._around.deletions, self.checks):
            waiters.wake(self.id)

    def _now(self) -> float:
        return self._clock.monotonic()

    # ---- checks --------------------------------------------------------------------------------------------------

    def check_epoch(self, known_epoch: int | None) -> None:
        """Raise unless the caller knows the present leader epoch, or none (KIP-320, rule 5)."""
        if known_epoch is None or known_epoch == self.leader_epoch:
            return
        if known_epoch > self.leader_epoch:
            raise OttlaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self} is at leader epoch {self.leader_epoch} here, the client knows {known_epoch}",
                hint="this broker's metadata is behind; try again",
            )
        raise OttlaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{self} is at leader epoch {self.leader_epoch}, the client knows {known_epoch}",
            hint="refresh the metadata",
        )

    def check_leader(self, known_epoch: int | None) -> Leader:
        """The leader's part. Raises unless this broker leads in the epoch that the client knows."""
        self.check_epoch(known_epoch)
        if self._leader is None:
            raise self._not_leader()
        return self._leader

    def _not_leader(self) -> OttlaError:
        return OttlaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self}", hint="refresh the metadata"
        )

    # ---- the leader ----------------------------------------------------------------------------------------------

    async def look_inside(self, records: bytes) -> bool:
        """Check what `append` would check and takes long, in a thread; whether there was any need to.

        Raises what `Log.append` raises.
        """
        config = self.log.config
        if config.compacts:
            await self._threads.work(check_appendable, records, config, self._clock.wall_ms())
        await self._around.turn.rest()
        return config.compacts

    @property
    def pending_bytes(self) -> PendingBytes:
        return self._around.pending_bytes

    def append(self, records: Buffer, acks: int = 1, *, looked_inside: bool = False) -> Appended:
        """Check, give offsets, write; without a yield (I1). `looked_inside`: `look_inside` has, into these records.

        Raises what `Log.append` raises, and NOT_ENOUGH_REPLICAS for acks=all below min.insync.replicas: then nothing
        was appended (rule 9).
        """
        leader = self.check_leader(None)
        if acks == ACKS_ALL:
            self._check_min_isr(leader)
        now_ms = self._clock.wall_ms()
        with self._watching_the_disk():
            done = self.log.append(records, leader.epoch, now_ms, looked_inside=looked_inside)
        if not done.duplicate:
            self._on_appended(leader, done, now_ms)
        return done

    def append_owned(self, batch: OwnedBatch, leader_epoch: int) -> Appended:
        """The same for the owner of a shard; whether it may append, and where, is compared in this step.

        What is a repeat is found before the ISR is looked at: it must not be refused as if it were not in the log.
        Raises what `check_leader`, `find_repeated` and `append_owned` raise, and NOT_ENOUGH_REPLICAS.
        """
        leader = self.check_leader(leader_epoch)
        now_ms = self._clock.wall_ms()
        with self._watching_the_disk():
            repeated = find_repeated(self.log, batch)
            if repeated is not None:
                return repeated
            self._check_min_isr(leader)
            done = append_owned(self.log, batch, leader.epoch, now_ms)
        self._on_appended(leader, done, now_ms)
        return done

    def _on_appended(self, leader: Leader, done: Appended, now_ms: int) -> None:
        self.traffic.bytes_in += done.size_bytes
        self.traffic.records_in += done.record_count
        self._commits.on_appended(self.log.log_end_offset, done.size_bytes)
        self._around.followers.on_bytes(self.id, done.size_bytes)
        self._after(leader.on_appended(self.log.log_end_offset, self._now()))
        if self.log.is_flush_due(now_ms):
            self.start_flush()

    def _check_min_isr(self, leader: Leader) -> None:
        if not leader.has_min_isr:
            raise self._not_enough(ErrorCode.NOT_ENOUGH_REPLICAS, leader, "nothing was appended")

    async def committed(self, end_offset: int, tenure: int) -> None:
        """Return once the high watermark has reached `end_offset`, for acks=all; `tenure` is that of the append.

        Raises NOT_LEADER_OR_FOLLOWER where leadership went meanwhile, NOT_ENOUGH_REPLICAS_AFTER_APPEND where the ISR
        became too small: either way the batch may survive (rules 9 and 10).
        """
        if tenure != self._tenures:
            raise self._not_leader()
        if self.high_watermark < end_offset:
            await self._commits.until(end_offset)
        leader = self.check_leader(None)
        if not leader.has_min_isr:
            raise self._not_enough(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, leader, "the batch may survive")

    def _not_enough(self, code: ErrorCode, leader: Leader, consequence: str) -> OttlaError:
        return OttlaError(
            code,
            f"{self} has {len(leader.isr)} replicas in sync and min.insync.replicas is {leader.effective_min_isr}: "
            f"{consequence}",
            hint="try again when the other brokers are back",
        )

    def on_follower_fetch(
        self, follower_id: int, broker_epoch: int, offset: int, last_epoch: int, log_start_offset: int
    ) -> EpochStart | None:
        """A follower has everything from `log_start_offset` up to `offset`, the last of it in `last_epoch`.

        Where its log has left this one, nothing is noted and it is told the end of that epoch here. Raises
        NOT_LEADER_OR_FOLLOWER for who is no replica, OFFSET_OUT_OF_RANGE for what this log never held.
        """
        leader = self.check_leader(None)
        if not leader.is_replica(follower_id):
            raise OttlaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {follower_id} has no replica of {self}",
                hint="its metadata, or this broker's, is behind",
            )
        diverging = find_divergence(self.log.epochs, self.log.log_end_offset, last_epoch, offset)
        if diverging is not None:
            return diverging
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise OttlaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"follower {follower_id} of {self} is at {offset}, and the leader's log goes from "
                f"{self.log.log_start_offset} to {self.log.log_end_offset}",
            )
        self._after(leader.on_fetch(follower_id, broker_epoch, offset, self._now(), log_start_offset=log_start_offset))
        self._around.deletions.wake(self.id)
        return None

    @property
    def checks(self) -> Checks:
        """Where who waits for proof that this broker leads is parked."""
        return self._around.checks

    @property
    def is_registered(self) -> bool:
        """Whether this broker holds its registration, as far as it knows."""
        return self._around.is_registered()

    def begin_check(self) -> int:
        """The number of a check that is made now; the followers' parked fetches are answered for it."""
        self.newest_check = self.checks.begin()
        self._around.followers.wake(self.id)
        return self.newest_check

    def on_seen_check(self, follower_id: int, number: int) -> None:
        """A follower in this leader's epoch has sent its fetch after check `number`."""
        self.check_leader(None).on_seen_check(follower_id, number)
        self.checks.wake(self.id)

    # ---- the follower --------------------------------------------------------------------------------------------

    def on_fetched(self, offset: int, leader_epoch: int, answer: LeaderAnswer) -> None:
        """Write what the leader answered to a fetch from `offset` in that leader epoch; late answers change nothing.

        Raises what `Log.append_replicated` raises.
        """
        if not self._follows(leader_epoch) or offset != self.log.log_end_offset:
            return
        with self._watching_the_disk():
            if answer.records:
                self.log.append_replicated(answer.records, self._clock.wall_ms())
            if self.log.is_flush_due(self._clock.wall_ms()):
                self.start_flush()
            self._on_leader_high_watermark(answer.high_watermark)
            if self.log.log_start_offset < answer.log_start_offset <= self._high_watermark:  # DeleteRecords, there
                self.log.delete_records_before(answer.log_start_offset, self._high_watermark)

    def _on_leader_high_watermark(self, high_watermark: int) -> None:
        """A new leader may know an older one for a while (rule 15): what was committed stays so."""
        before = self._high_watermark
        self._high_watermark = max(before, min(high_watermark, self.log.log_end_offset))
        if self._high_watermark > before:
            self._around.consumers.wake(self.id)

    async def on_diverging(self, leader_epoch: int, leader_end: EpochStart) -> None:
        """Cut the log where it leaves the leader's, whose end of the epoch asked for is given (rule 2)."""
        if self._follows(leader_epoch):
            log = self.log
            cut_at = find_cut(log.epochs, log.log_end_offset, self._high_watermark, leader_end)
            await self._cut(log.truncate_to, cut_at)

    async def on_out_of_range(self, leader_epoch: int, leader_start: int) -> None:
        """The leader's log does not hold what would come next here: begin anew where it begins."""
        if self._follows(leader_epoch):
            await self._cut(self.log.truncate_fully_and_start_at, leader_start)

    async def until_whole(self) -> None:
        """Return once no thread has the log in hand. What it does goes on where who waited for it has gone."""
        while self._working is not None:
            await asyncio.wait({self._working})

    @property
    def is_in_a_thread(self) -> bool:
        """Whether a thread has the log in hand, and nothing is written to it by anybody else."""
        return self._working is not None

    def _follows(self, leader_epoch: int) -> bool:
        """Whether an answer of the leader of that epoch is to be acted upon."""
        return self.leader_id is not None and leader_epoch == self.leader_epoch and self._working is None

    async def _in_thread(self, work: Callable[[int], object], argument: int, *, is_cut: bool = False) -> None:
        """What waits for the disk. Never two at a time on one log, whoever has given up waiting for the first."""
        assert self._working is None, f"{self}: a thread has the log in hand already"
        run = self._threads.cut if is_cut else self._threads.keep
        self._working = asyncio.ensure_future(run(work, argument))
        self._working.add_done_callback(self._on_worked)
        with self._watching_the_disk():
            await asyncio.shield(self._working)

    def _on_worked(self, done: asyncio.Future[object]) -> None:
        """Here and not after the wait, which may have been given up: the log may end earlier now."""
        self._working = None
        if not done.cancelled():
            done.exception()  # told to who waits, if anybody does
        self._high_watermark = max(self.log.log_start_offset, min(self._high_watermark, self.log.log_end_offset))
        self._around.consumers.wake(self.id)

    async def _cut(self, cut: Callable[[int], object], offset: int) -> None:
        before, leader_id = self.log.log_end_offset, self.leader_id
        committed = self._high_watermark - offset
        await self._in_thread(cut, offset, is_cut=True)
        end = self.log.log_end_offset
        _log.info("%s was cut from %d to %d: its leader, broker %s, has another log", self, before, end, leader_id)
        if committed > 0:
            _log.warning("%s: up to %d records that were committed are gone: an unclean election?", self, committed)

    def tidy(self, now_ms: int) -> None:
        """Retention, and producers that are idle for too long. Not beside a thread that has the segments in hand."""
        if self._working is not None:
            return
        with self._watching_the_disk():
            causes = self.log.delete_old_segments(self.high_watermark, now_ms)
        self.log.expire_producers(now_ms)
        if causes:
            start = self.log.log_start_offset
            _log.info("%s: %d segments deleted by retention, its log starts at %d", self, len(causes), start)

    # ---- reading -------------------------------------------------------------------------------------------------

    async def offset_for_time(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record at or after `timestamp_ms`, or what Kafka's -1, -2, -3 ask for; None where there is none.

        Raises OFFSET_NOT_AVAILABLE while a new leader does not know yet how much is committed (KIP-207, rule 15).
        """
        leader = self.check_leader(None)
        with self._watching_the_disk():
            if timestamp_ms in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
                found = self.log.offset_for_time(timestamp_ms, leader.high_watermark)  # which reads nothing
            else:
                found = await self._threads.look_up(
                    lambda: self.log.offset_for_time(timestamp_ms, leader.high_watermark)
                )
        if (found is None or timestamp_ms == LATEST_TIMESTAMP) and not leader.is_settled:
            raise OttlaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self} has a new leader, which does not know its high watermark yet",
                hint="try again",
            )
        return found

    @property
    def deletions(self) -> Waiters:
        """Where who waits for the low watermark is parked."""
        return self._around.deletions

    @property
    def low_watermark(self) -> int:
        """What lies before it is gone on every live replica, as far as their fetches tell; on the leader only."""
        return self.check_leader(None).low_watermark(self.log.log_start_offset)

    def delete_records(self, before_offset: int) -> int:
        """Make everything below `before_offset` (-1: the high watermark) unreadable here; that offset.

        Raises POLICY_VIOLATION where cleanup.policy does not have delete: a compacted topic keeps its newest values.
        """
        high_watermark = self.check_leader(None).high_watermark
        if not self.log.config.deletes:
            raise OttlaError(
                ErrorCode.POLICY_VIOLATION,
                f"records of {self} can't be deleted: its cleanup.policy has no delete",
                hint="delete keys by tombstones, or set cleanup.policy to compact,delete",
            )
        offset = high_watermark if before_offset == -1 else before_offset
        with self._watching_the_disk():
            self.log.delete_records_before(offset, high_watermark)
        self._wake()
        return offset
