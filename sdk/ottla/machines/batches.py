"""What the accumulator works with: batches, the queue of one partition, and what goes to a broker and comes back."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ottla.errors import OttlaError
from ottla.machines.metadata import Route
from ottla_core.model import TopicPartition
from ottla_core.records.builder import RecordBatchBuilder
from ottla_core.records.compression import Codec


@dataclass(frozen=True, slots=True)
class Limits:
    """The producer's settings that rule here; times in seconds, sizes in bytes."""

    batch_bytes: int = 64 * 1024
    buffer_bytes: int = 32 * 1024 * 1024
    request_bytes: int = 1024 * 1024
    linger_s: float = 0.005
    delivery_timeout_s: float = 120.0
    retries: int = 2**31 - 1
    backoff_s: float = 0.1
    backoff_most_s: float = 1.0
    requests_per_broker: int = 5
    codec: Codec = Codec.NONE


class Batch:
    """Records of one partition, written as one. Settled when it has a base offset or an error."""

    __slots__ = (
        "attempts",
        "base_offset",
        "builder",
        "charged_bytes",
        "count",
        "deadline_at",
        "encoded",
        "error",
        "first_key",
        "log_append_time_ms",
        "opened_at",
        "partition",
        "settled",
        "ticket",
    )

    def __init__(
        self,
        partition: TopicPartition,
        builder: RecordBatchBuilder,
        ticket: object,
        now: float,
        limits: Limits,
        charged: int,
    ) -> None:
        self.partition = partition
        self.builder = builder
        self.opened_at = now
        self.deadline_at = now + limits.delivery_timeout_s
        self.charged_bytes = charged
        self.count = 1
        self.first_key: bytes | None = None  # where keys decide about partitions, for HotKeyWatch
        self.attempts = 0
        self.encoded: bytes | None = None
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: OttlaError | None = None
        self.settled = False
        self.ticket = ticket  # of whoever waits for the outcome; nothing in here looks at it

    def encode(self, codec: Codec) -> bytes:
        """The batch's bytes, built at the first call: after it no record can be appended."""
        if self.encoded is None:
            self.encoded = self.builder.seal(codec)
            del self.builder  # its records would lie in memory twice until the answer
        return self.encoded

    def release(self) -> None:
        """Let go of the bytes: the batch may live on for long in its records' Deliveries."""
        self.encoded = None
        if hasattr(self, "builder"):
            del self.builder


class PartitionQueue:
    """One partition's batches: `in_flight` sent and not answered, then `closed` in order, then the `open` one."""

    __slots__ = ("closed", "failures", "in_flight", "one_by_one", "open", "partition", "retry_at")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.open: Batch | None = None
        self.closed: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.failures = 0
        self.retry_at = 0.0
        self.one_by_one = False

    def head(self) -> Batch | None:
        """The oldest batch that was not sent, None for none."""
        return self.closed[0] if self.closed else self.open


@dataclass(slots=True)
class Part:
    """What one request carries for one partition."""

    queue: PartitionQueue
    route: Route
    batches: list[Batch]


@dataclass(slots=True)
class Request:
    """One request to one broker. Every part of it is reported back exactly once, by `on_reply` or `on_failed`."""

    address: str
    parts: list[Part] = field(default_factory=list)
    size_bytes: int = 0
    deadline_at: float = float("inf")
    sent_at: float = 0.0

    def add(self, part: Part, size_bytes: int) -> None:
        """Take a part of so many bytes along."""
        self.parts.append(part)
        self.size_bytes += size_bytes
        self.deadline_at = min(self.deadline_at, part.batches[0].deadline_at)


@dataclass(slots=True)
class Drained:
    """What to do now: send `requests`, tell about `expired`, learn about `unroutable`, come back at `wake_at`."""

    requests: list[Request] = field(default_factory=list)
    expired: list[Batch] = field(default_factory=list)
    unroutable: set[str] = field(default_factory=set)
    wake_at: float = float("inf")


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's answer for one partition: an offset, or Kafka's code and words."""

    base_offset: int = -1
    log_append_time_ms: int = -1
    code: int = 0
    message: str = ""


@dataclass(slots=True)
class Reported:
    """What a reply came to: `settled` batches to tell about, and whether the metadata may be wrong."""

    settled: list[Batch] = field(default_factory=list)
    refresh: bool = False
