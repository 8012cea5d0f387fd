"""What a client's batches have to be before any of them gets an offset. Pure: it changes nothing and may raise.

Everything is told from the headers and the CRC; records are not walked (rule 64, docs/rules.md).
"""

from __future__ import annotations

from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchHeader,
    check_batch,
)

_BROKERS_BITS = CONTROL | DELETE_HORIZON | LOG_APPEND_TIME


def check_appendable(records: bytes, config: LogConfig, now_ms: int) -> list[BatchHeader]:
    """The headers of all batches in `records`, at least one; each may be appended as it is.

    Raises CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP,
    INVALID_REQUEST, UNSUPPORTED_FOR_MESSAGE_FORMAT or UNSUPPORTED_COMPRESSION_TYPE.
    """
    if len(records) > config.segment_bytes:
        raise OttlaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{len(records)} bytes of batches are more than a segment of {config.segment_bytes} bytes holds",
            hint="send less at once or raise the topic's segment.bytes",
        )
    headers: list[BatchHeader] = []
    at = 0
    while at < len(records):
        header = check_batch(records, at, max_bytes=config.max_message_bytes)
        _check_admissible(header)
        if config.timestamp_type is TimestampType.CREATE_TIME:
            _check_timestamps(header, config, now_ms)
        headers.append(header)
        at += header.size_bytes
    if not headers:
        raise OttlaError(ErrorCode.INVALID_RECORD, "a produce request without a batch for the partition")
    return headers


def _check_admissible(header: BatchHeader) -> None:
    if header.attributes & _BROKERS_BITS:
        raise OttlaError(
            ErrorCode.INVALID_RECORD,
            f"a client's batch has the attributes {header.attributes:#06x}: control batches, delete horizons and "
            "append times are the broker's to set",
        )
    if header.producer_id != NO_PRODUCER_ID or header.attributes & TRANSACTIONAL:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            "idempotent and transactional batches are not served yet",
            hint="produce with enable.idempotence=false",
        )


def _check_timestamps(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """The bounds of KIP-937, on the two timestamps in the header; -1 stands for none."""
    first, largest = header.base_timestamp, header.max_timestamp
    if not -1 <= first <= largest:
        raise OttlaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"a batch begins at timestamp {first} and says that its largest is {largest}",
            hint="timestamps are milliseconds since 1970, -1 for none",
        )
    if largest - now_ms > config.timestamp_after_max_ms:
        raise OttlaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"the timestamp {largest} is {largest - now_ms} ms ahead of the broker's clock",
            hint=f"correct the client's clock or raise message.timestamp.after.max.ms={config.timestamp_after_max_ms}",
        )
    if first >= 0 and now_ms - first > config.timestamp_before_max_ms:
        raise OttlaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"the timestamp {first} is {now_ms - first} ms behind the broker's clock",
            hint=f"raise message.timestamp.before.max.ms={config.timestamp_before_max_ms}",
        )
