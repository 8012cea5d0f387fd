"""One partition as this broker holds it: its log, its part in the partition, and what may be done with it.

It leads, or follows a leader, or neither for a moment: this module takes it from one to the other. The leader appends
and answers (leader_role); a follower writes what its leader wrote (follower_role).
"""

from __future__ import annotations

import logging

from ottla_broker.machines.partition import Leader
from ottla_broker.machines.replica_role import NEXT_ROLE, RoleEvent
from ottla_broker.replication.follower_role import FollowerRole
from ottla_broker.replication.leader_role import LeaderRole
from ottla_broker.storage.log_config import LogConfig
from ottla_core.cluster.image import Partition

_log = logging.getLogger(__name__)


class Replica(LeaderRole, FollowerRole):
    def configure(self, config: LogConfig, lag_max_s: float) -> None:
        if self.log.config != config:
            self.log.config = config
        self._lag_max_s = lag_max_s
        if self._leader is not None:
            self._leader.min_isr, self._leader.lag_max_s = config.min_insync_replicas, lag_max_s

    def must_become_leader(self, partition: Partition) -> bool:
        """Whether `become_leader` is what is next, or `step_back` while a thread has the log in hand."""
        newer = partition.leader_epoch > self.leader_epoch or self._leader is None
        return partition.leader == self._context.broker_id and newer and partition.leader_epoch >= self.leader_epoch

    def on_partition(self, partition: Partition) -> None:
        """Apply a decision of the controller other than a new leadership. A lower leader epoch is stale (rule C10)."""
        if partition.leader_epoch < self.leader_epoch:
            return
        newer = partition.leader_epoch > self.leader_epoch
        if self._leader is not None and not newer and partition.leader == self._context.broker_id:
            before, self._partition = self._partition, partition
            self._after(self._leader.on_partition(partition, self._now()))
            if partition.replicas != before.replicas:
                self._context.followers.on_changed(self.id)
        elif self._leader is not None or newer:
            self._retire(partition)
        else:
            self._partition = partition
            if self._announced != (partition.leader, partition.leader_epoch):  # not for each change of the ISR
                self._move(self._role_event)

    def step_back(self) -> None:
        """Take nothing more, from clients or a leader, until the log is whole and the next epoch begins.

        What waits for the high watermark waits on where this broker continues to lead: its log stays what it is.
        """
        self._high_watermark, self._leader = self.high_watermark, None
        self._partition = Partition(replicas=(), leader_epoch=self.leader_epoch, partition_epoch=-1)
        self._move(RoleEvent.THIS_LEADS)

    def become_leader(self, partition: Partition) -> None:
        """Lead the epoch from where the log ends (rule 4). Raises FENCED_LEADER_EPOCH where the log knows a later one:
        it leads nothing then."""
        self.step_back()
        assert not self.is_in_a_thread, f"{self}: the log may be about to end earlier"
        self.log.assign_epoch(partition.leader_epoch)
        self._partition = partition
        self._leader = Leader(
            self._context.broker_id,
            partition,
            log_end_offset=self.log.log_end_offset,
            high_watermark=self._high_watermark,
            now=self._now(),
            live=self._context.live,
            read_only=self._context.read_only,
            min_isr=self.log.config.min_insync_replicas,
            lag_max_s=self._lag_max_s,
        )
        self._move(RoleEvent.EPOCH_STARTED)
        if self.log.log_end_offset > self._high_watermark:  # copied, not yet visible: waiters are completed then
            self._high_watermark_waiters.on_appended(self.log.log_end_offset, self.log.size_bytes)
        self._after(moved=True)
        self._wake()

    def on_tick(self) -> None:
        """Time has passed, or a broker came or went."""
        if self._leader is not None:
            self._after(self._leader.on_tick(self._now()))
            self._context.deletions.wake(self.id)  # whom they wait for may have died
            self.confirmations.wake(self.id)
        if self._leader is None or not self._leader.needs_ticks:
            self._context.ticking.discard(self)

    def _retire(self, partition: Partition) -> None:
        """Another broker leads, or none: what waits for the high watermark will not learn of it here (rule 10)."""
        self._high_watermark, self._leader = self.high_watermark, None
        self._partition = partition
        self.has_readers = False
        self._leadership += 1
        self.log.producers.first_sequences.clear()
        self._high_watermark_waiters.fail(self._not_leader())
        self._wake()
        self._move(self._role_event)

    @property
    def _role_event(self) -> RoleEvent:
        return RoleEvent.NO_LEADER if self.leader_id is None else RoleEvent.OTHER_LEADS

    def _move(self, event: RoleEvent) -> None:
        self.role = NEXT_ROLE[self.role, event]
        if event is not RoleEvent.EPOCH_STARTED:  # that it follows no broker is known since `step_back`
            self._context.on_role_change(self)
            self._announced = (self._partition.leader, self._partition.leader_epoch)

    def close(self) -> None:
        """The partition is deleted, or is no longer this broker's."""
        self._retire(Partition(replicas=(), leader_epoch=self.leader_epoch))

    def tidy(self, now_ms: int) -> None:
        """Retention, and producers that are idle for too long. Not beside a thread that has the segments in hand."""
        if self._working is not None:
            return
        with self._watching_the_disk():
            causes = self.log.delete_old_segments(self.high_watermark, now_ms)
        self.log.producers.expire(now_ms, self.log.config.producer_expiration_ms)
        if causes:
            start = self.log.log_start_offset
            _log.info(
                "%s: segments deleted by retention: %d; the log now starts at offset %d", self, len(causes), start
            )
            self._context.followers.on_changed(self.id)
            self._context.consumers.touch(self.id)
            self._context.on_role_change(self)
