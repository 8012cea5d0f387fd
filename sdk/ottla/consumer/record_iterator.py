"""A batch whose records are returned one by one."""

from __future__ import annotations

from typing import Final

from ottla.consumer.batch import Segment
from ottla.consumer.completed_fetch import first_offset
from ottla.machines.position import NO_EPOCH, Position
from ottla_core.model import TopicPartition


class Handing:
    """Moves each position back to where its records begin, then along with them; `ends` says where each ends."""

    def __init__(self, segments: list[Segment], positions: dict[TopicPartition, Position]) -> None:
        self.segments: Final = segments
        self.at: Position | None = None  # of the last returned record
        self.ends: Final[dict[Position, tuple[int, int, int]]] = {}  # version; offset and epoch after all of them
        for partition, part in reversed(segments):
            position = positions.get(partition)
            if position is not None and position.offset is not None:
                if position not in self.ends:
                    self.ends[position] = (position.version, position.offset, position.offset_epoch)
                position.offset, position.offset_epoch = first_offset(part), NO_EPOCH

    def is_good(self, position: Position) -> bool:
        """Return whether the partition was neither moved by a seek nor given up."""
        return position in self.ends and position.version == self.ends[position][0]

    def left(self) -> dict[Position, int]:
        """Return the partitions with records that were not returned yet, and where they continue."""
        return {
            position: position.offset
            for position, (_, end, _) in self.ends.items()
            if self.is_good(position) and position.offset is not None and position.offset < end
        }

    def finish(self) -> None:
        """Note that all are returned; the ends may lie behind the last records."""
        for position, (_, end, epoch) in self.ends.items():
            if self.is_good(position):
                position.offset, position.offset_epoch = end, epoch
