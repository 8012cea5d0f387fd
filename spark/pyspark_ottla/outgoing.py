"""A query's rows on their way into topics: Arrow batches as the producer takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any, Final, NamedTuple
from zlib import adler32, crc32

import pyarrow as pa
import pyarrow.compute as pc

from ottla.connect import ByteColumns
from ottla.errors import ConfigError, ErrorCode, SerializationError
from ottla_core.records.record import Header
from pyspark_ottla.producers import BytesProducer

_PART_BYTES: Final = 4 * 1024 * 1024
"""How many bytes of an Arrow batch become Python objects at a time. Spark bounds batches by rows, not by bytes."""


class RowSlice(NamedTuple):
    """Some of a task's rows. `first` is the number of the first of them, from 0."""

    rows: pa.RecordBatch
    first: int

    def column(self, name: str) -> Any:
        """Return the Arrow array, or None if there is none or it is null in every row."""
        if name not in self.rows.schema.names:
            return None
        values = self.rows.column(name)
        return None if values.null_count == len(values) else values

    def named(self, number: int) -> str:
        """Describe one of these rows for an error."""
        keys = self.column("key")
        key = None if keys is None else keys[number].as_py()
        return f"row {self.first + number} of the task" + ("" if key is None else f", with the key {key!r:.60},")


class TopicRows(NamedTuple):
    """Rows for one topic, and the number that each of them has in its part."""

    topic: str
    columns: ByteColumns
    numbers: Sequence[int]


def row_slices(batches: Iterable[pa.RecordBatch]) -> Iterator[RowSlice]:
    """Yield a task's rows, some megabytes at a time."""
    first = 0
    for batch in batches:
        count = max(1, batch.num_rows * _PART_BYTES // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, count):
            yield RowSlice(batch.slice(start, count), first + start)
        first += batch.num_rows


def rows_by_topic(part: RowSlice, topic: str) -> Iterator[TopicRows]:
    """Yield the rows, in their order for each topic. All are for `topic` unless it is "".

    Raises ConfigError for a row without a topic, before any is yielded, and SerializationError for a header without a
    key.
    """
    _check_header_keys(part)
    if topic:
        yield TopicRows(topic, _columns(part), range(part.rows.num_rows))
        return
    topics = part.rows.column("topic")
    if topics.null_count:
        raise ConfigError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{part.named(pc.index(topics.is_null(), True).as_py())} has no topic",
            hint="filter out rows without a topic (WHERE topic IS NOT NULL), or set option('topic', …) for all rows",
        )
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield TopicRows(names[0], _columns(part), range(part.rows.num_rows))
        return
    order = pc.sort_indices(encoded.indices)  # a stable sort: rows of one topic stay in their order
    counts = Counter(encoded.indices.to_pylist())
    first = 0
    for index, name in enumerate(names):
        mine = order.slice(first, counts[index])
        first += counts[index]
        yield TopicRows(name, _columns(part._replace(rows=part.rows.take(mine))), mine.to_pylist())


def check_partitions(producer: BytesProducer, rows: TopicRows, part: RowSlice) -> None:
    """Raise ConfigError for a row whose partition does not exist, before any of them is sent."""
    partitions = rows.columns.partitions
    if partitions is None:
        return
    named = [partition for partition in partitions if partition is not None]
    count = producer.partitions_for(rows.topic)
    if max(named) >= count:
        count = producer.partitions_now(rows.topic)
    if min(named) >= 0 and max(named) < count:
        return
    for number, partition in zip(rows.numbers, partitions, strict=True):
        if partition is not None and not 0 <= partition < count:
            raise ConfigError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{part.named(number)} is for partition {partition} of {rows.topic}, which does not exist",
                hint=f"the topic has partitions 0 to {count - 1}; if the partition is null, the key decides",
            )


def checksum(rows: TopicRows) -> int:
    """Return the sum of the rows' checksums. Equal rows have an equal sum, whatever their order and their slices.

    Each row counts with its topic, partition, headers, key and value, null or not. Each has a CRC-32, made by loops in
    C.
    """
    columns = rows.columns
    partitions, headers, keys = columns.partitions, columns.headers, columns.keys
    sums = _joined(crc32, None if partitions is None else _texts(partitions), b"None", crc32(rows.topic.encode()))
    sums = _joined(crc32, None if headers is None else _texts(headers), b"[]", sums)
    # The function differs from the value's, so that "a" with "bc" is not "ab" with "c".
    sums = _joined(adler32, None if keys is None else _without_nulls(keys), _NULL, sums)
    return sum(map(crc32, _without_nulls(columns.values), repeat(sums) if isinstance(sums, int) else sums))


_NULL: Final = b"\0null"


def _joined(
    function: Callable[[bytes, int], int], texts: Iterable[bytes] | None, absent: bytes, sums: int | Iterable[int]
) -> int | Iterable[int]:
    """Return the checksums of all rows with one more column: one for all of them while they don't differ.

    A column that is `absent`, because it is null in every row of the slice, counts as one of nulls.
    """
    if isinstance(sums, int):
        return function(absent, sums) if texts is None else map(function, texts, repeat(sums))
    return map(function, repeat(absent) if texts is None else texts, sums)


def _texts(values: Sequence[object]) -> Iterable[bytes]:
    return (repr(value).encode() for value in values)


def _without_nulls(texts: Sequence[bytes | None]) -> Sequence[bytes]:
    return [_NULL if text is None else text for text in texts]


def _columns(part: RowSlice) -> ByteColumns:
    values, keys = part.column("value"), part.column("key")
    headers, partitions = part.column("headers"), part.column("partition")
    return ByteColumns(
        values=[None] * part.rows.num_rows if values is None else _bytes(values),
        keys=None if keys is None else _bytes(keys),
        headers=None if headers is None else _headers(headers),
        partitions=None if partitions is None else partitions.to_pylist(),
    )


def _bytes(values: Any) -> list[bytes | None]:
    if pa.types.is_string(values.type):
        values = values.cast(pa.binary())
    elif pa.types.is_large_string(values.type):
        values = values.cast(pa.large_binary())
    texts: list[bytes | None] = values.to_pylist()
    return texts


def _headers(values: Any) -> list[Sequence[Header]]:
    names, texts = values.flatten().flatten()
    pairs = iter(zip(names.to_pylist(), texts.to_pylist(), strict=True))
    counts = pc.list_value_length(values).fill_null(0).to_pylist()
    return [list(islice(pairs, count)) for count in counts]


def _check_header_keys(part: RowSlice) -> None:
    headers = part.column("headers")
    if headers is None or not headers.flatten().flatten()[0].null_count:
        return
    number = next(n for n, pairs in enumerate(_headers(headers)) if any(name is None for name, _ in pairs))
    raise SerializationError(f"{part.named(number)} has a header without a key", hint="give every header a key")
