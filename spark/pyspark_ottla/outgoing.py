"""A query's columns on their way into topics: which there may be, and Arrow batches as the producer takes them.

As in Spark's own Kafka sink: value is needed; key, headers, topic and partition are known by their names; whatever else
the query has is left out, a timestamp too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    VarcharType,
)

from ottla.bulk import ByteColumns
from ottla.errors import ConfigError, ErrorCode, SerializationError, config_error
from ottla_core.records.record import Header

_PART_BYTES: Final = 4 * 1024 * 1024
"""Of an Arrow batch that becomes Python objects at a time: Spark bounds batches by rows, however large a row is."""


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType | VarcharType | CharType)


def _is_bytes(kind: DataType) -> bool:
    return _is_text(kind) or isinstance(kind, BinaryType)


def _is_headers(kind: DataType) -> bool:
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)):
        return False
    fields = kind.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and _is_text(fields[0].dataType)
        and isinstance(fields[1].dataType, BinaryType)
    )


_COLUMNS: Final[dict[str, tuple[Callable[[DataType], bool], str]]] = {
    "topic": (_is_text, "string"),
    "key": (_is_bytes, "string or binary"),
    "value": (_is_bytes, "string or binary"),
    "headers": (_is_headers, "array<struct<key:string,value:binary>>"),
    "partition": (lambda kind: isinstance(kind, IntegerType), "int"),
}


class Part(NamedTuple):
    """Some of a task's rows, of which the first is its number `first`, from 0."""

    rows: pa.RecordBatch
    first: int

    def column(self, name: str) -> Any:
        """The Arrow array, None where there is none or it is null in every row."""
        if name not in self.rows.schema.names:
            return None
        values = self.rows.column(name)
        return None if values.null_count == len(values) else values

    def named(self, number: int) -> str:
        """One of these rows in words."""
        keys = self.column("key")
        key = None if keys is None else keys[number].as_py()
        return f"row {self.first + number} of the task" + ("" if key is None else f", with the key {key!r:.60},")


class Rows(NamedTuple):
    """Rows for one topic, and what number each of them has in its part."""

    topic: str
    columns: ByteColumns
    numbers: Sequence[int]


def check_columns(schema: StructType, topic: str) -> None:
    """Raise ConfigError unless rows of `schema` can be written; `topic` is that of all rows, "" where a column says."""
    names = [name for name in schema.names if name in _COLUMNS]
    for name in names:
        if names.count(name) > 1:
            raise config_error(f"the column {name} is there {names.count(name)} times", hint="give one of that name")
        fits, legal = _COLUMNS[name]
        kind = schema[name].dataType
        if not fits(kind):
            raise config_error(f"the column {name} is {kind.simpleString()}", hint=f"it has to be {legal}: cast it")
    if "value" not in names:
        raise config_error("there is no column value", hint="name the one that is to be written: … AS value")
    if "topic" not in names and not topic:
        raise config_error(
            "nothing says which topic to write to", hint="give option('topic', …), or a column topic with every row's"
        )


def parts(batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
    """A task's rows, some megabytes at a time."""
    first = 0
    for batch in batches:
        count = max(1, batch.num_rows * _PART_BYTES // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, count):
            yield Part(batch.slice(start, count), first + start)
        first += batch.num_rows


def rows_by_topic(part: Part, topic: str) -> Iterator[Rows]:
    """The rows, in their order for each topic, all for `topic` unless it is "".

    Raises ConfigError for a row without a topic, before any, and SerializationError for a header without a key.
    """
    _check_header_keys(part)
    if topic:
        yield Rows(topic, _columns(part), range(part.rows.num_rows))
        return
    topics = part.rows.column("topic")
    if topics.null_count:
        raise ConfigError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{part.named(pc.index(topics.is_null(), True).as_py())} has no topic",
            hint="leave rows without one out (WHERE topic IS NOT NULL), or give option('topic', …) for all of them",
        )
    told = topics.dictionary_encode()
    names = told.dictionary.to_pylist()
    if len(names) == 1:
        yield Rows(names[0], _columns(part), range(part.rows.num_rows))
        return
    order = pc.sort_indices(told.indices)  # a stable sort: rows of one topic stay in their order
    counts = Counter(told.indices.to_pylist())
    first = 0
    for index, name in enumerate(names):
        mine = order.slice(first, counts[index])
        first += counts[index]
        yield Rows(name, _columns(part._replace(rows=part.rows.take(mine))), mine.to_pylist())


def _columns(part: Part) -> ByteColumns:
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
    told: list[bytes | None] = values.to_pylist()
    return told


def _headers(values: Any) -> list[Sequence[Header]]:
    names, texts = values.flatten().flatten()
    pairs = iter(zip(names.to_pylist(), texts.to_pylist(), strict=True))
    counts = pc.list_value_length(values).fill_null(0).to_pylist()
    return [list(islice(pairs, count)) for count in counts]


def _check_header_keys(part: Part) -> None:
    headers = part.column("headers")
    if headers is None or not headers.flatten().flatten()[0].null_count:
        return
    number = next(n for n, pairs in enumerate(_headers(headers)) if any(name is None for name, _ in pairs))
    raise SerializationError(f"{part.named(number)} has a header without a key", hint="give every header a key")
