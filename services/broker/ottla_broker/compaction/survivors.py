"""What a clean leaves of one batch. Pure.

A survivor keeps its bytes and its offset, and a batch its offsets, its producer and its leader epoch; a batch's
maxTimestamp is that of its survivors, for the record with the largest timestamp is found by it. But for its last
batches, which the log needs at their places, a batch without survivors has no header either: that is for `cleaning`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Final, NamedTuple

from ottla_broker.compaction.record_bytes import split, with_base_timestamp
from ottla_broker.compaction.sealing import sealed
from ottla_broker.compaction.transactions import CleanedTransactions
from ottla_broker.storage.log_config import MAX_INT64
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    BatchHeader,
    framed,
)
from ottla_core.records.compression import decompress
from ottla_core.records.fence import fence_of
from ottla_core.records.reader import sound_records

NO_FENCE: Final = -1
KEYLESS: Final = "compaction.drop.keyless"
"""The config that says what becomes of records without a key."""


class Survivors(NamedTuple):
    """What is left of a batch: in `batch` the original bytes if nothing was lost, and a header if nothing is left.

    Survivors that no reader would take in one batch are several batches, one after another (module sealing)."""

    batch: bytes
    record_count: int


@dataclass(frozen=True, slots=True)
class Survival:
    """Decides which records survive a clean that ends before `end_offset`.

    Records before `log_start_offset` are deleted. `newest_offset` gives the newest offset of a key in the dirty part,
    -1 where it has none. Fences before the newest of the dirty part have no meaning any more; NO_FENCE where that part
    has none.
    """

    newest_offset: Callable[[bytes], int]
    newest_fence: int
    log_start_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    transactions: CleanedTransactions
    drops_keyless: bool = True

    def of(self, header: BatchHeader, batch: bytes) -> Survivors:
        """Return the survivors of a sound batch.

        Raises CORRUPT_MESSAGE, and INVALID_RECORD for a record without a key that is not to be dropped."""
        if header.base_offset >= self.end_offset:
            return Survivors(batch, header.record_count)
        if not header.is_control:
            self.transactions.on_data(header)
        if header.next_offset <= self.log_start_offset:
            return emptied(header)
        if header.is_control:
            return self._of_control(header, batch)
        if not header.record_count:
            return Survivors(batch, 0)
        return emptied(header) if self.transactions.are_void(header) else self._of_data(header, batch)

    def _of_control(self, header: BatchHeader, batch: bytes) -> Survivors:
        """A marker that is no longer needed gets a delete horizon, for readers that are inside its transaction."""
        if header.producer_id == NO_PRODUCER_ID:
            is_over = header.base_offset < self.newest_fence and fence_of(batch) is not None
            return emptied(header) if is_over else Survivors(batch, header.record_count)
        if not header.record_count or not self.transactions.is_spent(header):
            return Survivors(batch, header.record_count)
        if header.attributes & DELETE_HORIZON:
            is_over = self.now_ms >= header.base_timestamp
            return emptied(header) if is_over else Survivors(batch, header.record_count)
        kept = list(split(decompress(header.codec, memoryview(batch)[HEADER_SIZE:])))
        header = self._with_horizon(header, kept)
        return Survivors(sealed(header, kept, divisible=False), header.record_count)

    def _of_data(self, header: BatchHeader, batch: bytes) -> Survivors:
        # Of a batch that is cleaned in part, the end of the map being in it, tombstones wait for the rest of it.
        in_part, has_horizon = header.next_offset > self.end_offset, bool(header.attributes & DELETE_HORIZON)
        drops_tombstones = has_horizon and not in_part and self.now_ms >= header.base_timestamp
        newest_offset, survives, has_tombstone = self.newest_offset, bytearray(), False
        largest_ms = header.max_timestamp if header.has_log_append_time else -1
        for offset, timestamp_ms, key, value, _ in sound_records(header, batch):
            if offset < self.log_start_offset:
                survives.append(False)
                continue
            if key is None:
                check_keyless(offset, drops=self.drops_keyless)
                survives.append(False)
                continue
            stays = offset >= newest_offset(key) and not (value is None and drops_tombstones)
            survives.append(stays)
            has_tombstone |= stays and value is None
            if stays and timestamp_ms is not None and timestamp_ms > largest_ms:
                largest_ms = timestamp_ms
        count = sum(survives)
        if not count:
            return emptied(header)
        gets_horizon = has_tombstone and not has_horizon and not in_part
        if count == header.record_count and not gets_horizon:
            return Survivors(batch, count)
        kept = list(compress(split(decompress(header.codec, memoryview(batch)[HEADER_SIZE:])), survives))
        header = header._replace(record_count=count, max_timestamp=largest_ms)
        if gets_horizon:
            header = self._with_horizon(header, kept)
        # A producer's newest batch stays whole: it is compared with what the producer sends again.
        divisible = header.last_offset not in self.transactions.newest_batches
        return Survivors(sealed(header, kept, divisible=divisible), count)

    def _with_horizon(self, header: BatchHeader, kept: list[bytes]) -> BatchHeader:
        """From here on the base timestamp is when tombstones may go (KIP-534), and the records count from it."""
        horizon_ms = min(self.now_ms + self.delete_retention_ms, MAX_INT64)
        if not header.has_log_append_time:  # else their times are the batch's maxTimestamp
            kept[:] = [with_base_timestamp(record, header.base_timestamp, horizon_ms) for record in kept]
        return header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms)


def emptied(header: BatchHeader) -> Survivors:
    """The header alone; without a codec, as Kafka's readers decompress even nothing."""
    largest_ms = header.max_timestamp if header.has_log_append_time else -1
    attributes = header.attributes & ~CODEC_MASK
    return Survivors(framed(header._replace(attributes=attributes, max_timestamp=largest_ms, record_count=0), b""), 0)


def check_keyless(offset: int, *, drops: bool) -> None:
    """Raise INVALID_RECORD for the record without a key at `offset`, unless such records are dropped."""
    if drops:
        return
    raise OttlaError(
        ErrorCode.INVALID_RECORD,
        f"the record at offset {offset} has no key, so the log can't be compacted: the record was written before the "
        f"topic was set to cleanup.policy=compact, and {KEYLESS}=false keeps such records",
        hint=f"read the keyless records that you still need, then set {KEYLESS}=true on the topic so that compaction "
        "drops them (`ottla log compact` has --drop-keyless for this). Or set cleanup.policy=delete",
    )
