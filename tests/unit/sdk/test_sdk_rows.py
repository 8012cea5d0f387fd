"""`ottla.read` and the tables of batches. pyarrow and pandas are stand-ins that note what they are asked for.

The real ones weigh four times what all other requirements of the tests do.
"""

import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import ottla
import ottla.aio
from ottla.columns import COLUMNS
from ottla.errors import ConfigError, SerializationError, UnknownTopicError
from ottla.producer import Producer
from ottla.scripted import ScriptedCluster

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


@pytest.fixture
def arrow(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    def array(values: list[Any], type: object = None) -> tuple[list[Any], object]:  # noqa: A002 - pyarrow's name
        if type is None and len({isinstance(value, dict) for value in values if value is not None}) > 1:
            raise ValueError("cannot mix struct and non-struct, non-null values")
        return values, type

    names = ("string", "binary", "int32", "int64")
    fake = SimpleNamespace(
        array=array,
        table=dict,
        timestamp=lambda unit, tz: (unit, tz),
        list_=lambda item: ("list", item),
        struct=lambda fields: ("struct", fields),
        **{name: lambda name=name: name for name in names},
    )
    monkeypatch.setitem(sys.modules, "pyarrow", fake)
    return fake


@pytest.fixture
def pandas(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    fake = SimpleNamespace(
        DataFrame=lambda collected, columns: {name: collected[name] for name in columns},
        to_datetime=lambda column, unit, utc: [datetime.fromtimestamp(ms / 1000, UTC) for ms in column],
    )
    monkeypatch.setitem(sys.modules, "pandas", fake)
    return fake


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
    for wrong in ({"start": "soon"}, {"columns": ["price"]}, {"columns": "value"}, {"columns": []}, {"stop": -1}):
        with pytest.raises(ConfigError):
            rows_of(cluster, **wrong)
    seen = len(cluster.seen)
    rows_of(cluster)
    assert len(cluster.seen) == seen


def test_several_topics_and_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.keeper.UNKNOWN_TOPIC_GRACE_S", 0.05)
    cluster = orders()
    cluster.add_topic("refunds", 1)
    both = ottla.read(["orders", "refunds"], bootstrap="b0:1", _transport=cluster.connect)
    assert {record.topic for record in both} == {"orders"}
    with pytest.raises(UnknownTopicError, match="did you mean orders"):
        list(ottla.read("order", bootstrap="b0:1", _transport=cluster.connect))


def test_rows_as_an_arrow_table(arrow: SimpleNamespace) -> None:
    table = rows_of(orders()).to_arrow()
    assert list(table) == list(COLUMNS)
    assert table["offset"] == ([0, 1, 2], "int64")
    assert table["timestamp"] == ([1_000, 1_001, 1_002], ("ms", "UTC"))
    assert (table["key"][0], table["value"][0]) == tuple(map(list, zip(*ROWS, strict=True)))
    assert table["headers"][0] == [[{"name": "source", "value": b"shop"}]] * 3
    assert list(rows_of(orders(), columns=["value", "key"]).to_arrow()) == ["value", "key"]


def test_values_without_a_type_in_common_are_named(arrow: SimpleNamespace) -> None:
    cluster = orders()
    with Producer[Any, Any]("b0:1", topic="orders", _transport=cluster.connect) as producer:
        producer.send("text")
    with pytest.raises(ConfigError, match="the values have no Arrow type in common: cannot mix") as caught:
        rows_of(cluster).to_arrow()
    assert "value='bytes'" in caught.value.hint
    assert rows_of(cluster, columns=["key"]).to_arrow()["key"][0] == [None, "eu", "us", None]


def test_rows_as_a_data_frame(pandas: SimpleNamespace) -> None:
    frame = rows_of(orders()).to_pandas()
    assert list(frame) == list(COLUMNS)
    assert frame["timestamp"][0] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert frame["value"] == [value for _, value in ROWS]
    assert list(rows_of(orders(), columns=["key"]).to_pandas()) == ["key"]


def test_a_batch_is_a_table_too(arrow: SimpleNamespace, pandas: SimpleNamespace) -> None:
    cluster = orders()
    with ottla.Consumer("orders", bootstrap="b0:1", start="earliest", _transport=cluster.connect) as consumer:
        batch = consumer.poll(10)
        assert batch.to_arrow(["offset"]) == {"offset": ([0, 1, 2], "int64")}
        assert batch.to_pandas(["partition", "topic"]) == {"partition": [0] * 3, "topic": ["orders"] * 3}


@pytest.mark.parametrize("library", ["pyarrow", "pandas"])
def test_without_the_library_the_error_says_how_to_get_it(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigError) as caught:
        getattr(rows_of(orders()), f"to_{library.removeprefix('py')}")()
    assert str(caught.value) == f"{library} is not installed (INVALID_CONFIG); pip install 'ottla[arrow]'"


def test_a_record_that_can_not_be_read_is_named_in_a_table_too(arrow: SimpleNamespace) -> None:
    with pytest.raises(SerializationError, match="the record at offset 1 of orders-0"):
        rows_of(orders(), value="int").to_arrow()
    assert rows_of(orders(), value="int", on_bad_record="skip").to_arrow()["offset"][0] == [0, 2]  # 8 bytes are an int


async def test_the_same_for_asyncio(arrow: SimpleNamespace, pandas: SimpleNamespace) -> None:
    rows = ottla.aio.read("orders", bootstrap="b0:1", _transport=orders(100).connect)
    assert [record.offset async for record in rows] == list(range(100))
    assert [len(batch) async for batch in rows.batches()] == [100]
    assert len(await rows.to_list()) == 100
    assert (await rows.to_arrow())["offset"][0] == (await rows.to_pandas())["offset"]
