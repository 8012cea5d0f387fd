"""A replica is one partition as this broker holds it: its log, and its role, which is to lead, to follow, or neither.

A role belongs to a leader epoch. What is right in one epoch loses data in the next: a leader takes an append after it
was replaced, or a follower truncates by the word of a former leader. So each epoch gets a new object, `Leading` or
`Following`, and this class alone makes and ends it. The log and the high watermark outlive the roles, in `disk` and
`offsets`.

The image may skip epochs and states, because only the newest one is looked at. So the next role follows from the state
that the image shows and from the present role, and never from what happened in between: `machines.replica_role` has the
table. Between two roles nothing may write. That is the role LEADERLESS, and also the moment in which a thread still
truncates the log that this broker is to lead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla_broker.machines.guards import VerificationGuards
from ottla_broker.machines.offsets import NOTHING_COMMITTED, HighWatermark
from ottla_broker.machines.partition import Leader
from ottla_broker.machines.replica_role import NEXT_ROLE, ReplicaRole, RoleEvent
from ottla_broker.replication.disk_log import DiskLog
from ottla_broker.replication.following import Following
from ottla_broker.replication.leading import Leading, ReplicaContext, not_leader
from ottla_broker.replication.pending import PendingActs
from ottla_broker.replication.replica_offsets import ReplicaOffsets
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import MAX_INT64, LogConfig
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import NO_LEADER, PartitionId

_log = logging.getLogger(__name__)


class Replica:
    """A replica leads, or follows a leader, or does neither for a moment. This class takes it from role to role.

    `leading` and `following` are made for one leader epoch each, and at most one of them exists at a time. Only this
    class ends a role, and it does so on the loop.
    """

    def __init__(
        self,
        partition_id: PartitionId,
        topic: str,
        log: Log,
        context: ReplicaContext,
        *,
        high_watermark: HighWatermark = NOTHING_COMMITTED,
        on_role_change: Callable[[Replica], None] = lambda replica: None,
    ) -> None:
        """Begin without a role.

        `on_role_change` is called when the role, the leader or the leader epoch has changed, and when the leader has to
        hear of something besides the log's end.
        """
        self.id: Final = partition_id
        self.topic: Final = topic
        self.log: Final = log
        self.disk: Final = DiskLog(partition_id, topic, log, context.threads, context.clock, context.on_disk_failure)
        self.offsets: Final = ReplicaOffsets(partition_id, log, context.consumers, high_watermark)
        self.leading: Leading | None = None
        self.following: Following | None = None
        self.role = ReplicaRole.LEADERLESS
        self.has_readers = False
        self.traffic: Final = context.traffic(topic)
        self.pending: Final = PendingActs()
        """Appends that were accepted and wait. What their producers send from now on comes after them (I37)."""
        self.pending_bytes: Final = context.pending_bytes
        self.turn: Final = context.turn
        self.guards: Final = VerificationGuards()
        self._context: Final = context
        self._on_role_change: Final = on_role_change
        self._partition = Partition(replicas=(), leader_epoch=-1, partition_epoch=-1)
        self._announced = (NO_LEADER, -1)
        """The leader and its epoch as `on_role_change` was last called with them."""
        self._led_before: Leading | None = None
        """The Leading of the last epoch, while this broker is about to begin the next one."""
        self._lag_max_s = 30.0

    def __str__(self) -> str:
        return str(self.disk)

    @property
    def leader_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def leader_id(self) -> int | None:
        """This is the broker to copy from. It is None if this broker leads, or none does."""
        leader = self._partition.leader
        return None if leader in (NO_LEADER, self._context.broker_id) else leader

    @property
    def leads(self) -> bool:
        return self.leading is not None

    @property
    def is_under_replicated(self) -> bool:
        leading = self.leading
        return leading is not None and len(leading.leader.isr) < len(leading.leader.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        leading = self.leading
        return leading is not None and not leading.leader.has_min_isr

    @property
    def has_late_transaction(self) -> bool:
        """It tells whether this broker leads and the oldest open transaction should have ended long ago (rule 43,
        KIP-664).

        Any thread may ask.
        """
        seen_at_ms = self.log.producers.oldest_transaction_seen_at_ms() if self.leads else None
        now_ms = self._context.clock.wall_ms()
        return seen_at_ms is not None and now_ms - seen_at_ms > self.log.config.late_transaction_ms

    def check_epoch(self, known_epoch: int | None) -> None:
        """Raise unless the caller knows the present leader epoch, or names none (KIP-320).

        Rule 5: a client with a lower epoch has to refresh its metadata, and for one with a higher epoch this broker is
        behind.
        """
        if known_epoch is None or known_epoch == self.leader_epoch:
            return
        if known_epoch > self.leader_epoch:
            raise OttlaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self} is at leader epoch {self.leader_epoch} on this broker, but the client knows leader epoch "
                f"{known_epoch}",
                hint="this broker's metadata is behind; try again",
            )
        raise OttlaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{self} is at leader epoch {self.leader_epoch}, but the client knows only leader epoch {known_epoch}",
            hint="refresh the metadata",
        )

    def led_in(self, known_epoch: int | None) -> Leading:
        """Return `leading`, for a caller that knows this leader epoch or names none. Raises unless this broker leads in
        it."""
        self.check_epoch(known_epoch)
        if self.leading is None:
            raise not_leader(self)
        return self.leading

    def followed_in(self, epoch: int) -> Following | None:
        """Return `following`, for a response to a fetch in that leader epoch, or None if that epoch is over on this
        broker."""
        return self.following if epoch == self.leader_epoch else None

    def on_reader(self) -> None:
        """Note that a consumer reads from this follower: from now on the leader sends each newer high watermark at once
        (rule 18)."""
        if not self.has_readers:
            self.has_readers = True
            self._on_role_change(self)

    # ---- from role to role ---------------------------------------------------------------------------------------

    def configure(self, config: LogConfig, lag_max_s: float) -> None:
        if self.log.config != config:
            self.log.config = config
        self._lag_max_s = lag_max_s
        if self.leading is not None:
            leader = self.leading.leader
            leader.min_isr, leader.lag_max_s = config.min_insync_replicas, lag_max_s

    def must_become_leader(self, partition: Partition) -> bool:
        """Return whether `become_leader` is next, or `step_back` while a thread has the log in hand."""
        # The same epoch counts if the replica does not lead in it yet: it stepped back and waited for its log.
        newer = partition.leader_epoch > self.leader_epoch or self.leading is None
        return partition.leader == self._context.broker_id and newer and partition.leader_epoch >= self.leader_epoch

    def on_partition(self, partition: Partition) -> None:
        """Apply a decision of the controller other than a new leadership. A lower leader epoch is stale (rule C10),
        and changes nothing."""
        if partition.leader_epoch < self.leader_epoch:
            return
        newer = partition.leader_epoch > self.leader_epoch
        if self.leading is not None and not newer and partition.leader == self._context.broker_id:
            before, self._partition = self._partition, partition
            self.leading.on_partition(partition)
            # The followers' sessions look at the partition again: a broker that is no replica any more has to hear so.
            if partition.replicas != before.replicas:
                self._context.followers.wake(self.id)
        elif self.leading is not None or newer:
            self._retire(partition)
        else:
            self._partition = partition
            # For a follower, a change of the ISR alone changes nothing. A new role would give up the fetch that is
            # under way.
            if self._announced != (partition.leader, partition.leader_epoch):
                self._move(self._role_event)

    def step_back(self) -> None:
        """Take nothing more from clients or from a leader until the log is whole and the next epoch begins."""
        if self.leading is not None:
            self.leading.end()
            # It is kept, because its waiters go over to the next epoch if this broker leads that.
            self._led_before, self.leading = self.leading, None
        # The partition keeps its epoch but has no leader. So clients get NOT_LEADER_OR_FOLLOWER, and any state of the
        # image is newer than this.
        self._partition = Partition(replicas=(), leader_epoch=self.leader_epoch, partition_epoch=-1)
        self._move(RoleEvent.THIS_LEADS)

    def become_leader(self, partition: Partition) -> None:
        """Lead the epoch from where the log ends (rule 4: the epoch's start is assigned before any append or fetch).

        Raises FENCED_LEADER_EPOCH if the log knows a later epoch. The replica then leads nothing.
        """
        self.step_back()
        assert not self.disk.is_in_a_thread, f"{self}: the log may be about to end earlier"
        # This comes first because it may raise. A `Leading` without an epoch in the log would append batches that no
        # follower can compare.
        self.log.assign_epoch(partition.leader_epoch)
        self._partition = partition
        leader = Leader(
            self._context.broker_id,
            partition,
            log_end_offset=self.log.log_end_offset,
            high_watermark=self.offsets.high_watermark,
            now=self._context.clock.monotonic(),
            live=self._context.live,
            read_only=self._context.read_only,
            min_isr=self.log.config.min_insync_replicas,
            lag_max_s=self._lag_max_s,
        )
        self.leading = Leading(
            self.disk, self.offsets, leader, self._led_before, self.guards, self.traffic, self._context
        )
        self._led_before = None
        self._move(RoleEvent.EPOCH_STARTED)
        self.leading.begin()
        self._context.wake(self.id)

    def close(self) -> None:
        """End the replica: the partition is deleted, or is no longer this broker's."""
        self._retire(Partition(replicas=(), leader_epoch=self.leader_epoch))

    def _retire(self, partition: Partition) -> None:
        """End a leadership for good, and take the state in which another broker leads, or none."""
        led = self.leading or self._led_before
        if led is not None:
            led.retire()
        self.leading = self._led_before = None
        self._partition = partition
        self.has_readers = False
        # Another leader may write markers, of which this broker would not hear.
        self.guards.clear()
        # They hold batches of unknown producers back for this leadership alone (module first_sequences).
        self.log.producers.first_sequences.clear()
        self._context.wake(self.id)
        self._move(self._role_event)

    @property
    def _role_event(self) -> RoleEvent:
        return RoleEvent.NO_LEADER if self.leader_id is None else RoleEvent.OTHER_LEADS

    def _move(self, event: RoleEvent) -> None:
        self.role = NEXT_ROLE[self.role, event]
        if self.following is not None:
            self.following.end()
            self.following = None
        if self.leader_id is not None:
            self.following = Following(self.disk, self.offsets, self._context.clock, self.leader_id, self.leader_epoch)
        # `step_back` has said already that this broker follows no other. Its fetcher need not hear it twice.
        if event is not RoleEvent.EPOCH_STARTED:
            self._on_role_change(self)
            self._announced = (self._partition.leader, self._partition.leader_epoch)

    # ---- compaction ----------------------------------------------------------------------------------------------

    @property
    def purge_limit(self) -> int:
        """This is the offset from which on a clean keeps tombstones and markers. Only the leader knows of replicas that
        are being filled."""
        return MAX_INT64 if self.leading is None else self.leading.leader.purge_limit

    @contextmanager
    def purging(self, before: int) -> Iterator[None]:
        """Have no follower taken for a complete copy that has not met the tombstones and markers before this offset,
        which a swap removes meanwhile."""
        self.log.compaction.is_purging = before > 0
        if self.leading is not None:
            self.leading.leader.on_purge(before)
        try:
            yield
        finally:
            self.log.compaction.is_purging = False

    # ---- retention -----------------------------------------------------------------------------------------------

    def tidy(self, now_ms: int) -> None:
        """Apply retention, and forget producers that have been idle for too long. Does nothing while a thread has the
        segments."""
        if self.disk.is_in_a_thread:
            return
        with self.disk.watching_the_disk():
            causes = self.log.delete_old_segments(self.offsets.high_watermark, now_ms)
        self.log.producers.expire(now_ms, self.log.config.producer_expiration_ms)
        if causes:
            start = self.log.log_start_offset
            _log.info(
                "%s: segments deleted by retention: %d; the log now starts at offset %d", self, len(causes), start
            )
            # Followers of this replica delete up to its log start, if it leads. If it follows, its leader has to hear
            # of its own start, because DeleteRecords waits for the smallest of all.
            self._context.followers.wake(self.id)
            self.offsets.on_log_start()
            self._on_role_change(self)
