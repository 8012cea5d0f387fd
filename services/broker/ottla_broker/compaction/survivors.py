"""What a clean leaves of one batch. Pure.

Compaction keeps the newest record of each key and drops the others. Every offset that a reader or a follower knows must
stay valid, so a survivor keeps its bytes and its offset, and a batch keeps its offsets, its producer and its leader
epoch (rule 62: keep the offset of every survivor). Consumers see gaps instead of moved records. A batch's maxTimestamp
becomes that of its survivors, because the record with the largest timestamp is found by it.

Four things are more than an old value of a key, and each has a rule of its own. A *tombstone* must stay long enough for
readers to see the deletion (KIP-534: delete.retention.ms from its first clean). A *marker* must stay as long as a
record of its transaction does, or readers could not tell whether that was committed. A *producer's newest batch* proves
its last sequence, and stays at least as a header (rule 30). A *fence* says who owns a shard, and only the newest
counts.

If a batch has no survivors, its header goes as well, unless the log needs it: `cleaning` decides that.
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
    """What is left of a batch. `batch` has the original bytes if nothing was lost, and a header alone if nothing is
    left.

    Survivors that no reader would take in one batch are divided into several batches, one after another (module
    sealing).
    """

    batch: bytes
    record_count: int


@dataclass(frozen=True, slots=True)
class Survival:
    """Decides which records survive a clean that ends before `end_offset`.

    Records before `log_start_offset` are deleted. Tombstones and markers at or after `purge_limit` stay.
    `newest_offset` gives the newest offset of a key in the dirty part, or -1 if the key has none there. Fences before
    the newest one of the dirty part no longer count; it is NO_FENCE if that part has none.
    """

    newest_offset: Callable[[bytes], int]
    newest_fence: int
    log_start_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    transactions: CleanedTransactions
    drops_keyless: bool = True
    purge_limit: int = MAX_INT64

    def purges(self, header: BatchHeader) -> bool:
        """Return whether the tombstones of the batch, or its marker, may go now: its delete horizon has passed, every
        replica that is being filled has it, and the whole batch was looked at."""
        return (
            bool(header.attributes & DELETE_HORIZON)
            and self.now_ms >= header.base_timestamp
            and header.next_offset <= min(self.purge_limit, self.end_offset)
        )

    def of(self, header: BatchHeader, batch: bytes) -> Survivors:
        """Return the survivors of a sound batch.

        Raises CORRUPT_MESSAGE, and INVALID_RECORD for a record without a key that is not to be dropped.
        """
        # The offset map knows no keys from there on, so nothing in it can be called old.
        if header.base_offset >= self.end_offset:
            return Survivors(batch, header.record_count)
        if not header.is_control:
            # The data is noted before any batch is emptied: a marker may go only once a clean has found no batch of its
            # transaction any more.
            self.transactions.on_data(header)
        if header.next_offset <= self.log_start_offset:
            return emptied(header)
        if header.is_control:
            return self._of_control(header, batch)
        if not header.record_count:
            return Survivors(batch, 0)
        # Records of an aborted transaction are never returned to readers of committed records, so they go whatever
        # their keys are. Those of an open transaction lie above the last stable offset, where no clean comes.
        return emptied(header) if self.transactions.are_void(header) else self._of_data(header, batch)

    def _of_control(self, header: BatchHeader, batch: bytes) -> Survivors:
        """Return what is left of a marker or a fence.

        A marker that is no longer needed is not removed at once. It gets a delete horizon first, because a consumer
        that has read the transaction's records before this clean still has to meet the marker.
        """
        if header.producer_id == NO_PRODUCER_ID:
            # A control batch that is no fence is of a kind that this release does not know. It stays.
            is_over = header.base_offset < self.newest_fence and fence_of(batch) is not None
            return emptied(header) if is_over else Survivors(batch, header.record_count)
        if not header.record_count or not self.transactions.is_spent(header):
            return Survivors(batch, header.record_count)
        if header.attributes & DELETE_HORIZON:
            return emptied(header) if self.purges(header) else Survivors(batch, header.record_count)
        kept = list(split(decompress(header.codec, memoryview(batch)[HEADER_SIZE:])))
        header = self._with_horizon(header, kept)
        return Survivors(sealed(header, kept, divisible=False), header.record_count)

    def _of_data(self, header: BatchHeader, batch: bytes) -> Survivors:
        # The end of the map may lie within this batch. Then its tombstones wait for a clean of the whole batch: the
        # horizon belongs to the batch, and records behind the end were not looked at yet.
        in_part, has_horizon = header.next_offset > self.end_offset, bool(header.attributes & DELETE_HORIZON)
        drops_tombstones = self.purges(header)
        newest_offset, survives, has_tombstone = self.newest_offset, bytearray(), False
        # With LogAppendTime all records have the batch's own time, which is not in the records.
        largest_ms = header.max_timestamp if header.has_log_append_time else -1
        for offset, timestamp_ms, key, value, _ in sound_records(header, batch):
            if offset < self.log_start_offset:
                survives.append(False)
                continue
            # A record without a key was written before the topic became compacted. No newer record can replace it.
            if key is None:
                check_keyless(offset, drops=self.drops_keyless)
                survives.append(False)
                continue
            # The offset is greater if the key has no record in the dirty part (-1), or if the record lies behind the
            # end of the map.
            stays = offset >= newest_offset(key) and not (value is None and drops_tombstones)
            survives.append(stays)
            has_tombstone |= stays and value is None
            if stays and timestamp_ms is not None and timestamp_ms > largest_ms:
                largest_ms = timestamp_ms
        count = sum(survives)
        if not count:
            return emptied(header)
        gets_horizon = has_tombstone and not has_horizon and not in_part
        # A batch that loses nothing keeps its bytes, and costs neither compression nor another CRC.
        if count == header.record_count and not gets_horizon:
            return Survivors(batch, count)
        kept = list(compress(split(decompress(header.codec, memoryview(batch)[HEADER_SIZE:])), survives))
        header = header._replace(record_count=count, max_timestamp=largest_ms)
        if gets_horizon:
            header = self._with_horizon(header, kept)
        # A producer's newest batch is never divided: a repeat is recognized by its first and last sequence (rule 26).
        divisible = header.last_offset not in self.transactions.newest_batches
        return Survivors(sealed(header, kept, divisible=divisible), count)

    def _with_horizon(self, header: BatchHeader, kept: list[bytes]) -> BatchHeader:
        """Give the batch a delete horizon: its base timestamp becomes the time from which tombstones may go (KIP-534).

        The records' own times stay, because their deltas are counted from the new base timestamp.
        """
        horizon_ms = min(self.now_ms + self.delete_retention_ms, MAX_INT64)
        if not header.has_log_append_time:  # otherwise their times are the batch's maxTimestamp
            kept[:] = [with_base_timestamp(record, header.base_timestamp, horizon_ms) for record in kept]
        return header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms)


def emptied(header: BatchHeader) -> Survivors:
    """Return the header alone. It names no codec, because Kafka's readers would decompress even an empty payload."""
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
