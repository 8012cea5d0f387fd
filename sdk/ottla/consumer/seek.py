"""Where a consumer reads: its partitions, the positions in them, and how to move them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ottla.client.by_partition import ByPartition
from ottla.client.cluster import ClusterClient
from ottla.client.condition import Condition
from ottla.client.list_offsets import OffsetSpec, list_offsets, list_offsets_or_end, spec_timestamp
from ottla.consumer.assignment import Assignment
from ottla.consumer.concurrent_use import ConcurrentUseGuard, guarded
from ottla.consumer.fetcher import Fetcher
from ottla.consumer.group.assignment import GroupAssignment
from ottla.consumer.reader import RecordReader
from ottla.errors import config_error
from ottla.machines.failures import no_position
from ottla.machines.subscription import SubscriptionState
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicId, TopicPartition


class Seeking:
    """The part of a Consumer that is about positions."""

    use_guard: ConcurrentUseGuard
    reader: RecordReader[Any, Any]
    _assignment: Assignment | GroupAssignment
    _subscription: SubscriptionState
    _lock: Condition
    _cluster: ClusterClient
    _timeout: float
    _fetcher: Fetcher

    @guarded
    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this consumer reads; in a group, its currently assigned partitions."""
        return set(self._assignment.positions())

    @guarded
    def position(self, partition: tuple[str, int]) -> int:
        """Return the offset of the next record of `partition`."""
        (position,) = self._assignment.of([partition])
        self._assignment.locate()
        if position.offset is None:
            raise no_position(position.partition)
        return position.offset

    @guarded
    def seek(
        self, partition: tuple[str, int], offset: int, *, stop: int | None = None, topic_id: bytes | None = None
    ) -> None:
        """Continue from `offset`. If it is not in the log, `auto_offset_reset` applies at the next fetch.

        `stop` is the first offset that is no longer read, and replaces the partition's earlier stop. `topic_id` is the
        id of the topic in which `offset` is valid: if the topic has been recreated since, the next read raises
        UNKNOWN_TOPIC_ID or follows `auto_offset_reset`. Without `topic_id`, the offset applies to whichever topic has
        that name at the next read.

        In a group, the partition must currently be assigned to this consumer. Before the first read no partition is
        assigned, so seek in `on_assigned` to begin elsewhere.
        """
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise config_error(
                f"offset={offset!r} is not an offset", hint="pass 0 or more, or call seek_to_beginning or seek_to_end"
            )
        (position,) = self._assignment.of([partition])
        with self._lock:
            if stop is not None:
                position.stop, position.stop_topic_id = stop, None
            self._subscription.seek(position, offset)
            position.topic_id = None if topic_id is None else TopicId(topic_id)
        self.reader.on_seek(position)

    @guarded
    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Continue from the first existing record, in all partitions or only in these."""
        self._seek_to_time(EARLIEST_TIMESTAMP, partitions)

    @guarded
    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Continue with records written from now on, in all partitions or only in these."""
        self._seek_to_time(LATEST_TIMESTAMP, partitions)
        self._assignment.resolve()

    @guarded
    def seek_to_time(self, moment: datetime | timedelta, *partitions: tuple[str, int]) -> None:
        """Continue from the first record at or after `moment` (a timedelta is relative to now), or from the end."""
        self._seek_to_time(spec_timestamp(moment, now_ms=self._cluster.clock.wall_ms()), partitions)

    @guarded
    def seek_to_committed(self, *partitions: tuple[str, int]) -> None:
        """Continue from the committed offsets (or as `auto_offset_reset` says), in all partitions or only in these.

        Records that were returned but not committed, such as those of an aborted transaction, are returned again.
        """
        if not isinstance(self._assignment, GroupAssignment):
            raise config_error(
                "this consumer has no group, so nothing is committed", hint="pass group=, or seek to an offset"
            )
        self._seek_to_time(None, partitions)

    @guarded
    def offsets(self, at: OffsetSpec = "latest") -> ByPartition[int | None]:
        """Return each assigned partition's offset at `at`; None if no record is that recent. Positions don't change."""
        when = spec_timestamp(at, now_ms=self._cluster.clock.wall_ms())
        found = list_offsets(self._cluster, dict.fromkeys(self.assignment(), when), **self._look_up)
        return ByPartition({p: None if entry is None else entry.offset for p, entry in found.items()})

    @guarded
    def lag(self) -> ByPartition[int]:
        """Return how many offsets each position is behind the current end of its partition, which is looked up now."""
        ends = self.offsets("latest")
        return ByPartition({p: max(0, (end or 0) - self.position(p)) for p, end in ends.items()})

    @guarded
    def caught_up(self) -> bool:
        """Return whether every record of the assigned partitions has been returned, as of each partition's last fetch.

        The end of a partition that has not been fetched yet is looked up now. The result is False if no partition is
        assigned.
        """
        positions = self._assignment.of(())
        self._assignment.locate()
        if unknown := {p: p.version for p in positions if p.high_watermark < 0}:
            latest = dict.fromkeys((p.partition for p in unknown), LATEST_TIMESTAMP)
            ends = list_offsets_or_end(self._cluster, latest, **self._look_up)
            with self._lock:
                for position in (p for p, version in unknown.items() if p.version == version):
                    position.high_watermark = max(position.high_watermark, ends[position.partition])
        return bool(positions) and all(position.lag == 0 for position in positions)

    @guarded
    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions (default: all) until you call `resume`."""
        for position in self._assignment.of(partitions):
            with self._lock:
                self._subscription.pause(position)
            self.reader.on_pause(position)

    @guarded
    def resume(self, *partitions: tuple[str, int]) -> None:
        """Resume these partitions (default: all) where they were paused."""
        for position in self._assignment.of(partitions):
            with self._lock:
                self._subscription.resume(position)

    @guarded
    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return {name for name, position in self._assignment.positions().items() if position.paused}

    @property
    def _look_up(self) -> dict[str, Any]:
        return {"timeout": self._timeout, "read_committed": self._fetcher.read_committed}

    def _seek_to_time(self, timestamp: int | None, partitions: Sequence[tuple[str, int]]) -> None:
        for position in self._assignment.of(partitions):
            with self._lock:
                self._subscription.seek_to_time(position, timestamp)
            self.reader.on_seek(position)
