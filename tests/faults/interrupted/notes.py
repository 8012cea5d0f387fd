"""What programs that were interrupted have seen, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self

from ottla.consumer.batch import Batch


@dataclass(slots=True)
class Notes:
    """The notes of one program, over all its consumers of one group."""

    interrupts: Counter[str] = field(default_factory=Counter)
    in_hand: int = 0
    """Interrupts that came while records were gathered and not handed out."""
    seen: int = 0
    skipped: int = 0
    repeated: int = 0
    misplaced: int = 0
    """Positions that were not where the next record is."""
    ends: dict[int, int] = field(default_factory=dict)

    def on_record(self, partition: int, offset: int) -> None:
        """It was handed out."""
        end = self.ends.get(partition, 0)
        self.seen += 1
        self.skipped += max(0, offset - end)
        self.repeated += offset < end
        self.ends[partition] = max(end, offset + 1)

    def on_batch(self, batch: Batch[Any, Any]) -> None:
        """Its records were."""
        for partition, part in batch.segments:
            for raw in part:
                self.on_record(partition.partition, raw[0])

    def on_position(self, partition: int, position: int) -> None:
        """Where the consumer says that it goes on; below the end only where the group began below it."""
        self.misplaced += position > self.ends.get(partition, 0)

    def on_end(self, partition: int, end: int) -> None:
        """The log ends there, and all was read."""
        self.skipped += max(0, end - self.ends.get(partition, 0))

    def told(self) -> dict[str, Any]:
        """As one line of JSON can say it."""
        return {
            name: getattr(self, name) for name in ("interrupts", "in_hand", "seen", "skipped", "repeated", "misplaced")
        }

    @classmethod
    def of(cls, told: dict[str, Any]) -> Self:
        """What `told` gave."""
        notes = cls(**told)
        notes.interrupts = Counter(told["interrupts"])
        return notes
