"""Building a record batch: records are appended until it is full, then it is sealed once.

There are two twins that append (compiled, pure). Compression and the header are one code here, so both give the same
bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    BatchHeader,
    Buffer,
    corrupt,
    framed,
)
from ottla_core.records.compression import Codec, compress, output_limit
from ottla_core.records.record import MAX_TIMESTAMP_MS, Header


class RecordBatchBuilder(ABC):
    """A batch in the making, of at most `max_bytes` before compression. `twins.new_builder` makes it.

    A signal handler may raise within `append` or `grow`. The builder then holds what it held before or one whole record
    more, and takes no further record. What it holds can be sealed.
    """

    __slots__ = ("record_count",)

    def __init__(self) -> None:
        self.record_count = 0
        """It is too low by one after an interrupted `append`, until `close`."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """This is the size of the present batch, uncompressed and with its header: an upper bound of what `seal`
        returns."""

    @property
    @abstractmethod
    def takes_records(self) -> bool:
        """It is False after an `append` or a `grow` that has raised."""

    @abstractmethod
    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> bool:
        """Add a record, whose offset delta is `record_count` before the call. Return False if it does not fit, or if
        the builder takes none.

        The first record always fits, whatever its size, because the limit that rejects it is the broker's. Raises
        INVALID_TIMESTAMP for a negative timestamp, and TypeError for anything but bytes. Then nothing is added.
        """

    @abstractmethod
    def grow(self, max_bytes: int) -> None:
        """Let a batch with at least one record take records up to `max_bytes`, which is more than before."""

    @abstractmethod
    def close(self) -> int:
        """Return how many records the batch holds, which is `record_count` from now on. No record is added later."""

    @abstractmethod
    def _finish(self) -> tuple[BatchHeader, bytes]:
        """Return the header without codec and CRC, and the records. The builder can't be used afterwards."""

    def seal(
        self,
        codec: Codec = Codec.NONE,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        attributes: int = 0,
    ) -> bytes:
        """Return the finished batch with base offset 0 and leader epoch -1, which the broker sets. It may be called
        only once.

        `attributes` are the bits besides the codec (TRANSACTIONAL, CONTROL). Records that don't get smaller are stored
        as they are, and so are those that a reader would reject as a decompression bomb.
        """
        assert self.record_count, "a batch without records can't be sealed"
        header, records = self._finish()
        payload = compress(codec, records)
        if not len(payload) < len(records) <= output_limit(len(payload)):
            codec, payload = Codec.NONE, records
        header = header._replace(
            attributes=attributes | codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
        return framed(header, payload)


def is_sendable(header: BatchHeader) -> bool:
    """Return whether a producer could have sent this batch: it is no marker, whole, and without what compaction or a
    broker adds."""
    whole = header.record_count == header.last_offset_delta + 1 and not header.attributes & DELETE_HORIZON
    return whole and not header.is_control and not header.has_log_append_time


class SealedBatch:
    """A whole batch that was written elsewhere and is written once more. The bytes of its records do not change.

    Its offsets, producer and transaction belong to its old log, and stay behind. The caller has checked `header` and
    `payload` (the records, compressed by its codec). Raises CORRUPT_MESSAGE unless it `is_sendable`.
    """

    __slots__ = ("_header", "_payload")

    def __init__(self, header: BatchHeader, payload: Buffer) -> None:
        if not is_sendable(header):
            raise corrupt("a batch with gaps, a delete horizon, the broker's time or a marker can't be sent as it is")
        self._header, self._payload = header, payload

    @property
    def record_count(self) -> int:
        return self._header.record_count

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> bool:
        """Return False, because it takes no further record."""
        return False

    @property
    def takes_records(self) -> bool:
        return False

    def close(self) -> int:
        return self.record_count

    @property
    def max_timestamp_ms(self) -> int:
        return self._header.max_timestamp

    @property
    def size_bytes(self) -> int:
        return HEADER_SIZE + len(self._payload)

    def seal(
        self,
        codec: Codec = Codec.NONE,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        attributes: int = 0,
    ) -> bytes:
        """Do as RecordBatchBuilder.seal does, but the codec does not change."""
        header = self._header._replace(
            base_offset=0,
            leader_epoch=-1,
            attributes=attributes | (self._header.attributes & CODEC_MASK),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
        return framed(header, self._payload)


def check_timestamp(timestamp_ms: int) -> None:
    """Raise INVALID_TIMESTAMP unless `timestamp_ms` is a count of milliseconds that a record can carry."""
    if not 0 <= timestamp_ms <= MAX_TIMESTAMP_MS:
        raise OttlaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"a record can't have the timestamp {timestamp_ms}",
            hint="use a non-negative number of milliseconds since 1970",
        )
