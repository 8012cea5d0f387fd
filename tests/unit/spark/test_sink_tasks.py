"""What a task of the sink does with its producer: it lends, flushes and gives back, or throws away."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructType

import ottla
from ottla.client.kafka.apis import PRODUCE
from ottla.errors import ConfigError, DeliveryError, ErrorCode, OttlaError, error_from_code
from ottla.fakes.scripted import Reject
from ottla.testing import FakeCluster, FakeProducer
from pyspark_ottla import producers as spark_producers
from pyspark_ottla.idle_clients import IdleClients
from pyspark_ottla.options import write_options
from pyspark_ottla.sink import OttlaBatchWriter, OttlaStreamWriter, RowWriter, Written, prepared_by, summary
from pyspark_ottla.source import COLUMNS_WITH_HEADERS, OttlaDataSource

VALUE = StructType().add("value", StringType())
WITH_PARTITION = StructType().add("key", StringType()).add("value", StringType()).add("partition", IntegerType())
WITH_HEADERS = StructType().add("value", StringType()).add("headers", COLUMNS_WITH_HEADERS["headers"].dataType)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeProducer[bytes, bytes]]]:
    """All producers that are made, over brokers in memory."""
    all_of_them: list[FakeProducer[bytes, bytes]] = []

    def make(*arguments: Any, **settings: Any) -> FakeProducer[bytes, bytes]:
        all_of_them.append(FakeProducer(*arguments, **settings))
        return all_of_them[-1]

    monkeypatch.setattr(ottla, "Producer", make)
    producers = IdleClients(spark_producers._end)
    monkeypatch.setattr(spark_producers, "IDLE_PRODUCERS", producers)
    yield all_of_them
    producers.close()
    assert all(producer._closing.closed for producer in all_of_them)


@pytest.fixture
def brokers() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 2}) as cluster:
        yield cluster


def writer(brokers: FakeCluster, schema: StructType = VALUE, **options: str) -> RowWriter:
    given = {"kafka.bootstrap.servers": brokers.bootstrap, "topic": "t", **options}
    return RowWriter(write_options(given), schema)


def batch(*values: str, **columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string()), **columns})


def test_a_task_ends_when_every_row_is_acknowledged(made: list[Any], brokers: FakeCluster) -> None:
    task = pickle.loads(pickle.dumps(writer(brokers)))
    written = task.write([batch("a", "b"), batch("c")])
    assert sorted(record.value for record in brokers.read("t", value="str")) == ["a", "b", "c"]
    assert written.rows == {"t": 3}


def test_the_next_task_has_the_same_producer_and_other_settings_another(made: list[Any], brokers: FakeCluster) -> None:
    first = writer(brokers)
    first.write([batch("a")])
    first.write([batch("b")])
    writer(brokers).write([batch("c")])
    assert len(made) == 1
    writer(brokers, VALUE, **{"kafka.compression.type": "gzip"}).write([batch("d")])
    assert len(made) == 2
    assert not any(producer._closing.closed for producer in made)


def test_producers_are_idempotent_and_take_the_settings_given(made: list[Any], brokers: FakeCluster) -> None:
    writer(brokers, VALUE, **{"kafka.linger.ms": "7", "kafka.delivery.timeout.ms": "90000"}).write([batch("a")])
    limits = made[-1]._accumulator.limits
    assert (limits.idempotent, limits.linger_s, limits.delivery_timeout_s) == (True, 0.007, 90.0)
    assert made[-1]._max_block == 90.0, "brokers may be away for as long as for an outcome"
    writer(brokers, VALUE, **{"kafka.max.block.ms": "5000"}).write([batch("a")])
    assert made[-1]._max_block == 5.0


def test_a_row_that_fails_lets_its_task_fail_and_the_producer_go(made: list[Any], brokers: FakeCluster) -> None:
    task = writer(brokers)
    brokers.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "not that one"))
    with pytest.raises(DeliveryError, match="not that one") as caught:
        task.write([batch("a", "b")])
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert all(producer._closing.closed for producer in made)
    assert task.write([batch("c")]).rows == {"t": 1}


def test_what_comes_from_spark_may_fail_too(made: list[Any], brokers: FakeCluster) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield batch("a")
        raise OSError("the stage before has failed")

    with pytest.raises(OSError, match="stage before"):
        writer(brokers).write(rows())
    assert all(producer._closing.closed for producer in made)


@pytest.mark.parametrize("partition", [-1, 2])
def test_a_partition_that_is_not_there_is_refused_at_once(
    made: list[Any], brokers: FakeCluster, partition: int
) -> None:
    rows = batch("a", "b", key=pa.array(["x", "y"]), partition=pa.array([1, partition], pa.int32()))
    words = f"row 1 of the task, with the key 'y', is for partition {partition} of t, which does not exist .*0 to 1"
    with pytest.raises(ConfigError, match=words) as caught:
        writer(brokers, WITH_PARTITION).write([rows])
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert brokers.read("t") == []


def test_a_partition_that_is_null_is_chosen(made: list[Any], brokers: FakeCluster) -> None:
    keys = pa.array(["k"] * 4)
    rows = batch("a", "b", "c", "d", key=keys, partition=pa.array([0, 1, None, None], pa.int32()))
    writer(brokers, WITH_PARTITION).write([rows])
    found = {record.value: record.partition for record in brokers.read("t", value="str")}
    assert (found["a"], found["b"]) == (0, 1)
    assert found["c"] == found["d"]


def test_partitions_that_were_added_are_found(made: list[Any], brokers: FakeCluster) -> None:
    task = writer(brokers, WITH_PARTITION)
    for partition in (1, 2):
        task.write([batch("a", key=pa.array(["k"]), partition=pa.array([partition], pa.int32()))])
        brokers.add_topic("t", 3)
    assert sorted(record.partition for record in brokers.read("t")) == [1, 2]
    assert len(made) == 1


@pytest.mark.spark_option("topic")
@pytest.mark.spark_option("delivery")
@pytest.mark.spark_option("includeHeaders")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kafka.transactional.id": "t"}, "use delivery=exactly_once instead"),
        ({"kafka.transaction.timeout.ms": "60000"}, "transaction.timeout.ms works only with delivery=exactly_once"),
        (
            {"delivery": "exactly_once", "kafka.transaction.timeout.ms": "60000"},
            "is less than kafka.delivery.timeout.ms=120000: .*a timeout longer than a micro-batch takes",
        ),
        ({"delivery": "at_most_once"}, "delivery=at_most_once is not valid .*at_least_once or exactly_once"),
        ({"topic": "no such name!"}, "no such name"),
        ({"topic": " "}, "topic is empty"),
        ({"includeHeaders": "perhaps"}, "includeHeaders=perhaps is not valid"),
        ({"topics": "t"}, "option topics is unknown .*the nearest is topic"),
        ({"subscribe": "t"}, "option subscribe is unknown"),
        ({"kafka.acks": "1"}, "kafka.acks=1 is not supported: .*idempotent"),
        ({"kafka.enable.idempotence": "false"}, "always idempotent"),
        ({"kafka.retries": "0"}, "retries"),
        ({"kafka.linger.ms": "soon"}, "linger.ms"),
        ({"kafka.compression.type": "7zip"}, "7zip"),
        ({"kafka.value.serializer": "x"}, "kafka.value.serializer can't be set for Spark"),
        ({"kafka.group.id": "g"}, "kafka.group.id"),
        (
            {"txnVersion": "1", "delivery": "exactly_once"},
            "txnAppId and txnVersion work only together, and only with delivery=exactly_once",
        ),
        ({"txnAppId": "a", "delivery": "exactly_once"}, "work only together"),
        ({"txnAppId": "a", "txnVersion": "1"}, "work only together"),
        ({"txnAppId": "a", "txnVersion": "-1", "delivery": "exactly_once"}, "a whole number, 0 or more"),
        ({"txnAppId": "a b", "txnVersion": "1", "delivery": "exactly_once"}, "txnAppId=a b is not valid"),
        ({"txnAppId": "a-1-2-0123abcd", "txnVersion": "1", "delivery": "exactly_once"}, "is not valid"),
    ],
)
def test_options_that_can_not_be(made: list[Any], brokers: FakeCluster, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        writer(brokers, **options)


@pytest.mark.spark_option("txnAppId")
@pytest.mark.spark_option("txnVersion")
def test_a_streams_transactions_are_known_by_its_checkpoint() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "txnappid": "a", "txnversion": "1", "delivery": "exactly_once"}
    assert write_options(options).app_version == 1
    with pytest.raises(ConfigError, match=r"txn.* works only in batch queries"):
        OttlaDataSource(options).streamWriter(StructType().add("value", StringType()), False)


def test_columns_that_can_not_be(made: list[Any], brokers: FakeCluster) -> None:
    with pytest.raises(ConfigError, match="the column value is missing"):
        writer(brokers, StructType().add("key", StringType()))


@pytest.mark.spark_option("kafka.bootstrap.servers")
def test_brokers_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        write_options({"topic": "t"})


@pytest.mark.spark_option("delivery")
@pytest.mark.spark_option("includeHeaders")
def test_options_that_change_nothing(made: list[Any], brokers: FakeCluster) -> None:
    """Headers are written where there is such a column, as by Spark's own sink."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = batch("a", headers=pa.array([[{"key": "h", "value": b"1"}]], kind))
    for include in ("true", "false"):
        writer(brokers, WITH_HEADERS, includeHeaders=include, delivery="at_least_once").write([rows])
    assert [list(record.headers) for record in brokers.read("t")] == [[("h", b"1")]] * 2


def test_modes(made: list[Any], brokers: FakeCluster) -> None:
    source = OttlaDataSource({"kafka.bootstrap.servers": brokers.bootstrap, "topic": "t"})
    assert isinstance(source.writer(VALUE, False), OttlaBatchWriter)
    with pytest.raises(ConfigError, match=r"mode overwrite is not supported.*mode\('append'\)"):
        source.writer(VALUE, True)
    for complete in (False, True):
        assert isinstance(source.streamWriter(VALUE, complete), OttlaStreamWriter)


def test_the_driver_hears_how_many(made: list[Any], brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.spark")
    messages = [Written(), None, writer(brokers).write([batch("a", "b")]), writer(brokers).write([batch("c")])]
    assert summary(pickle.loads(pickle.dumps(messages))) == "3 rows to t"
    OttlaStreamWriter(writer(brokers)).commit(messages, 7)
    OttlaStreamWriter(writer(brokers)).abort([None], 8)
    OttlaBatchWriter(writer(brokers)).commit(messages)
    OttlaBatchWriter(writer(brokers)).abort([messages[2], None])
    assert [record.getMessage() for record in caplog.records if record.name == "ottla.spark"] == [
        "micro-batch 7 wrote 3 rows to t",
        "micro-batch 8 failed after writing no rows; a restarted query writes the micro-batch again",
        "wrote 3 rows to t",
        "the write failed; rows that other tasks wrote stay in the topic: 2 rows to t",
    ]


# ---- clusters of Apache Kafka ----------------------------------------------------------------------------------------


def test_exactly_once_says_why_it_needs_a_cluster_of_ottla() -> None:
    class ProducerAtKafka:
        def prepare_transaction(self) -> None:
            raise error_from_code(self.code, "this client can't call OttlaCall")

        code = ErrorCode.UNSUPPORTED_VERSION

    producer: Any = ProducerAtKafka()
    with pytest.raises(OttlaError, match="delivery=exactly_once needs a cluster of ottla") as caught:
        prepared_by(producer)
    assert (caught.value.code, caught.value.hint.split(";")[0]) == (
        ErrorCode.UNSUPPORTED_VERSION,
        "set delivery to at_least_once",
    )
    producer.code = ErrorCode.NETWORK_EXCEPTION
    with pytest.raises(OttlaError, match="can't call OttlaCall"):
        prepared_by(producer)
