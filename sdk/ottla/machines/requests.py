"""What goes to a broker, and what is to be done after a response or a timeout."""

from __future__ import annotations

from collections.abc import Iterator
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


class RequestsInFlight:
    """Those that left and were not reported back; they lie in memory once more than their batches, by `bytes`."""

    __slots__ = ("_by_address", "_open", "bytes")

    def __init__(self) -> None:
        self._open: dict[OutgoingRequest, None] = {}
        self._by_address: dict[str, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OutgoingRequest]:
        return iter(list(self._open))

    def at(self, address: str) -> int:
        """How many are with that broker."""
        return self._by_address.get(address, 0)

    def add(self, request: OutgoingRequest) -> None:
        """It leaves."""
        self._open[request] = None
        self._by_address[request.address] = self.at(request.address) + 1
        self.bytes += request.size_bytes

    def remove(self, request: OutgoingRequest) -> None:
        """It was reported back, or given up; a second time does nothing."""
        if request in self._open:
            del self._open[request]
            self._by_address[request.address] -= 1
            self.bytes -= request.size_bytes


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
