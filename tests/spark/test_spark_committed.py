"""Reading what transactions write: markers and aborted rows are gaps, open rows are waited for."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from spark_source import Stream, Table, data_source, offsets, partition, rows_of, texts

import ottla
from ottla.testing import Cluster
from pyspark_ottla.batch_reader import OttlaBatchReader
from pyspark_ottla.lag import lag_of
from pyspark_ottla.machines.offsets import open_in

_numbers = itertools.count()


@pytest.fixture
def topic(admin: ottla.Admin) -> str:
    name = f"committed-{next(_numbers)}"
    admin.topics.create(name)
    return name


@contextmanager
def transactions(cluster: Cluster, topic: str) -> Iterator[ottla.Producer[bytes, str]]:
    with ottla.Producer[bytes, str](cluster.bootstrap, topic=topic, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        yield producer


def send(producer: ottla.Producer[bytes, str], *values: str) -> None:
    for value in values:
        producer.send(value)
    producer.flush()


def committed(cluster: Cluster, topic: str, *values: str, aborted: bool = False) -> None:
    """One transaction with these values: its marker takes an offset, too."""
    with transactions(cluster, topic) as producer:
        send(producer, *values)
        (producer.abort_transaction if aborted else producer.commit_transaction)()
    until_markers_are_written(cluster, topic)


def until_markers_are_written(cluster: Cluster, topic: str) -> None:
    """Return once the last transaction is over. A commit is acknowledged before its markers are written."""
    with ottla.Producer[bytes, str](cluster.bootstrap, topic=topic, transactional_id=topic) as producer:
        producer.init_transactions()


def test_a_stream_waits_for_open_rows_and_passes_over_aborted_ones(cluster: Cluster, topic: str) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    committed(cluster, topic, "a", "b")
    committed(cluster, topic, "lost", "lost", aborted=True)
    with Stream(cluster.bootstrap, options) as stream:
        assert stream.values() == ["a", "b"]
        assert json.loads(stream.checkpoint)[topic]["0"] == 6, "with the markers of both"
        with transactions(cluster, topic) as producer:
            send(producer, "c")
            cluster.produce(topic, ["d"])
            assert stream.values() is None
            reported = json.dumps(stream.reader.reportLatestOffset())
            assert lag_of(stream.checkpoint, reported) == {partition(topic): 0}
            assert open_in(json.loads(reported)) == {partition(topic): 2}, "the second one is behind an open one"
            at_its_end = Stream(cluster.bootstrap, {"subscribe": topic, "startingOffsets": reported})
            assert at_its_end.values() is None
            at_its_end.stop()
            producer.commit_transaction()
        until_markers_are_written(cluster, topic)
        assert stream.values() == ["c", "d"]
        assert open_in(stream.reader.reportLatestOffset() or {}) == {}
        committed(cluster, topic, "lost", aborted=True)
        assert stream.values() == [], "a batch of nothing but gaps"
        assert stream.values() is None
        assert lag_of(stream.checkpoint, json.dumps(stream.reader.reportLatestOffset())) == {partition(topic): 0}


def test_a_planned_batch_reads_the_same_rows_each_time(cluster: Cluster, topic: str) -> None:
    committed(cluster, topic, "a", "b")
    with Stream(cluster.bootstrap, {"subscribe": topic, "startingOffsets": "earliest"}) as stream:
        before = stream.checkpoint
        with transactions(cluster, topic) as producer:
            send(producer, "later")
            planned = stream.plan()
            assert planned is not None
            assert texts(stream.run(planned)) == ["a", "b"]
            producer.commit_transaction()
        committed(cluster, topic, "lost", aborted=True)
        stream.checkpoint = before
        assert texts(stream.run(planned)) == ["a", "b"]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_limits_count_offsets_and_no_row_is_left_out(cluster: Cluster, topic: str, most: int) -> None:
    for number in range(4):
        committed(cluster, topic, f"{number}", aborted=bool(number % 2))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": most}
    with Stream(cluster.bootstrap, options, available_now=True) as stream:
        read = [values for _ in range(8) if (values := stream.values()) is not None]
    assert len(read) == -(-8 // most)
    assert list(itertools.chain(*read)) == ["0", "2"]


def test_a_query_that_has_read_open_rows_goes_on_behind_them(cluster: Cluster, topic: str) -> None:
    """It has changed its isolation level: what lies behind the last stable offset is neither lost nor read again."""
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    with transactions(cluster, topic) as producer:
        send(producer, "open")
        with Stream(cluster.bootstrap, {**options, "kafka.isolation.level": "read_uncommitted"}) as stream:
            assert stream.values() == ["open"]
        with Stream(cluster.bootstrap, options, stream.checkpoint) as stream:
            assert stream.values() is None
            cluster.produce(topic, ["more"])
            assert stream.values() is None
            producer.commit_transaction()
            until_markers_are_written(cluster, topic)
            assert stream.values() == ["more"]


def test_a_start_within_an_open_transaction_is_no_loss(cluster: Cluster, topic: str) -> None:
    with transactions(cluster, topic) as producer:
        send(producer, "a", "b", "c")
        options = {"subscribe": topic, "startingOffsets": offsets(topic, 1)}
        with Stream(cluster.bootstrap, options) as stream:
            assert stream.values() is None
            producer.commit_transaction()
            until_markers_are_written(cluster, topic)
            assert stream.values() == ["b", "c"]


def test_a_table_up_to_an_open_row_waits_for_it(cluster: Cluster, topic: str) -> None:
    source = data_source(cluster.bootstrap, {"subscribe": topic, "endingOffsets": offsets(topic, 2)})
    reader = source.reader(source.schema())
    assert isinstance(reader, OttlaBatchReader)
    with transactions(cluster, topic) as producer:
        send(producer, "a", "b", "c")
        assert Table(cluster.bootstrap, {"subscribe": topic}).values == [], "latest is the last stable offset"
        tasks = reader.partitions()
        producer.commit_transaction()
    assert texts(rows_of(reader, tasks, source)) == ["a", "b"]


def test_a_table_that_waits_in_vain_names_the_transaction(cluster: Cluster, topic: str) -> None:
    options = {"subscribe": topic, "endingOffsets": offsets(topic, 1), "kafkaConsumer.pollTimeoutMs": 100}
    with transactions(cluster, topic) as producer:
        send(producer, "a")
        with pytest.raises(ottla.TimeoutError, match="ottla txn explain"):
            Table(cluster.bootstrap, options)
        producer.abort_transaction()


def test_uncommitted_rows_are_read_where_that_is_chosen(cluster: Cluster, topic: str) -> None:
    committed(cluster, topic, "aborted", aborted=True)
    options = {"subscribe": topic, "kafka.isolation.level": "read_uncommitted"}
    with transactions(cluster, topic) as producer:
        send(producer, "open")
        assert Table(cluster.bootstrap, options).values == ["aborted", "open"]
        with Stream(cluster.bootstrap, {**options, "startingOffsets": "earliest"}) as stream:
            assert stream.values() == ["aborted", "open"]
            assert open_in(stream.reader.reportLatestOffset() or {}) == {}, "what is read is not counted as open"
        producer.abort_transaction()
