"""Checks which columns of a query are written, and which types they may have.

As in Spark's own Kafka sink, value is needed, and key, headers, topic and partition are known by their names. Other
columns of the query, even a timestamp, are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

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

from ottla.errors import config_error


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


def check_columns(schema: StructType, topic: str) -> None:
    """Raise ConfigError unless rows of `schema` can be written; `topic` is that of all rows, or "" if a column has
    it."""
    names = [name for name in schema.names if name in _COLUMNS]
    for name in names:
        if names.count(name) > 1:
            raise config_error(f"the column {name} appears {names.count(name)} times", hint="keep only one of them")
        fits, legal = _COLUMNS[name]
        kind = schema[name].dataType
        if not fits(kind):
            raise config_error(f"the column {name} has type {kind.simpleString()}", hint=f"cast it to {legal}")
    if "value" not in names:
        raise config_error("the column value is missing", hint="rename the column to write, as in SELECT … AS value")
    if "topic" not in names and not topic:
        raise config_error(
            "the query does not say which topic to write to",
            hint="set option('topic', …), or add a column topic with each row's topic",
        )
