"""What the owner of a shard appends to its log: one batch, where the owner knows that it belongs (machines.shard)."""

from __future__ import annotations

from typing import NamedTuple

from ottla_broker.machines.shard import find_append_offset, mismatch
from ottla_broker.storage.log import AppendResult, Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.validator import check_count, check_keys
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CODEC_MASK, CONTROL, NO_PRODUCER_ID, BatchHeader, Buffer, check_batch, read_header
from ottla_core.records.fence import ShardFence, fence_of


class OwnedBatch(NamedTuple):
    """One batch of `owner`, who expects its first record at `expected_offset`."""

    owner: ShardFence
    expected_offset: int
    records: Buffer
    header: BatchHeader

    @property
    def is_fence(self) -> bool:
        return self.header.is_control


def check_owned(owner: ShardFence, expected_offset: int, records: Buffer, config: LogConfig) -> OwnedBatch:
    """The batch, which may be appended as it is. Its timestamps are the owner's own, whatever the topic says.

    Raises MESSAGE_TOO_LARGE, INVALID_REQUEST, INVALID_RECORD, and what `check_batch` raises for damaged bytes.
    """
    header = check_batch(records, 0, max_bytes=min(config.max_message_bytes, config.segment_bytes))
    check_count(header)
    if header.size_bytes != len(records):
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"{len(records) - header.size_bytes} bytes follow the batch: a shard takes one at a time",
            hint="put all records into one batch",
        )
    if header.attributes & ~CODEC_MASK not in (0, CONTROL) or header.producer_id != NO_PRODUCER_ID:
        raise OttlaError(
            ErrorCode.INVALID_RECORD,
            f"a shard's batch has the attributes {header.attributes:#06x} and the producer {header.producer_id}: "
            "transactions are not served yet, and the other bits are the broker's to set",
        )
    if not header.is_control:
        if config.compacts:
            check_keys(memoryview(records))
    elif fence_of(records) != owner:
        raise OttlaError(ErrorCode.INVALID_RECORD, "the only control record of a shard is the fence of its new owner")
    return OwnedBatch(owner, expected_offset, records, header)


def find_repeated(log: Log, batch: OwnedBatch) -> AppendResult | None:
    """Where the batch lies already, or None where it is new and belongs to the log's end.

    Raises SHARD_FENCED or OFFSET_MISMATCH where neither holds. Without a yield, as the append that follows.
    """
    end = log.log_end_offset
    position = find_append_offset(log.fence, end, batch.owner, batch.expected_offset, is_fence=batch.is_fence)
    if position == end:
        return None
    stored = read_header(log.read(position, 1, end))  # the batch comes whole; it is young, and in the page cache
    if not batch.is_fence and (stored.base_offset, stored.crc) != (position, batch.header.crc):
        raise mismatch(end, batch.expected_offset)
    return AppendResult(stored.base_offset, stored.last_offset, -1, 0, 0, rolled=False, duplicate=True)


def append_owned(log: Log, batch: OwnedBatch, leader_epoch: int, now_ms: int) -> AppendResult:
    """Write a batch for which `find_repeated` has just found no repeat. Raises KAFKA_STORAGE_ERROR."""
    assert batch.is_fence or log.fence.fence == batch.owner, "its fence comes first"
    assert batch.expected_offset == log.log_end_offset, "it belongs to the log's end"
    return log.append_checked(batch.records, [batch.header], leader_epoch, now_ms)
