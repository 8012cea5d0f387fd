"""`ottla.read` and the tables of batches; with the real pyarrow and pandas."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import ottla
import ottla.aio
from ottla.consumer.columns import COLUMNS
from ottla.errors import ConfigError, SerializationError, UnknownTopicError
from ottla.fakes.scripted import ScriptedCluster
from ottla.producer.producer import Producer

ROWS = [(None, {"id": 1}), ("eu", {"id": 2, "total": 9.5}), ("us", None)]


def orders(count: int = 0) -> ScriptedCluster:
    """A topic with three orders, or with so many numbers, one millisecond apart."""
    cluster = ScriptedCluster({"orders": 1})
    with Producer[Any, Any]("b0:1", topic="orders", batch_size=500, _transport=cluster.connect) as producer:
        if count:
            for n in range(count):
                producer.send(f"{n}", timestamp=1_000 + n)
        else:
            for n, (key, value) in enumerate(ROWS):
                producer.send(value, key=key, headers={"source": b"shop"}, timestamp=1_000 + n)
    return cluster


def rows_of(cluster: ScriptedCluster, **arguments: Any) -> ottla.Rows[Any, Any]:
    return ottla.read("orders", bootstrap="b0:1", **{"_transport": cluster.connect, **arguments})


@pytest.mark.feature(55)
def test_a_stretch_of_a_topic_is_read_as_often_as_asked() -> None:
    cluster = orders(100)
    rows = rows_of(cluster)
    assert [record.value for record in rows] == [f"{n}" for n in range(100)]
    assert rows.to_list()[7].offset == 7
    assert [len(batch) for batch in rows.batches()] == [100]
    assert [r.offset for r in rows_of(cluster, stop=5)] == list(range(5))
    assert rows_of(cluster, start=timedelta(hours=-1)).to_list() == []
    since = datetime.fromtimestamp(1.05, UTC)
    assert rows_of(cluster, start=since).to_list()[-1].offset == 99
    assert len(rows_of(cluster, start=since, stop=3).to_list()) == 3


def test_nothing_is_read_before_it_is_asked_for_but_the_arguments_are_checked() -> None:
    cluster = orders()
    wrong: dict[str, Any]
    for wrong in ({"start": "soon"}, {"columns": ["price"]}, {"columns": "value"}, {"columns": []}, {"stop": -1}):
        with pytest.raises(ConfigError):
            rows_of(cluster, **wrong)
    seen = len(cluster.seen)
    rows_of(cluster)
    assert len(cluster.seen) == seen


def test_several_topics_and_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.metadata_updater.UNKNOWN_TOPIC_GRACE_S", 0.05)
    cluster = orders()
    cluster.add_topic("refunds", 1)
    both = ottla.read(["orders", "refunds"], bootstrap="b0:1", _transport=cluster.connect)
    assert {record.topic for record in both} == {"orders"}
    with pytest.raises(UnknownTopicError, match="did you mean orders"):
        list(ottla.read("order", bootstrap="b0:1", _transport=cluster.connect))


def test_rows_as_an_arrow_table() -> None:
    table = rows_of(orders()).to_arrow()
    assert table.schema == pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
            ("key", pa.string()),
            ("value", pa.struct([("id", pa.int64()), ("total", pa.float64())])),
            ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
        ]
    )
    assert tuple(table.column_names) == COLUMNS
    assert table["offset"].to_pylist() == [0, 1, 2]
    assert table["timestamp"].to_pylist()[1] == datetime(1970, 1, 1, 0, 0, 1, 1_000, tzinfo=UTC)
    assert table["key"].to_pylist() == [None, "eu", "us"]
    assert table["value"].to_pylist() == [{"id": 1, "total": None}, {"id": 2, "total": 9.5}, None]
    assert table["headers"].to_pylist() == [[{"name": "source", "value": b"shop"}]] * 3
    assert rows_of(orders(), columns=["value", "key"]).to_arrow().column_names == ["value", "key"]


def test_an_empty_stretch_is_a_table_without_rows_that_has_its_columns() -> None:
    table = rows_of(orders(), stop=0).to_arrow()
    assert (table.num_rows, tuple(table.column_names)) == (0, COLUMNS)
    assert table.schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")


def test_bytes_numbers_and_headers_without_a_value_have_their_arrow_types() -> None:
    cluster = ScriptedCluster({"orders": 1})
    with Producer[Any, Any]("b0:1", topic="orders", key="int", value="bytes", _transport=cluster.connect) as producer:
        producer.send(b"\xff\x00", key=2**62, headers={"empty": None})
    table = rows_of(cluster, key="int", value="bytes", columns=["key", "value", "headers"]).to_arrow()
    assert [table.schema.field(name).type for name in ("key", "value")] == [pa.int64(), pa.binary()]
    assert table.to_pylist() == [{"key": 2**62, "value": b"\xff\x00", "headers": [{"name": "empty", "value": None}]}]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([{"id": 1}, "text"], "cannot mix struct and non-struct"),
        ([1, "one"], "tried to convert to int64"),
        ([2**64], "too large"),
        ([{1, 2}, 1j], "complex"),
    ],
)
def test_values_without_a_type_in_common_are_named(values: list[Any], words: str) -> None:
    cluster = orders(len(values))
    made = iter(values)
    with pytest.raises(ConfigError, match=f"the values have no common Arrow type: .*{words}") as caught:
        rows_of(cluster, value=lambda data: next(made)).to_arrow()
    assert "value='bytes'" in caught.value.hint
    assert rows_of(cluster, columns=["key"]).to_arrow()["key"].to_pylist() == [None] * len(values)


def test_rows_as_a_data_frame() -> None:
    frame = rows_of(orders()).to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert isinstance(frame["timestamp"].dtype, pd.DatetimeTZDtype)
    assert frame["timestamp"][1] == datetime(1970, 1, 1, 0, 0, 1, 1_000, tzinfo=UTC)
    assert frame["offset"].tolist() == [0, 1, 2]
    assert frame["key"].tolist() == [None, "eu", "us"]
    assert frame["value"].tolist() == [value for _, value in ROWS]
    assert frame["headers"].tolist() == [[("source", b"shop")]] * 3
    assert list(rows_of(orders(), columns=["key"]).to_pandas().columns) == ["key"]
    empty = rows_of(orders(), stop=0).to_pandas()
    assert (len(empty), tuple(empty.columns)) == (0, COLUMNS)


@pytest.mark.story("integers-with-a-null-become-floats")
@pytest.mark.parametrize("column", ["key", "value"])
def test_large_integers_beside_a_null_stay_what_they_are_in_a_data_frame(column: str) -> None:
    cluster = ScriptedCluster({"orders": 1})
    with Producer[Any, Any]("b0:1", topic="orders", key="int", value="int", _transport=cluster.connect) as producer:
        for n in (2**53 + 1, None):
            pair: dict[str, Any] = {"key": 1, "value": 1, column: n}
            producer.send(**pair)
    frame = rows_of(cluster, key="int", value="int").to_pandas()
    assert frame[column].tolist() == [2**53 + 1, None]
    assert frame["key" if column == "value" else "value"].dtype == "int64", "a column without null is a plain one"


def test_a_batch_is_a_table_too() -> None:
    cluster = orders()
    with ottla.Consumer("orders", bootstrap="b0:1", start="earliest", _transport=cluster.connect) as consumer:
        batch = consumer.poll(10)
        assert batch.to_arrow(["offset"]) == pa.table({"offset": pa.array([0, 1, 2], pa.int64())})
        expected = pd.DataFrame({"partition": [0] * 3, "topic": ["orders"] * 3})
        pd.testing.assert_frame_equal(batch.to_pandas(["partition", "topic"]), expected)


@pytest.mark.parametrize("library", ["pyarrow", "pandas"])
def test_without_the_library_the_error_says_how_to_get_it(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigError) as caught:
        getattr(rows_of(orders()), f"to_{library.removeprefix('py')}")()
    assert str(caught.value) == f"{library} is not installed (INVALID_CONFIG); pip install {library}"


def test_a_record_that_can_not_be_read_is_named_in_a_table_too() -> None:
    with pytest.raises(SerializationError, match="the record at offset 1 of orders-0"):
        rows_of(orders(), value="int").to_arrow()
    skipping = rows_of(orders(), value="int", on_bad_record="skip")
    assert skipping.to_arrow()["offset"].to_pylist() == [0, 2]  # 8 bytes are an int


async def test_the_same_for_asyncio() -> None:
    rows = ottla.aio.read("orders", bootstrap="b0:1", _transport=orders(100).connect)
    assert [record.offset async for record in rows] == list(range(100))
    assert [len(batch) async for batch in rows.batches()] == [100]
    assert len(await rows.to_list()) == 100
    assert (await rows.to_arrow())["offset"].to_pylist() == (await rows.to_pandas())["offset"].tolist()
