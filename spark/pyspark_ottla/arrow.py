"""Records as Arrow: a column at a time, never a row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from ottla.record import Segment
from ottla_core.records.record import RawRecord

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
"""The values of `timestampType`, as Kafka numbers them."""


def to_batch(segment: Segment, schema: pa.Schema) -> pa.RecordBatch:
    """One RecordBatch of `schema` (the seven columns and, where it has an eighth, the headers), of one partition."""
    (topic, number), part = segment
    raws: Sequence[RawRecord] = list(part)
    offsets, times_ms, keys, values, headers = zip(*raws, strict=True)
    count = len(raws)
    kind = LOG_APPEND_TIME if part.has_log_append_time else CREATE_TIME
    columns: list[pa.Array[Any]] = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        _repeated(pa.scalar(topic, pa.string()), count),
        _repeated(pa.scalar(number, pa.int32()), count),
        pa.array(offsets, pa.int64()),
        _timestamps(times_ms, schema.field(5).type),
        _repeated(pa.scalar(kind, pa.int32()), count),
    ]
    if len(schema) > len(columns):
        told = [[{"key": name, "value": value} for name, value in pairs] or None for pairs in headers]
        columns.append(pa.array(told, schema.field(len(columns)).type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _repeated(value: Any, count: int) -> Any:
    return pa.repeat(value, count)


def _timestamps(times_ms: Sequence[int], kind: Any) -> Any:
    """Microseconds, as Spark keeps them; a record without a timestamp has -1 ms, as in Spark's own source."""
    return pa.array(times_ms, pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(kind)
