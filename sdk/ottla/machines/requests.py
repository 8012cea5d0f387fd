"""Requests to brokers, and the results of responses and timeouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.machines.batches import ProducerBatch
from ottla.machines.queues import SentBatch
from ottla_core.model import TopicPartition


@dataclass(slots=True, eq=False)
class OutgoingRequest:
    """One request to one broker, sent at `sent_at`. It has at most one batch of a partition, as Kafka's brokers demand.
    Each of its parts is reported back exactly once."""

    address: str
    parts: list[SentBatch] = field(default_factory=list)
    size_bytes: int = 0
    deadline_at: float = float("inf")
    sent_at: float = 0.0

    def add(self, part: SentBatch) -> None:
        """Add a part to the request."""
        self.parts.append(part)
        self.deadline_at = min(self.deadline_at, part.batch.deadline_at)


class RequestsInFlight:
    """The requests that were sent and not reported back; `bytes` is the memory that they take in addition to their
    batches."""

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
        """Return the number of requests in flight to the broker."""
        return self._by_address.get(address, 0)

    def add(self, request: OutgoingRequest) -> None:
        """Add a request that is being sent."""
        self._open[request] = None
        self._by_address[request.address] = self.at(request.address) + 1
        self.bytes += request.size_bytes

    def remove(self, request: OutgoingRequest) -> None:
        """Remove a request that was reported back or given up; a second call does nothing."""
        if request in self._open:
            del self._open[request]
            self._by_address[request.address] -= 1
            self.bytes -= request.size_bytes


@dataclass(slots=True)
class Reported:
    """The result of a response: `settled` batches, the number of `splits`, `warnings` for the log, and whether the
    metadata may be wrong."""

    settled: list[ProducerBatch] = field(default_factory=list)
    splits: int = 0
    warnings: list[str] = field(default_factory=list)
    refresh: bool = False


@dataclass(slots=True)
class Drained:
    """The next actions: send `requests`, get a producer id if one is needed, add the partitions that are wanted to the
    transaction, return at `wake_at`."""

    requests: list[OutgoingRequest] = field(default_factory=list)
    reported: Reported = field(default_factory=Reported)
    wants_producer_id: bool = False
    wants_partitions: list[TopicPartition] = field(default_factory=list)
    wake_at: float = float("inf")
