"""Records as Arrow: a column at a time, never a row at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa

from ottla.connect import RecordRange, Segment
from ottla_core.records.record import RawRecord

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
"""The values of `timestampType`, as Kafka numbers them."""

_PLAIN_COLUMNS: Final = 7
_AT_A_TIME: Final = 1_000


def to_batches(segments: Iterable[Segment], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """One RecordBatch of `schema` (seven columns and perhaps the headers) for adjacent segments of one partition.

    The batches of a log are small, and every RecordBatch costs Spark about as much as two thousand rows. They are
    transposed some at a time: each time costs as much as two hundred rows, and ten thousand tuples at once would make
    the garbage collector look at all of them.
    """
    for (partition, kind), group in groupby(segments, lambda segment: (segment[0], segment[1].has_log_append_time)):
        parts = [_columns(raws, schema) for raws in _some_at_a_time(part for _, part in group)]
        columns = [pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True)]
        count = len(columns[0])
        columns[2:2] = [
            pa.repeat(pa.scalar(partition.topic, pa.string()), count),
            pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
        ]
        columns.insert(6, pa.repeat(pa.scalar(LOG_APPEND_TIME if kind else CREATE_TIME, pa.int32()), count))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _some_at_a_time(parts: Iterable[RecordRange]) -> Iterator[list[RawRecord]]:
    """The records of adjacent batches, at least `_AT_A_TIME` of them but for the last."""
    raws: list[RawRecord] = []
    for part in parts:
        raws += part
        if len(raws) >= _AT_A_TIME:
            yield raws
            raws = []
    if raws:
        yield raws


def _columns(raws: Sequence[RawRecord], schema: pa.Schema) -> list[pa.Array]:
    """What differs from record to record: key, value, offset, timestamp and, where they are read, the headers."""
    columns = [  # a list a column, which costs a third of zip(*raws)
        pa.array([raw[2] for raw in raws], pa.binary()),
        pa.array([raw[3] for raw in raws], pa.binary()),
        pa.array([raw[0] for raw in raws], pa.int64()),
        # Microseconds, as Spark keeps them; none is -1 ms, as in Spark's own source.
        pa.array([raw[1] for raw in raws], pa.timestamp("ms", tz="UTC")).cast(schema.field(5).type),
    ]
    if len(schema) > _PLAIN_COLUMNS:
        headers = [[{"key": name, "value": value} for name, value in raw[4]] or None for raw in raws]
        columns.append(pa.array(headers, schema.field(_PLAIN_COLUMNS).type))
    return columns
