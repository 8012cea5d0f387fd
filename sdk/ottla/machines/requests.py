"""What goes to a broker, and what is to be done after a response or a timeout."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.machines.batches import ProducerBatch
from ottla.machines.queues import PartitionBatches


@dataclass(slots=True, eq=False)
class OutgoingRequest:
    """One request to one broker; it left at `sent_at`. Each of its parts is reported back exactly once."""

    address: str
    parts: list[PartitionBatches] = field(default_factory=list)
    size_bytes: int = 0
    deadline_at: float = float("inf")
    sent_at: float = 0.0

    def add(self, part: PartitionBatches) -> None:
        """Take a part along."""
        self.parts.append(part)
        self.deadline_at = min(self.deadline_at, part.batches[0].deadline_at)


@dataclass(slots=True)
class Reported:
    """The result of a response: `settled` batches, `warnings` for the log, and whether the metadata may be wrong."""

    settled: list[ProducerBatch] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refresh: bool = False


@dataclass(slots=True)
class Drained:
    """What to do now: send `requests`, get a producer id if one is wanted, come back at `wake_at`."""

    requests: list[OutgoingRequest] = field(default_factory=list)
    reported: Reported = field(default_factory=Reported)
    wants_producer_id: bool = False
    wake_at: float = float("inf")
