"""Turns records into Arrow, a column at a time and never a row at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Final

import pyarrow as pa

from ottla.connect import RecordRange, Segment
from ottla_core.records.record import HEADERS, KEY, OFFSET, TIMESTAMP, VALUE

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
"""The values of `timestampType`, as Kafka numbers them."""

_FIELDS: Final = (KEY, VALUE, OFFSET, TIMESTAMP, HEADERS)
_PLAIN_COLUMNS: Final = 7
_AT_A_TIME: Final = 1_000


def to_batches(segments: Iterable[Segment], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield one RecordBatch of `schema` (seven columns and perhaps the headers) for adjacent segments of one partition.

    The batches of a log are small, and every RecordBatch costs Spark about as much as two thousand rows. They become
    columns a chunk at a time, and each chunk costs as much as a hundred rows.
    """
    for (partition, kind), group in groupby(segments, lambda segment: (segment[0], segment[1].has_log_append_time)):
        parts = [_columns(chunk, schema) for chunk in _chunks(part for _, part in group)]
        columns = [pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True)]
        count = len(columns[0])
        columns[2:2] = [
            pa.repeat(pa.scalar(partition.topic, pa.string()), count),
            pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
        ]
        columns.insert(6, pa.repeat(pa.scalar(LOG_APPEND_TIME if kind else CREATE_TIME, pa.int32()), count))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _chunks(parts: Iterable[RecordRange]) -> Iterator[list[RecordRange]]:
    """Yield adjacent batches with at least `_AT_A_TIME` records together, except for the last."""
    chunk: list[RecordRange] = []
    count = 0
    for part in parts:
        chunk.append(part)
        count += len(part)
        if count >= _AT_A_TIME:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk


def _columns(parts: Sequence[RecordRange], schema: pa.Schema) -> list[pa.Array]:
    """Return the columns that differ from record to record: key, value, offset, timestamp and, if they are read, the
    headers."""
    fields = _FIELDS if len(schema) > _PLAIN_COLUMNS else _FIELDS[:-1]
    pieces = zip(*(part.columns(*fields) for part in parts), strict=True)
    key, value, offset, timestamp, *headers = ([*chain.from_iterable(column)] for column in pieces)
    columns = [
        pa.array(key, pa.binary()),
        pa.array(value, pa.binary()),
        pa.array(offset, pa.int64()),
        # Spark keeps microseconds. A missing timestamp is -1 ms, as in Spark's own source.
        pa.array(timestamp, pa.timestamp("ms", tz="UTC")).cast(schema.field(5).type),
    ]
    for column in headers:
        pairs = [[{"key": name, "value": value} for name, value in each] or None for each in column]
        columns.append(pa.array(pairs, schema.field(_PLAIN_COLUMNS).type))
    return columns
