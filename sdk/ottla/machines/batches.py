"""A producer's batch, the limits that apply to it, and a broker's response to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.errors import OttlaError
from ottla.machines.sequences import NO_STAMP, Stamp
from ottla_core.model import TopicId, TopicPartition
from ottla_core.records.batch import HEADER_SIZE, framed, read_header
from ottla_core.records.builder import RecordBatchBuilder, SealedBatch
from ottla_core.records.compression import Codec

NO_LIMIT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ProducerLimits:
    """The producer's settings for batches; times are in seconds, sizes in bytes.

    `grown_bytes` is not a setting. It is the size up to which a batch grows while it waits for a request.
    """

    batch_bytes: int = 64 * 1024
    buffer_bytes: int = 32 * 1024 * 1024
    request_bytes: int = 1024 * 1024
    linger_s: float = 0.005
    delivery_timeout_s: float = 120.0
    retries: int = 2**31 - 1
    backoff_s: float = 0.1
    backoff_most_s: float = 1.0
    requests_per_broker: int = 5
    idempotent: bool = False
    codec: Codec = Codec.NONE
    grown_bytes: int = 0


class ProducerBatch:
    """Records of one partition, written together. A batch is settled once it has a base offset or an error.

    A batch that a broker finds too large is split (machines/splitting.py). It then has `parts`, which are sent in its
    place, and it is settled with the last of them. Each part knows its `whole`, the batch that `send` has filled.
    """

    __slots__ = (
        "attempts",
        "base_offset",
        "builder",
        "charged_bytes",
        "count",
        "deadline_at",
        "encoded",
        "error",
        "grown",
        "in_doubt",
        "log_append_time_ms",
        "may_be_written",
        "opened_at",
        "partition",
        "parts",
        "parts_open",
        "sampled_keys",
        "sealed",
        "settled",
        "stamp",
        "ticket",
        "topic_id",
        "whole",
    )

    def __init__(
        self,
        partition: TopicPartition,
        builder: RecordBatchBuilder | SealedBatch,
        ticket: object,
        now: float,
        limits: ProducerLimits,
        charged: int,
    ) -> None:
        self.partition = partition
        self.builder = builder
        self.opened_at = now
        self.deadline_at = now + limits.delivery_timeout_s
        self.charged_bytes = charged
        self.count = 1
        self.sampled_keys: list[bytes | None] = []  # where keys decide about partitions, for HotKeyWatch
        self.attempts = 0
        self.encoded: bytes | None = None
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: OttlaError | None = None
        self.settled = False
        self.stamp = NO_STAMP
        self.ticket = ticket  # of the threads that wait for the outcome; nothing in here looks at it
        self.topic_id: TopicId | None = None  # of the only topic that may have it; None: whichever has the name
        self.sealed = isinstance(builder, SealedBatch)
        self.grown = False  # beyond the size at which it is full
        self.may_be_written = False  # an attempt to write it with its stamp has an unknown outcome
        self.parts: list[ProducerBatch] = []
        self.parts_open = 0  # how many of them have no outcome
        self.whole: ProducerBatch | None = None
        self.in_doubt = False  # a part of a batch that may be written

    def is_for(self, topic_id: TopicId) -> bool:
        """Return whether the batch may be written to the topic with this id."""
        return self.topic_id is None or self.topic_id == topic_id

    def part_with(self, number: int) -> tuple[ProducerBatch, int]:
        """Return the batch that carries the record with this number, and the record's number in that batch."""
        for part in self.parts:
            if number < part.count:
                return part, number
            number -= part.count
        return self, number

    @property
    def failed_count(self) -> int:
        """How many records of the settled batch were not delivered."""
        return sum(part.count for part in self.parts or (self,) if part.error is not None)

    def encode(self, codec: Codec, attributes: int = 0) -> bytes:
        """Return the batch's bytes. The first call builds them; after it, no record can be appended.

        `attributes` has TRANSACTIONAL set for a batch of a transaction.
        """
        if self.encoded is None:
            producer_id, epoch, sequence = self.stamp
            self.encoded = self.builder.seal(
                codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, attributes=attributes
            )
            del self.builder  # its records would lie in memory twice until the answer
        return self.encoded

    def stamp_with(self, stamp: Stamp) -> None:
        """Set the batch's producer id, epoch and sequence, also in its bytes if they have been built."""
        self.stamp = stamp
        self.may_be_written = self.in_doubt = False
        if self.encoded is not None:
            self.encoded = _stamped(self.encoded, stamp)

    def release(self) -> None:
        """Drop the bytes, because Deliveries of the records may keep the batch object alive for a long time."""
        self.encoded = None
        if hasattr(self, "builder"):
            del self.builder


def _stamped(batch: bytes, stamp: Stamp) -> bytes:
    """Return the bytes of the same records under another stamp, with a new CRC."""
    header = read_header(batch)._replace(
        producer_id=stamp.producer_id, producer_epoch=stamp.epoch, base_sequence=stamp.sequence
    )
    return framed(header, memoryview(batch)[HEADER_SIZE:])


@dataclass(frozen=True, slots=True)
class BatchResponse:
    """A broker's response to one batch: an offset, or Kafka's code and a message."""

    base_offset: int = -1
    log_append_time_ms: int = -1
    code: int = 0
    message: str = ""
