"""Appends by the owner of a shard. The owner says at which offset it expects its batches (machines.shard)."""

from __future__ import annotations

from typing import NamedTuple

from ottla_broker.machines.shard import find_append_offset, mismatch
from ottla_broker.storage.log import AppendResult, Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.validator import check_records
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import (
    CODEC_MASK,
    CONTROL,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    check_batch,
    headers_at,
    iter_headers,
)
from ottla_core.records.control import marker_of
from ottla_core.records.fence import ShardFence, fence_of


class OwnedBatches(NamedTuple):
    """Batches of `owner`, which expects them at `expected_offset`. `headers` are their headers at that offset."""

    owner: ShardFence
    expected_offset: int
    records: Buffer
    headers: list[BatchHeader]

    @property
    def is_fence(self) -> bool:
        return _is_fence(self.headers[0])


def check_owned(owner: ShardFence, expected_offset: int, records: Buffer, config: LogConfig) -> OwnedBatches:
    """Return the batches, which may be appended as they are. Their timestamps are the owner's own, whatever the topic
    says.

    Raises MESSAGE_TOO_LARGE, INVALID_REQUEST, INVALID_RECORD, and what `check_batch` raises for damaged bytes.
    """
    if len(records) > config.segment_bytes:
        raise OttlaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{len(records)} bytes of batches don't fit into a segment of {config.segment_bytes} bytes",
        )
    at, count = 0, 0
    while at < len(records) or not at:
        header = check_batch(records, at, max_bytes=config.max_message_bytes)
        _check_kind(header, memoryview(records)[at : at + header.size_bytes], owner, config)
        at, count = at + header.size_bytes, count + 1
        if _is_fence(header) and len(records) > header.size_bytes:
            raise OttlaError(
                ErrorCode.INVALID_REQUEST,
                "a fence must be the only batch of a request, but this request contains others",
            )
    return OwnedBatches(owner, expected_offset, records, headers_at(records, expected_offset))


def find_repeated(log: Log, batches: OwnedBatches) -> AppendResult | None:
    """Return where the batches are in the log already, or None if they are new and belong at its end.

    Raises SHARD_FENCED or OFFSET_MISMATCH if neither is so, for example if only the first of them are there. Neither
    this nor the append that follows yields.
    """
    end, expected_offset = log.log_end_offset, batches.expected_offset
    position = find_append_offset(log.fence, end, batches.owner, expected_offset, is_fence=batches.is_fence)
    if position == end:
        return None
    if not batches.is_fence:
        stored = log.read(position, len(batches.records), end)  # they are young, and in the page cache
        found = [(header.base_offset, header.crc) for _, header in iter_headers(stored)]
        if found != [(header.base_offset, header.crc) for header in batches.headers]:
            raise mismatch(end, expected_offset)
    last_offset = position + batches.headers[-1].last_offset - expected_offset
    return AppendResult(position, last_offset, -1, 0, 0, rolled=False, duplicate=True)


def append_owned(log: Log, batches: OwnedBatches, leader_epoch: int, now_ms: int) -> AppendResult:
    """Write batches for which `find_repeated` has just found no repeat. Raises KAFKA_STORAGE_ERROR."""
    assert batches.is_fence or log.fence.fence == batches.owner, "its fence comes first"
    assert batches.expected_offset == log.log_end_offset, "they belong to the log's end"
    return log.append_checked(batches.records, batches.headers, leader_epoch, now_ms)


def _is_fence(header: BatchHeader) -> bool:
    return header.is_control and header.producer_id == NO_PRODUCER_ID


def _check_kind(header: BatchHeader, batch: memoryview, owner: ShardFence, config: LogConfig) -> None:
    """Check that the batch has entries, those of a producer's transaction, its marker, or the owner's own fence."""
    bits = header.attributes & ~CODEC_MASK
    has_producer = header.producer_id >= 0 and header.producer_epoch >= 0 and header.base_sequence < 0
    if _is_fence(header) and bits == CONTROL:
        if fence_of(batch) != owner:
            raise OttlaError(ErrorCode.INVALID_RECORD, "the fence names a different owner than the one appending it")
    elif (bits, header.producer_id) == (0, NO_PRODUCER_ID) or (bits == TRANSACTIONAL and has_producer):
        check_records(header, batch, config)
    elif bits != CONTROL | TRANSACTIONAL or not has_producer or marker_of(batch) is None:
        raise OttlaError(
            ErrorCode.INVALID_RECORD,
            f"a shard's batch has attributes {header.attributes:#06x}, producer {header.producer_id} with epoch "
            f"{header.producer_epoch}, and sequence {header.base_sequence}: such a batch holds neither plain nor "
            "transactional entries, and is neither a marker nor a fence",
        )
