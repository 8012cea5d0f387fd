"""A flow's offset syncs, written by all of its mirrors, say where in the target each stretch of the source lies.

Every mirror reads the topic from its beginning. So all mirrors know equally much of offsets, and the topic outlives
them.
"""

from __future__ import annotations

from typing import Final

from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.clusters.log import LogRecord
from ottla_mirror.machines.mirror_records import read_offset_sync, read_retired
from ottla_mirror.machines.offset_map import GONE, ChangedStretches, OffsetMaps
from ottla_mirror.machines.progress import Position
from ottla_mirror.machines.sync_retention import Retirable
from ottla_mirror.syncing.topic_follower import TopicFollower

OFFSET_SYNCS_CONFIG: Final = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": str(3600 * 1000),
    "segment.bytes": str(16 * 1024 * 1024),
}
"""Offset syncs do not expire, so an idle group is translated whenever it is moved, and copying resumes after them.
`SyncRetention` deletes those about records that neither cluster has any more."""


class OffsetSyncs(TopicFollower):
    """The flow's maps are built from its syncs. `notes_changes` is as in `OffsetMaps`. For any thread."""

    def __init__(self, name: str, target: Cluster, topic: str, *, notes_changes: bool) -> None:
        super().__init__(f"{name}: offsets are not followed at the moment", target, topic)
        self._notes_changes: Final = notes_changes
        self.forget()

    def translate(self, source: TopicPartition, offset: int) -> int | None:
        """Return what `OffsetMap.translate` returns for a partition of the source."""
        with self.lock:
            known = self._maps.get(source)
            return None if known is None else known.translate(offset)

    def translate_back(self, source: TopicPartition, offset: int) -> int | None:
        """Return what `OffsetMap.translate_back` returns for the copy of that partition of the source."""
        with self.lock:
            known = self._maps.get(source)
            return None if known is None else known.translate_back(offset)

    def end(self, source: TopicPartition) -> int:
        """Return the offset after the last one that was copied, or 0 if none was."""
        with self.lock:
            known = self._maps.get(source)
            return 0 if known is None else known.end

    def generation(self, source: TopicPartition) -> int:
        """Return what `OffsetMaps.generation` returns."""
        with self.lock:
            return self._maps.generation(source)

    def position_of(self, source: TopicPartition, generation: int) -> Position | None:
        """Return the position after all that was copied in that generation, or None if nothing was."""
        with self.lock:
            end = self._maps.end(source, generation)
            return None if end is None else Position(end[0], TopicId(end[1]))

    def take_changed(self) -> ChangedStretches | None:
        """Return what `OffsetMaps.take_changed` returns, for one copy of the maps."""
        with self.lock:
            return self._maps.take_changed()

    def change_all(self) -> None:
        """Do what `OffsetMaps.change_all` does."""
        with self.lock:
            self._maps.change_all()

    def forget(self) -> None:
        self._maps = OffsetMaps(notes_changes=self._notes_changes)

    def learn(self, record: LogRecord) -> None:
        if not record.value:
            if (retired := read_retired(record.key, record.headers)) is not None:
                self._maps.retire(*retired)
        elif (known := read_offset_sync(record.key, record.value, record.headers)) is not None:
            self._maps.add(known)

    def of(self, source: TopicPartition) -> tuple[int, bytes] | None:
        """Return what `OffsetMaps.of` returns."""
        with self.lock:
            return self._maps.of(source)

    # ---- what may be forgotten ---------------------------------------------------------------------------------------

    def sources(self) -> list[TopicPartition]:
        """Return what `OffsetMaps.sources` returns."""
        with self.lock:
            return self._maps.sources()

    def retirable(self, source: TopicPartition, source_start: int | None, copy_start: int | None) -> Retirable | None:
        """Return what can be forgotten of a partition, by the log start offsets of both clusters. A start offset is
        None if the partition does not exist there."""
        with self.lock:
            known, of = self._maps.get(source), self._maps.of(source)
            if known is None or of is None:
                return None
            in_source = GONE if source_start is None else source_start
            in_copy = GONE if copy_start is None else known.translate_back(copy_start) or 0
            return Retirable(min(in_source, in_copy), known.end, *of)
