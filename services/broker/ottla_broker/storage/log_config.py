"""The meaning of a topic's configuration for its logs, with Kafka's names and defaults. It is immutable and replaced as
a whole."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla_core.records.compression import Compression

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
DAY_MS: Final = 24 * 3600 * 1000


class TimestampType(Enum):
    """The setting message.timestamp.type: whose clock a record's timestamp comes from."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One log's settings. With a retention of -1 records are kept for ever. Positions in a segment are int32, so its
    size is, too.

    `compression` is the codec in which batches are stored. If it is None, each batch keeps its producer's codec.
    `deletes` and `compacts` say what cleanup.policy has. If the log compacts, every record needs a key. Older records
    without a key are dropped if `drops_keyless`.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    max_message_bytes: int = 1_048_588
    compression: Compression | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = MAX_INT64
    timestamp_after_max_ms: int = 3_600_000
    flush_messages: int = MAX_INT64
    flush_ms: int = MAX_INT64
    min_insync_replicas: int = 1
    producer_expiration_ms: int = DAY_MS
    late_transaction_ms: int = 1_200_000
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_INT64
    least_dirty_ratio: float = 0.5
    deletes: bool = True
    compacts: bool = False
    drops_keyless: bool = True

    def __post_init__(self) -> None:
        assert self.segment_bytes <= MAX_INT32, "positions in the offset index are int32"
