"""Which columns can be written, and how Arrow batches become what the producer takes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

from ottla.errors import ConfigError, ErrorCode, SerializationError
from pyspark_ottla import outgoing
from pyspark_ottla.columns import check_columns
from pyspark_ottla.outgoing import RowSlice, row_slices, rows_by_topic

TEXT, BYTES = StringType(), BinaryType()


def columns(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def array_of(**kinds: DataType) -> ArrayType:
    return ArrayType(columns(**kinds))


HEADERS = array_of(key=TEXT, value=BYTES)


def part_of(first: int = 0, **columns: Any) -> RowSlice:
    kinds = {"headers": to_arrow_type(HEADERS), "partition": pa.int32()}
    arrays = {name: pa.array(values, kinds.get(name)) for name, values in columns.items()}
    return RowSlice(pa.RecordBatch.from_pydict(arrays), first)


def rows(part: RowSlice, topic: str = "") -> dict[str, list[Any]]:
    return {found.topic: list(found.columns.values) for found in rows_by_topic(part, topic)}


def test_columns_that_can_be_written() -> None:
    everything = {"key": TEXT, "value": BYTES, "headers": HEADERS, "partition": IntegerType(), "topic": TEXT}
    check_columns(columns(**everything), "")
    check_columns(columns(**everything), "t")
    check_columns(columns(value=TEXT, key=BYTES), "t")
    check_columns(columns(value=VarcharType(9), key=CharType(3)), "t")
    check_columns(columns(value=TEXT, timestamp=TimestampType(), more=MapType(TEXT, TEXT)), "t")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"key": TEXT}, "the column value is missing"),
        ({"Value": TEXT}, "the column value is missing"),
        ({"value": LongType()}, "the column value has type bigint .*cast it to string or binary"),
        ({"value": TEXT, "key": IntegerType()}, "the column key has type int .*string or binary"),
        ({"value": TEXT, "topic": BYTES}, "the column topic has type binary .*string"),
        ({"value": TEXT, "partition": LongType()}, "the column partition has type bigint .*cast it to int"),
        (
            {"value": TEXT, "headers": TEXT},
            "the column headers has type string .*array<struct<key:string,value:binary>>",
        ),
        ({"value": TEXT, "headers": array_of(name=TEXT, value=BYTES)}, "the column headers has type array"),
        ({"value": TEXT, "headers": array_of(key=TEXT, value=TEXT)}, "the column headers has type array"),
        ({"value": TEXT, "headers": array_of(value=BYTES, key=TEXT)}, "the column headers has type array"),
        ({"value": TEXT, "headers": ArrayType(TEXT)}, "the column headers has type array"),
        ({"value": TEXT, "headers": MapType(TEXT, BYTES)}, "the column headers has type map"),
    ],
)
def test_columns_that_can_not(given: dict[str, DataType], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_columns(columns(**given), "t")


def test_two_columns_of_one_name() -> None:
    check_columns(columns(value=TEXT).add("other", TEXT).add("other", TEXT), "t")
    with pytest.raises(ConfigError, match="the column value appears 2 times"):
        check_columns(columns(value=TEXT).add("value", BYTES), "t")


def test_some_topic_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"which topic to write to .*option\('topic'"):
        check_columns(columns(value=TEXT), "")


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_text_and_bytes_are_bytes(kind: Any) -> None:
    column = pa.array([b"a", None, b"", "ü".encode()], pa.binary()).cast(kind)
    (found,) = rows_by_topic(RowSlice(pa.RecordBatch.from_arrays([column, column], ["key", "value"]), 0), "t")
    assert found.columns.values == found.columns.keys == [b"a", None, b"", "ü".encode()]
    assert (found.columns.headers, found.columns.partitions) == (None, None)


def test_a_column_of_nulls_is_no_column_but_the_values_are() -> None:
    part = part_of(value=pa.nulls(2, pa.binary()), key=pa.nulls(2, pa.binary()), partition=[None, None])
    (found,) = rows_by_topic(part, "t")
    assert found.columns.values == [None, None]
    assert (found.columns.keys, found.columns.partitions) == (None, None)


def test_headers_repeat_and_lack_values() -> None:
    told = [[("h", b"1"), ("h", None)], None, [], [("ü", b"")]]
    headers = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in told]
    part = part_of(value=["x"] * 6, headers=[[{"key": "before", "value": b""}], *headers, None])
    sliced = part._replace(rows=part.rows.slice(1, 4))
    (found,) = rows_by_topic(sliced, "t")
    assert found.columns.headers == [[("h", b"1"), ("h", None)], [], [], [("ü", b"")]]


@pytest.mark.parametrize("broken", [{"key": None, "value": b"1"}, None])
def test_a_header_without_a_key_is_refused_and_its_row_named(broken: Any) -> None:
    headers = [None, [{"key": "h", "value": None}], [{"key": "h", "value": b""}, broken]]
    part = part_of(40, key=["a", "b", "c"], value=["1", "2", "3"], topic=["z", "y", "z"], headers=headers)
    for topic in ("t", ""):
        with pytest.raises(
            SerializationError, match="row 42 of the task, with the key 'c', has a header without a key"
        ):
            rows(part, topic)


def test_rows_of_one_topic_stay_in_their_order() -> None:
    names = ["b", "a", "b", "c", "a", "b"] * 100
    part = part_of(value=[f"{n}" for n in range(600)], topic=names)
    wanted = {topic: [b"%d" % n for n, name in enumerate(names) if name == topic] for topic in dict.fromkeys(names)}
    assert rows(part) == wanted
    for found in rows_by_topic(part, ""):
        assert [b"%d" % n for n in found.numbers] == wanted[found.topic]
    assert rows(part, "all") == {"all": [b"%d" % n for n in range(600)]}
    assert rows(part_of(value=["1", "2"], topic=["one", "one"])) == {"one": [b"1", b"2"]}


def test_a_row_without_a_topic_is_refused_before_any_and_named() -> None:
    part = part_of(1_000, key=["a", "b", "c"], value=["1", "2", "3"], topic=["t", None, "t"])
    with pytest.raises(ConfigError, match="row 1001 of the task, with the key 'b', has no topic") as caught:
        next(rows_by_topic(part, ""))
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(rows(part, "t")["t"]) == 3, "the option says it for all of them"


def test_large_rows_come_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "_PART_BYTES", 1_000)
    batches = [part_of(value=["x" * 100] * 25).rows, part_of(value=["y" * 5_000] * 3).rows, part_of(value=["z"]).rows]
    found = list(row_slices([*batches, batches[0].slice(0, 0)]))
    assert [(part.first, part.rows.num_rows) for part in found] == [
        (0, 9), (9, 9), (18, 7), (25, 1), (26, 1), (27, 1), (28, 1),
    ]  # fmt: skip
    assert sum(part.rows.num_rows for part in found) == 29
