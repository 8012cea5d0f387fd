"""A replica whose leader is another broker writes what its leader wrote, and truncates what its leader does not have.

The aim is a log that is equal to the leader's, byte for byte (I16), whatever this replica led or copied before. So a
follower never judges batches, and appends only where its own log ends. If the two logs differ, the leader finds out by
epochs, and the follower truncates there and fetches again (rules 2 and 3).

Responses are late: the leader may have changed, or a thread may be truncating the log, before one arrives. So each
leader epoch has an object of its own, which `Replica` ends. What arrives after that changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ottla_broker.machines.epochs import NO_EPOCH
from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.machines.partition import find_truncation_offset
from ottla_broker.replication.disk_log import DiskLog
from ottla_broker.replication.replica_offsets import ReplicaOffsets
from ottla_core.clock import Clock
from ottla_core.records.leader_epochs import EpochStart

_log = logging.getLogger(__name__)


class LeaderResponse(NamedTuple):
    """What a leader says of one partition in response to a follower's fetch.

    `epochs` are those after the follower's last one that begin before the end of the records. An earlier release names
    none. Tombstones and markers before `purged_before` may be gone at the leader.
    """

    records: bytes
    high_watermark: HighWatermark
    log_start_offset: int
    epochs: Sequence[EpochStart] = ()
    purged_before: int = 0


class Following:
    """One leader epoch of a partition in which this broker follows another one.

    `Replica` ends it when it hears of another leader or epoch. A response that comes later, or while a thread truncates
    the log, changes nothing. Until it ends, nothing else appends to the log or moves the high watermark.
    """

    def __init__(self, disk: DiskLog, offsets: ReplicaOffsets, clock: Clock, leader_id: int, epoch: int) -> None:
        self.leader_id: Final = leader_id
        self.epoch: Final = epoch
        self._disk: Final = disk
        self._offsets: Final = offsets
        self._clock: Final = clock
        self._has_ended = False

    def end(self) -> None:
        self._has_ended = True

    def on_fetched(self, offset: int, response: LeaderResponse) -> Coroutine[Any, Any, None] | None:
        """Write what the leader sent for a fetch from `offset`, if that is where the log still ends.

        If something has to be on disk before the records, nothing is written yet. What is returned then writes them.
        Raises what `Log.append_replicated` raises.
        """
        log, offsets = self._disk.log, self._offsets
        # The log was truncated since the fetch, so what follows that offset at the leader does not follow this log's
        # end.
        if not self._may_write or offset != log.log_end_offset:
            return None
        with self._disk.watching_the_disk():
            if response.records:
                is_known = response.purged_before <= log.compaction.purged_before
                if not (is_known and log.is_shown(response.records, response.epochs)):
                    return self._copy(offset, response)
                log.append_replicated(response.records, self._clock.wall_ms())
            if log.is_flush_due(self._clock.wall_ms()):
                self._disk.start_flush()
            # This comes after the append: a follower's high watermark is bounded by its own log end, which has just
            # grown (rule 15).
            offsets.on_leader_high_watermark(response.high_watermark)
            # DeleteRecords or retention has moved the leader's start. It is followed only up to this replica's high
            # watermark, which a log start offset never passes (I36).
            if log.log_start_offset < response.log_start_offset <= offsets.high_watermark:
                log.delete_records_before(response.log_start_offset, offsets.high_watermark)
                offsets.on_log_start()
        return None

    async def _copy(self, offset: int, response: LeaderResponse) -> None:
        """Write the records in a thread. The next fetch brings the leader's offsets."""
        log = self._disk.log
        if self._may_write and offset == log.log_end_offset:
            copy = partial(
                log.copy,
                response.records,
                response.epochs,
                response.log_start_offset,
                self._clock.wall_ms(),
                purged_before=response.purged_before,
            )
            await self._disk.change(copy, then=self._offsets.on_truncated)

    async def on_diverging(self, leader_end: EpochStart, leader_start: int) -> None:
        """Truncate the log where it diverges from the leader's, in which the requested epoch ends at `leader_end`.

        A log without records takes the leader's epoch at its start, if nothing of the leader's log lies before that or
        the leader names that very offset. Otherwise nothing proves that this log ever was the leader's, as if it
        diverged before its start, and the leader's whole log is copied. The leader's log is copied too if it starts at
        the offset of the truncation or later, because its epochs say nothing of what lies before its start. Only what
        is committed there is certain to be equal.
        """
        if not self._may_write:
            return
        log = self._disk.log
        offset = find_truncation_offset(log.epochs, log.log_end_offset, self._offsets.high_watermark, leader_end)
        start = log.log_start_offset
        is_known = offset > leader_start or offset <= self._offsets.high_watermark
        if offset >= start and log.log_end_offset > start and is_known:
            await self._truncate(partial(log.truncate_to, offset), offset)
        elif offset == start and leader_end.epoch != NO_EPOCH and start in (leader_end.start_offset, leader_start):
            # If the leader began that epoch after this offset, it refuses it and names an earlier one.
            await self._truncate(partial(log.take_epoch, leader_end.epoch), offset)
        else:
            await self._truncate(partial(log.truncate_fully_and_start_at, leader_start), leader_start)

    async def on_out_of_range(self, leader_start: int) -> None:
        """Discard the log and begin where the leader's log begins. That is after the end of this one, or before it if
        the leader has removed tombstones or markers that this log has not met.

        A log that ends after the leader's does not come here. The leader finds it to diverge first: by its last epoch
        or, if it knows none, because the two can't be compared.
        """
        if self._may_write:
            end = self._disk.log.log_end_offset
            text = (
                "%s ends at offset %d. Its leader, broker %s, has removed what comes next: copying its log from %d on"
            )
            _log.warning(text, self._disk, end, self.leader_id, leader_start)
            begin = partial(self._disk.log.truncate_fully_and_start_at, leader_start)
            await self._truncate(begin, leader_start)

    @property
    def _may_write(self) -> bool:
        return not self._has_ended and not self._disk.is_in_a_thread

    async def _truncate(self, truncate: Callable[[], object], offset: int) -> None:
        log, before = self._disk.log, self._disk.log.log_end_offset
        # Measured before the truncation, which lowers the high watermark. Nothing committed is ever truncated after a
        # clean election, so an operator has to hear of it.
        committed = self._offsets.high_watermark - offset
        await self._disk.change(truncate, then=self._offsets.on_truncated)
        end = log.log_end_offset
        if end < before:
            _log.info(
                "%s was truncated from offset %d to %d, because its log differs from that of its leader, broker %s",
                self._disk,
                before,
                end,
                self.leader_id,
            )
        if committed > 0:
            _log.warning(
                "%s: up to %d committed records are gone, probably after an unclean election", self._disk, committed
            )
