"""Every option of a batch read, each shown by what is read from a real cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from batches import raw_batch, raw_record
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from spark_source import Table, offsets, partition
from wire import Wire

import ottla
from ottla.testing import Cluster
from pyspark_ottla.decision_log import create_topic
from pyspark_ottla.machines.decisions import TOPIC

FIRST_MS = 1_700_000_000_000
RECORDS = 20
BATCH_OPTION = pytest.mark.spark_option

Read = Callable[..., Table]


def fill(cluster: Cluster, topic: str, *, first: int = 0, count: int = RECORDS, partitions: int = 2) -> None:
    """Value vN goes to partition N % partitions, a second after the one before."""
    with ottla.Producer(cluster.bootstrap, topic=topic) as producer:
        for n in range(first, first + count):
            producer.send(f"v{n}", key=f"k{n}", partition=n % partitions, timestamp=FIRST_MS + n * 1000)


@pytest.fixture(scope="module")
def trades(cluster: Cluster, admin: ottla.Admin) -> str:
    """Two partitions with ten records each: v0, v2 … and v1, v3 …."""
    admin.topics.create("trades", partitions=2)
    fill(cluster, "trades")
    return "trades"


@pytest.fixture(scope="module")
def cut(cluster: Cluster, admin: ottla.Admin) -> str:
    """A topic like `trades` whose first four records of partition 0 are deleted."""
    admin.topics.create("cut", partitions=2)
    fill(cluster, "cut")
    admin.topics.delete_records("cut", {0: 4})
    return "cut"


@pytest.fixture
def read(cluster: Cluster) -> Read:
    return lambda **options: Table(cluster.bootstrap, {name.replace("__", "."): v for name, v in options.items()})


def refused(read: Read, **options: object) -> str:
    """What the error says, with its hint."""
    with pytest.raises(ottla.OttlaError) as caught:
        read(**options)
    return str(caught.value)


def values(*numbers: int) -> list[str]:
    return [f"v{n}" for n in numbers]


def moment(seconds: float) -> datetime:
    """When record vN of `trades` was made, N seconds after the first."""
    return datetime.fromtimestamp(FIRST_MS / 1000 + seconds, UTC)


ALL = values(*range(0, RECORDS, 2), *range(1, RECORDS, 2))


# ---- what is read ----------------------------------------------------------------------------------------------------


@BATCH_OPTION("subscribe")
@BATCH_OPTION("kafka.bootstrap.servers")
def test_topics_by_their_names(read: Read, trades: str, cut: str) -> None:
    assert read(subscribe=trades).values == ALL
    both = read(subscribe=f" {cut}, {trades} ,,{cut}").rows
    assert {row["topic"] for row in both} == {trades, cut}
    assert len(both) == 2 * RECORDS - 4


@BATCH_OPTION("profile")
def test_a_cluster_by_the_name_of_a_profile(
    read: Read, cluster: Cluster, trades: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text(f'[profiles.here]\nbootstrap.servers = "{cluster.bootstrap}"')
    monkeypatch.setenv("OTTLA_CONFIG", str(tmp_path / "config.toml"))
    assert read(subscribe=trades, profile="here").values == ALL
    assert "has no profile 'there'" in refused(read, subscribe=trades, profile="there")


@BATCH_OPTION("subscribe")
def test_a_topic_that_does_not_exist_is_named_with_its_neighbours(
    read: Read, trades: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_ottla.cluster.UNKNOWN_TOPIC_GRACE_S", 0.3)
    assert re.search(r"'trade' does not exist.*did you mean trades", refused(read, subscribe="trade"), re.DOTALL)


@BATCH_OPTION("subscribePattern")
def test_a_pattern_is_found_anywhere_in_a_name_and_may_match_nothing(
    read: Read, cluster: Cluster, admin: ottla.Admin, trades: str, cut: str
) -> None:
    assert read(subscribePattern="rade").values == ALL
    assert {row["topic"] for row in read(subscribePattern="^(trades|cut)$").rows} == {trades, cut}
    assert read(subscribePattern="^rade").rows == []
    admin.groups.commit("somebody", {partition(trades): 1})
    create_topic(admin)
    with ottla.Producer(cluster.bootstrap, topic=TOPIC, key="str") as producer:
        producer.send("nothing", key="of no query")
    assert {"__consumer_offsets", TOPIC} <= {*admin.topics.list(internal=True)}
    assert read(subscribePattern="^__").rows == []


@BATCH_OPTION("assign")
def test_single_partitions(read: Read, trades: str) -> None:
    assert read(assign=f'{{"{trades}": [1]}}').values == values(*range(1, RECORDS, 2))
    assert "trades-7 does not exist" in refused(read, assign=f'{{"{trades}": [0, 7]}}')


# ---- where it begins and ends ----------------------------------------------------------------------------------------


@BATCH_OPTION("startingOffsets")
@BATCH_OPTION("endingOffsets")
def test_offsets_of_each_partition(read: Read, trades: str) -> None:
    assert read(subscribe=trades, startingOffsets="Earliest", endingOffsets="LATEST").values == ALL
    assert read(
        subscribe=trades, startingOffsets=offsets(trades, 8, -2), endingOffsets=offsets(trades, -1, 2)
    ).values == (values(16, 18, 1, 3))


@BATCH_OPTION("startingOffsets")
@BATCH_OPTION("endingOffsets")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": offsets("trades", 8)}, "trades-1 is missing"),
        ({"startingOffsets": offsets("trades", 8, 8, 8)}, "trades-2 is not among"),
        (
            {"startingOffsets": offsets("trades", 8, 8), "endingOffsets": offsets("trades", 9, 7)},
            "starting offset 8 is after the ending offset 7",
        ),
        ({"startingTimestamp": FIRST_MS + 9_000, "endingTimestamp": FIRST_MS}, "is after the ending offset"),
        ({"startingOffsets": offsets("trades", 99, 0)}, "trades-0 ends at 10, and the query is at 99"),
        ({"endingOffsets": offsets("trades", 10, 11)}, "trades-1 ends at 10, and the query is at 11"),
    ],
)
def test_offsets_that_can_not_be(read: Read, trades: str, options: dict[str, object], said: str) -> None:
    assert said in refused(read, subscribe=trades, **options)


@BATCH_OPTION("startingTimestamp")
@BATCH_OPTION("endingTimestamp")
def test_a_time_for_all_partitions_beats_the_other_options(read: Read, trades: str) -> None:
    between = read(
        subscribe=trades,
        startingTimestamp=FIRST_MS + 15_000,
        startingOffsetsByTimestamp=offsets(trades, FIRST_MS, FIRST_MS),
        startingOffsets=offsets(trades, 0, 0),
        endingTimestamp=FIRST_MS + 17_001,
        endingOffsets=offsets(trades, 1, 1),
    )
    assert between.values == values(16, 15, 17)


@BATCH_OPTION("startingOffsetsByTimestamp")
@BATCH_OPTION("endingOffsetsByTimestamp")
def test_a_time_of_each_partition(read: Read, trades: str) -> None:
    found = read(
        subscribe=trades,
        startingOffsetsByTimestamp=offsets(trades, FIRST_MS + 15_000, FIRST_MS + 1),
        endingOffsetsByTimestamp=offsets(trades, FIRST_MS + 10**9, FIRST_MS + 3_000),
        startingOffsets="earliest",
    )
    assert found.values == values(16, 18, 1)
    assert "startingOffsetsByTimestamp: trades-1 is missing" in refused(
        read, subscribe=trades, startingOffsetsByTimestamp=offsets(trades, FIRST_MS)
    )


@BATCH_OPTION("startingOffsetsByTimestampStrategy")
def test_a_time_after_the_last_record(read: Read, trades: str) -> None:
    late = FIRST_MS + 19_000  # partition 0 ends before
    words = refused(read, subscribe=trades, startingTimestamp=late)
    assert f"trades-0 has no records at or after the timestamp {late} ms" in words
    assert "startingOffsetsByTimestampStrategy to latest" in words
    assert read(subscribe=trades, startingTimestamp=late, startingOffsetsByTimestampStrategy="Latest").values == (
        values(19)
    )


# ---- what is gone ----------------------------------------------------------------------------------------------------


@BATCH_OPTION("failOnDataLoss")
def test_records_that_were_deleted_are_named_or_left_out(
    read: Read, cut: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked = {"subscribe": cut, "startingOffsets": offsets(cut, 1, 8)}
    assert re.search(r"3 offsets .* gone: cut-0 1\.\.3 \(3 offsets\)\W.*failOnDataLoss", refused(read, **asked))
    left = read(**asked, failOnDataLoss="FALSE")
    assert left.values == values(8, 10, 12, 14, 16, 18, 17, 19)
    assert [(start, end) for _, start, end in left.ranges] == [(4, 10), (8, 10)]
    assert "cut-0 1..3" in caplog.text
    assert read(**asked, failOnDataLoss="false", endingOffsets=offsets(cut, 3, 9)).values == values(17)
    assert len(read(subscribe=cut).rows) == RECORDS - 4  # earliest is where the log begins now


@BATCH_OPTION("failOnDataLoss")
def test_offsets_beyond_the_end_are_left_out(read: Read, trades: str, caplog: pytest.LogCaptureFixture) -> None:
    ends = {"subscribe": trades, "failOnDataLoss": "false", "endingOffsets": offsets(trades, 99, 1)}
    assert read(**ends, startingOffsets=offsets(trades, 9, 0)).values == values(18, 1)
    assert "trades-0 ends at 10, and the query is at 99" in caplog.text
    assert read(subscribe=trades, failOnDataLoss="false", startingOffsets=offsets(trades, 99, 9)).values == values(19)


# ---- how it is cut into tasks ----------------------------------------------------------------------------------------


@BATCH_OPTION("minPartitions")
def test_more_tasks_than_partitions(read: Read, trades: str) -> None:
    table = read(subscribe=trades, minPartitions=5)
    assert [each.size for each in table.ranges] == [5, 5, 5, 5]
    assert table.values == ALL
    assert len(read(subscribe=trades, minPartitions=1).ranges) == 2


@BATCH_OPTION("maxRecordsPerPartition")
def test_no_task_with_more_records(read: Read, trades: str) -> None:
    table = read(subscribe=trades, maxRecordsPerPartition=4)
    assert max(each.size for each in table.ranges) <= 4
    assert len(table.ranges) == 6
    assert table.values == ALL


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ([EqualTo(("partition",), 1)], values(*range(1, RECORDS, 2))),
        ([In(("partition",), (0, 7)), LessThan(("offset",), 2)], values(0, 2)),
        ([GreaterThan(("offset",), 7), StringStartsWith(("topic",), "tra")], values(16, 18, 17, 19)),
        ([GreaterThanOrEqual(("offset",), 8), LessThanOrEqual(("offset",), 8)], values(16, 17)),
        ([EqualTo(("topic",), "other")], []),
        ([GreaterThanOrEqual(("timestamp",), moment(15))], values(16, 18, 15, 17, 19)),
        ([GreaterThan(("timestamp",), moment(15)), EqualTo(("timestamp",), moment(18))], values(18, 19)),
        ([GreaterThan(("timestamp",), moment(19.5))], []),
        ([LessThan(("timestamp",), moment(1))], ALL),  # the times of records need not be in order
        ([GreaterThan(("timestamp",), datetime(1969, 1, 1, tzinfo=UTC))], ALL),
        ([EqualTo(("key",), b"k7"), Not(EqualTo(("partition",), 1)), IsNotNull(("topic",))], ALL),
        ([In(("offset",), (2, None, 4))], values(4, 6, 8, 5, 7, 9)),
    ],
)
def test_filters_spare_what_can_not_pass(cluster: Cluster, trades: str, filters: list[Filter], kept: list[str]) -> None:
    assert Table(cluster.bootstrap, {"subscribe": trades}, filters).values == kept


# ---- the clients -----------------------------------------------------------------------------------------------------


@BATCH_OPTION("groupIdPrefix")
@BATCH_OPTION("kafka.group.id")
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "spark-ottla-source"),
        ({"groupIdPrefix": "audit"}, "audit"),
        ({"groupIdPrefix": "audit", "kafka.group.id": "mine"}, "mine"),
        ({"kafka.client.id": "me", "kafka.group.id": "mine"}, "me"),
    ],
)
def test_brokers_know_a_query_by_its_name(
    read: Read, cluster: Cluster, trades: str, options: dict[str, str], name: str
) -> None:
    """A fault of the plan meets that client's calls alone: the lookups, and the reading."""
    lookups = cluster.faults.delay("ListOffsets", 0.0).of(name)
    fetches = cluster.faults.delay("Fetch", 0.0).of(name)
    try:
        assert read(subscribe=trades, **options).values == ALL
    finally:
        cluster.faults.clear()
    assert lookups.met > 0
    assert fetches.met > 0


@BATCH_OPTION("kafka.*")
def test_settings_of_the_client_reach_it(read: Read, cluster: Cluster, admin: ottla.Admin) -> None:
    """One batch of records a response: so many more responses."""
    admin.topics.create("batches", partitions=1)
    for n in range(5):
        cluster.produce("batches", [f"v{n}"])

    def requests(**options: object) -> int:
        counted = cluster.faults.delay("Fetch", 0.0).of("counted")
        try:
            assert read(subscribe="batches", groupIdPrefix="counted", **options).values == values(*range(5))
        finally:
            cluster.faults.clear()
        return counted.met

    assert requests(kafka__fetch__max__bytes=1, kafka__max__partition__fetch__bytes=1) > requests()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset can't be set for Spark.*startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "enable.auto.commit can't be set.*commitOffsets"),
        ({"kafka.key.deserializer": "x"}, "key.deserializer can't be set.*decode"),
        ({"kafka.fetch.max.wait": "5"}, "kafka.fetch.max.wait: .* unknown.*the closest name is fetch.max.wait.ms"),
        ({"kafka.fetch.max.wait.ms": "soon"}, "kafka.fetch.max.wait.ms: .*not valid"),
        ({"kafka.isolation.level": "serializable"}, "isolation_level=.serializable. is not valid"),
        ({"kafka.sasl.password": "open-sesame"}, "kafka.sasl.password can't be an option.*kafka.sasl.password.file"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "config sasl.mechanism and security.protocol=PLAINTEXT contradict"),
    ],
)
@BATCH_OPTION("kafka.*")
def test_settings_of_the_client_that_can_not_be(read: Read, trades: str, options: dict[str, str], said: str) -> None:
    assert re.search(said, refused(read, subscribe=trades, **options), re.DOTALL)


@BATCH_OPTION("fetchOffset.numRetries")
@BATCH_OPTION("fetchOffset.retryIntervalMs")
def test_lookups_are_tried_again(read: Read, cluster: Cluster, trades: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(pause_s: float) -> None:
        slept.append(pause_s)
        if pause_s == 0.06:
            cluster.faults.clear()

    monkeypatch.setattr("pyspark_ottla.cluster._TRY_S", 1.5)  # more than an address rests
    monkeypatch.setattr("pyspark_ottla.cluster.time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    # The diagnosis of the address has no client id, and must not take this for a port that expects a login.
    cluster.faults.drop("Metadata").of("spark-ottla-source")
    try:
        assert "no broker answered" in refused(
            read, subscribe=trades, fetchOffset__numRetries=2, fetchOffset__retryIntervalMs=70
        )
        assert slept == [0.07, 0.07]
        assert read(subscribe=trades, fetchOffset__numRetries=1, fetchOffset__retryIntervalMs=60).values == ALL
    finally:
        cluster.faults.clear()


@BATCH_OPTION("kafkaConsumer.pollTimeoutMs")
def test_a_leader_that_says_nothing_is_waited_for_so_long(read: Read, cluster: Cluster, trades: str) -> None:
    silent = cluster.faults.error("Fetch", ottla.ErrorCode.NOT_LEADER_OR_FOLLOWER)
    try:
        words = refused(read, subscribe=trades, kafkaConsumer__pollTimeoutMs=700)
        assert "no record of trades-0 0..9" in words
        assert "pollTimeoutMs" in words
    finally:
        silent.times(5)
    assert read(subscribe=trades, kafkaConsumer__pollTimeoutMs=20_000).values == ALL


# ---- what the columns hold -------------------------------------------------------------------------------------------


def test_all_columns_of_a_record(read: Read, trades: str) -> None:
    assert read(assign='{"trades": [1]}', endingOffsets='{"trades": {"1": 1}}').rows == [
        {
            "key": b"k1",
            "value": b"v1",
            "topic": "trades",
            "partition": 1,
            "offset": 0,
            "timestamp": datetime.fromtimestamp(FIRST_MS / 1000 + 1, UTC),
            "timestampType": 0,
        }
    ]


@BATCH_OPTION("includeHeaders")
def test_headers_none_repeated_and_null(read: Read, cluster: Cluster, admin: ottla.Admin) -> None:
    admin.topics.create("headed", partitions=1)
    with ottla.Producer(cluster.bootstrap, topic="headed") as producer:
        producer.send(None, key=None)
        producer.send("b", headers=[("a", b"1"), ("a", None), ("é", b"\x00\xff"), ("", b"")])
    bare, headed = read(subscribe="headed", includeHeaders="true").rows
    assert (bare["key"], bare["value"], bare["headers"]) == (None, None, None)
    assert headed["headers"] == [
        {"key": "a", "value": b"1"},
        {"key": "a", "value": None},
        {"key": "é", "value": b"\x00\xff"},
        {"key": "", "value": b""},
    ]
    assert "headers" not in read(subscribe="headed", includeHeaders="false").rows[0]


def test_timestamps_of_the_log_and_none_at_all(read: Read, cluster: Cluster, admin: ottla.Admin) -> None:
    admin.topics.create("stamped", partitions=1, config={"message.timestamp.type": "LogAppendTime"})
    before = datetime.fromtimestamp(cluster.clock.wall_ms() / 1000, UTC)
    with ottla.Producer(cluster.bootstrap) as producer:
        producer.send("a", topic="stamped", timestamp=5)
    with Wire(cluster.bootstrap) as wire:  # no client of ours sends a record without a timestamp
        topic_id = wire.create_topic("timeless")
        assert not wire.produce(topic_id, raw_batch(raw_record(0), base_timestamp=-1, max_timestamp=-1)).error_code
    (stamped,) = read(subscribe="stamped").rows
    assert stamped["timestampType"] == 1
    assert stamped["timestamp"] >= before
    (timeless,) = read(subscribe="timeless").rows
    assert timeless["timestampType"] == 0
    assert timeless["timestamp"] == datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)


def test_a_grpc_address_is_named_with_the_port_to_use(read: Read, cluster: Cluster, trades: str) -> None:
    words = refused(read, subscribe=trades, kafka__bootstrap__servers=cluster.grpc_bootstrap)
    assert "is a gRPC port, not a broker's Kafka port (usually 9092)" in words


# ---- options that can't be -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "trades", "assign": '{"trades": [0]}'}, "assign and subscribe are set together.*exactly one"),
        ({}, "no option says what to read.*subscribe"),
        ({"subscribe": "trades", "startingOffset": "earliest"}, "startingoffset is unknown.*startingOffsets"),
        ({"subscribe": "trades", "kafka.bootstrap.servers": "here"}, "'here' is not an address.*host:port"),
        ({"subscribe": "trades", "maxOffsetsPerTrigger": 5}, "maxOffsetsPerTrigger works only in streaming queries"),
    ],
)
def test_options_that_contradict_each_other_are_refused_before_anything_is_asked(
    read: Read, trades: str, options: dict[str, object], said: str
) -> None:
    assert re.search(said, refused(read, **options), re.DOTALL)
