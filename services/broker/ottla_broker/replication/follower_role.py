"""What a replica does while it follows: write what its leader wrote, and truncate what its leader does not have."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ottla_broker.machines.epochs import NO_EPOCH, EpochStart
from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.machines.partition import find_truncation_offset
from ottla_broker.replication.replica_state import ReplicaState

_log = logging.getLogger(__name__)


class LeaderResponse(NamedTuple):
    """What a leader says of one partition to a follower's fetch."""

    records: bytes
    high_watermark: HighWatermark
    log_start_offset: int


class FollowerRole(ReplicaState):
    def on_fetched(self, offset: int, leader_epoch: int, response: LeaderResponse) -> None:
        """Write what the leader answered to a fetch from `offset` in that leader epoch; late responses change nothing.

        Raises what `Log.append_replicated` raises.
        """
        if not self._follows(leader_epoch) or offset != self.log.log_end_offset:
            return
        with self._watching_the_disk():
            if response.records:
                self.log.append_replicated(response.records, self._clock.wall_ms())
            if self.log.is_flush_due(self._clock.wall_ms()):
                self.start_flush()
            self._on_leader_high_watermark(response.high_watermark)
            if self.log.log_start_offset < response.log_start_offset <= self._high_watermark:  # DeleteRecords, there
                self.log.delete_records_before(response.log_start_offset, self._high_watermark)
                self._context.consumers.touch(self.id)

    def _on_leader_high_watermark(self, high_watermark: HighWatermark) -> None:
        """A new leader may know an older one for a while (rule 15): what was committed stays so."""
        before = self._high_watermark
        self._high_watermark = HighWatermark(max(before, min(high_watermark, self.log.log_end_offset)))
        if self._high_watermark > before:
            self._forget_ended_transactions()
            self._context.consumers.wake(self.id)

    async def on_diverging(self, leader_epoch: int, leader_end: EpochStart, leader_start: int) -> None:
        """Truncate the log where it diverges from the leader's, in which the requested epoch ends at `leader_end`.

        Where that would leave nothing, the leader's whole log is copied: it may still have records that this replica
        had deleted before its own start.
        """
        if not self._follows(leader_epoch):
            return
        log = self.log
        offset = find_truncation_offset(log.epochs, log.log_end_offset, self._high_watermark, leader_end)
        if offset > log.log_start_offset:
            await self._truncate(log.truncate_to, offset)
        elif log.log_start_offset == log.log_end_offset == leader_end.start_offset and leader_end.epoch != NO_EPOCH:
            # Only here does the leader name the epoch just before this offset.
            await self._truncate(partial(log.truncate_fully_and_start_at, epoch=leader_end.epoch), offset)
        else:
            await self._truncate(log.truncate_fully_and_start_at, leader_start)

    async def on_out_of_range(self, leader_epoch: int, leader_start: int) -> None:
        """Discard the log and begin where the leader's log begins, which is after the end of this one.

        A log that ends after the leader's does not come here. The leader finds it to diverge first: by its last epoch
        or, where it knows none, because the two can't be compared.
        """
        if self._follows(leader_epoch):
            await self._truncate(self.log.truncate_fully_and_start_at, leader_start)

    def _follows(self, leader_epoch: int) -> bool:
        """Whether a response of the leader of that epoch is to be acted upon."""
        return self.leader_id is not None and leader_epoch == self.leader_epoch and self._working is None

    async def _truncate(self, truncate: Callable[[int], object], offset: int) -> None:
        before, leader_id = self.log.log_end_offset, self.leader_id
        committed = self._high_watermark - offset
        await self._in_thread(truncate, offset, is_truncation=True)
        end = self.log.log_end_offset
        if end < before:
            _log.info(
                "%s was truncated from offset %d to %d, because its log differs from that of its leader, broker %s",
                self,
                before,
                end,
                leader_id,
            )
        if committed > 0:
            _log.warning("%s: up to %d committed records are gone, probably after an unclean election", self, committed)
