"""A flow's offset syncs: where in the target each stretch of the source lies, as all of its mirrors have written it.

Every mirror follows the topic, from its beginning: what it knows of offsets is the same as what any other one knows,
and outlives them all.
"""

from __future__ import annotations

from typing import Final

from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.clusters.cluster import Cluster, LogRecord
from ottla_mirror.machines.mirror_records import read_offset_sync
from ottla_mirror.machines.offset_map import ChangedStretches, OffsetMaps
from ottla_mirror.machines.progress import Position
from ottla_mirror.syncing.topic_follower import TopicFollower

OFFSET_SYNCS_CONFIG: Final = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": str(3600 * 1000),
    "segment.bytes": str(16 * 1024 * 1024),
}
"""None of them expires: a group that rests is translated whenever it is moved, and copying goes on behind them."""


class OffsetSyncs(TopicFollower):
    """For any thread."""

    def __init__(self, name: str, target: Cluster, topic: str) -> None:
        super().__init__(f"{name}: offsets are not followed at the moment", target, topic)
        self._maps = OffsetMaps()

    def translate(self, source: TopicPartition, offset: int) -> int | None:
        """As `OffsetMap.translate`, of a partition of the source."""
        with self.lock:
            known = self._maps.get(source)
            return None if known is None else known.translate(offset)

    def translate_back(self, source: TopicPartition, offset: int) -> int | None:
        """As `OffsetMap.translate_back`, of the copy of that partition of the source."""
        with self.lock:
            known = self._maps.get(source)
            return None if known is None else known.translate_back(offset)

    def end(self, source: TopicPartition) -> int:
        """After the last offset that was copied; 0 where none was."""
        with self.lock:
            known = self._maps.get(source)
            return 0 if known is None else known.end

    def position_of(self, source: TopicPartition, generation: int) -> Position | None:
        """Behind all that was copied of it in that generation; None where nothing was."""
        with self.lock:
            end = self._maps.end(source, generation)
            return None if end is None else Position(end[0], TopicId(end[1]))

    def take_changed(self) -> ChangedStretches | None:
        """As `OffsetMaps.take_changed`; for one copy of the maps."""
        with self.lock:
            return self._maps.take_changed()

    def change_all(self) -> None:
        """As `OffsetMaps.change_all`."""
        with self.lock:
            self._maps.change_all()

    def forget(self) -> None:
        self._maps = OffsetMaps()

    def learn(self, record: LogRecord) -> None:
        known = read_offset_sync(record.key, record.value, record.headers)
        if known is not None:
            self._maps.add(known)
