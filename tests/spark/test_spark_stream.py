"""Every option of a streaming read, and what becomes of a query when the cluster changes under it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from knocks import Knocks
from spark_source import Stream, offsets, partition, texts
from waiting import wait_until

import ottla
from ottla.client import log_dirs
from ottla.client.kafka.apis import DESCRIBE_LOG_DIRS
from ottla.client.list_offsets import list_offsets_or_end
from ottla.errors import OttlaError
from ottla.testing import Cluster
from ottla_core.model import TopicPartition
from pyspark_ottla import cluster as cluster_of_spark
from pyspark_ottla.cluster import SourcePartitions
from pyspark_ottla.commits import OffsetCommits
from pyspark_ottla.machines.offsets import Offsets, from_json
from pyspark_ottla.options import read_options

OPTION = pytest.mark.spark_option

Begin = Callable[..., Stream]


@pytest.fixture
def topic(admin: ottla.Admin, request: pytest.FixtureRequest) -> str:
    """An empty topic of two partitions with the test's name."""
    name = re.sub(r"[^a-zA-Z0-9_.-]", "-", request.node.name)
    admin.topics.create(name, partitions=2)
    return name


@pytest.fixture
def begin(cluster: Cluster) -> Iterator[Begin]:
    """Begins a query, or goes on with the checkpoint that is given; `fetchOffset__numRetries` means …Offset.num…."""
    running: list[Stream] = []

    def begin(
        checkpoint: str | None = None, *, once: bool = False, available_now: bool = False, **options: object
    ) -> Stream:
        named = {name.replace("__", "."): value for name, value in options.items()}
        running.append(Stream(cluster.bootstrap, named, checkpoint, once=once, available_now=available_now))
        return running[-1]

    yield begin
    for stream in running:
        stream.stop()


def send(cluster: Cluster, topic: str, count: int, *, first: int = 0, to: int | None = None) -> list[str]:
    """Values vN, alternating between two partitions or all `to` one; returns them as they are read."""
    numbers = range(first, first + count)
    with ottla.Producer(cluster.bootstrap, topic=topic) as producer:
        for n in numbers:
            producer.send(f"v{n}", partition=n % 2 if to is None else to)
    ordered = sorted(numbers, key=lambda n: (n % 2, n)) if to is None else numbers
    return [f"v{n}" for n in ordered]


def refused(call: Callable[..., object], *args: object, **options: object) -> str:
    with pytest.raises(ottla.OttlaError) as caught:
        call(*args, **options)
    return str(caught.value)


def test_tasks_go_on_with_the_consumers_of_those_before(
    cluster: Cluster, topic: str, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []

    def make(*arguments: Any, **settings: Any) -> ottla.Consumer[bytes, bytes]:
        made.append(consumer := original(*arguments, **settings))
        return consumer

    original = ottla.Consumer
    monkeypatch.setattr(ottla, "Consumer", make)
    query = begin(subscribe=topic, maxOffsetsPerTrigger=4)
    for first in (0, 10, 20):
        values = send(cluster, topic, 10, first=first)
        assert sorted(value for _ in range(3) for value in query.values() or []) == sorted(values)
    assert len(made) == 2, "one for each partition"
    query.checkpoint = offsets(topic, 3, 12)
    assert texts(query.run(offsets(topic, 5, 15))) == ["v6", "v8", "v25", "v27", "v29"], "wherever they are sent to"
    assert len(made) == 2


# ---- where a query begins --------------------------------------------------------------------------------------------


@OPTION("startingOffsets")
def test_a_query_begins_at_the_end_unless_it_is_told_otherwise(cluster: Cluster, topic: str, begin: Begin) -> None:
    old = send(cluster, topic, 6)
    latest, earliest = begin(subscribe=topic), begin(subscribe=topic, startingOffsets="earliest")
    mixed = begin(subscribe=topic, startingOffsets=offsets(topic, -1, 1))
    assert latest.batch() is None
    new = send(cluster, topic, 2, first=6)
    assert latest.values() == new == ["v6", "v7"]
    assert earliest.values() == ["v0", "v2", "v4", "v6", "v1", "v3", "v5", "v7"]
    assert mixed.values() == ["v6", "v3", "v5", "v7"]
    assert earliest.batch() is None
    assert set(old) == {f"v{n}" for n in range(6)}


@OPTION("startingTimestamp")
@OPTION("startingOffsetsByTimestamp")
@OPTION("startingOffsetsByTimestampStrategy")
def test_a_query_begins_at_a_time(cluster: Cluster, topic: str, begin: Begin) -> None:
    send(cluster, topic, 2)
    assert begin(subscribe=topic, startingTimestamp=0).values() == ["v0", "v1"]
    late = 10**13
    by_partition = offsets(topic, 0, late)
    assert "no records at or after" in refused(begin, subscribe=topic, startingOffsetsByTimestamp=by_partition)
    latest = begin(
        subscribe=topic, startingOffsetsByTimestamp=by_partition, startingOffsetsByTimestampStrategy="latest"
    )
    assert latest.values() == ["v0"]


@OPTION("startingOffsets")
@OPTION("failOnDataLoss")
def test_a_query_can_not_begin_where_the_log_is_not(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    send(cluster, topic, 8)
    admin.topics.delete_records(topic, {0: 2})
    assert f"{topic}-0 0..1 (2 offsets)" in refused(begin, subscribe=topic, startingOffsets=offsets(topic, 0, 0))
    beyond = offsets(topic, 9, 3)
    assert f"{topic}-0 ends at 4, and the query is at 9" in refused(begin, subscribe=topic, startingOffsets=beyond)
    lenient = begin(subscribe=topic, startingOffsets=beyond, failOnDataLoss="false")
    assert lenient.values() == ["v7"]
    assert begin(subscribe=topic, startingOffsets=offsets(topic, 0, -1), failOnDataLoss="false").values() == [
        "v4",
        "v6",
    ]
    assert "gone" in caplog.text
    assert "is missing" in refused(begin, subscribe=topic, startingOffsets=offsets(topic, 0))


def test_a_checkpoint_beats_the_options_and_nothing_is_read_twice(cluster: Cluster, topic: str, begin: Begin) -> None:
    send(cluster, topic, 4)
    first = begin(subscribe=topic, startingOffsets="earliest")
    assert first.values() == ["v0", "v2", "v1", "v3"]
    again = begin(first.checkpoint, subscribe=topic, startingOffsets="earliest")
    assert again.batch() is None
    send(cluster, topic, 1, first=4)
    planned = again.plan()
    assert planned is not None
    again.stop()  # between planning and reading: Spark asks the next run for the same range
    assert [row["value"] for row in begin(again.checkpoint, subscribe=topic).run(planned)] == [b"v4"]


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(topic: str, begin: Begin, option: str) -> None:
    assert f"{option} works only in batch queries" in refused(begin, subscribe=topic, **{option: "1"})


# ---- how much a micro-batch takes ------------------------------------------------------------------------------------


@OPTION("maxOffsetsPerTrigger")
def test_a_batch_takes_no_more_than_it_may_in_proportion(cluster: Cluster, topic: str, begin: Begin) -> None:
    send(cluster, topic, 9, to=0)
    send(cluster, topic, 3, first=9, to=1)
    stream = begin(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    assert stream.values() == ["v0", "v1", "v2", "v9", "v10"]
    assert [len(rows) for rows in iter(stream.batch, None)] == [5, 2]


@OPTION("maxOffsetsPerTrigger")
def test_trigger_once_takes_all(cluster: Cluster, topic: str, begin: Begin) -> None:
    sent = send(cluster, topic, 9)
    once = begin(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5, minOffsetsPerTrigger=5, once=True)
    assert once.values() == sent


@OPTION("maxBytesPerTrigger")
def test_a_batch_takes_about_so_many_bytes(cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin) -> None:
    for number in range(2):
        with ottla.Producer(cluster.bootstrap, topic=topic, compression="none", batch_size=20_000) as producer:
            for _ in range(50):
                producer.send(b"x" * 1_000, partition=number)
    stream = begin(subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="25kB")
    sizes = [len(rows) for rows in iter(stream.batch, None)]
    assert sum(sizes) == 100
    assert all(20 <= size <= 25 for size in sizes[:-1])
    assert 4 <= len(sizes) <= 6


@pytest.mark.story("spark-sizes-of-all-logs")
def test_sizes_are_asked_for_the_topics_of_the_query_alone(
    cluster: Cluster, admin: ottla.Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.topics.create(f"{topic}-of-others", partitions=3)
    send(cluster, topic, 1)
    limited = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "maxBytesPerTrigger": "1000"}
    partitions, described, ask = SourcePartitions(read_options(limited, streaming=True)), [], SourcePartitions._log_dirs

    def noting(*arguments: Any) -> Any:
        described.append(ask(*arguments))
        return described[-1]

    monkeypatch.setattr(SourcePartitions, "_log_dirs", noting)
    sizes = partitions.record_bytes(partitions.existing())
    partitions.close()
    assert {each.topic for each in sizes} == {topic}
    found = {partition.topic for each in described for at in each for partition in at.replica_bytes}
    assert found == {topic}


def test_a_query_that_may_not_ask_for_sizes_is_told_which_right_it_needs(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cluster, topic, 1)
    limited = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "maxBytesPerTrigger": "1000"}
    partitions = SourcePartitions(read_options(limited, streaming=True))
    existing = partitions.existing()
    refused = DESCRIBE_LOG_DIRS._replace(failure=lambda _: OttlaError(31, ""))
    monkeypatch.setattr(log_dirs, "DESCRIBE_LOG_DIRS", refused)
    with pytest.raises(ottla.errors.AuthorizationError, match="does not tell the sizes of logs") as raised:
        partitions.record_bytes(existing)
    partitions.close()
    assert "allow the user to DESCRIBE the cluster" in str(raised.value)


@OPTION("minOffsetsPerTrigger")
@OPTION("maxTriggerDelay")
def test_a_batch_waits_for_enough_or_long_enough_but_the_first_one(cluster: Cluster, topic: str, begin: Begin) -> None:
    asked = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": 4}
    patient = begin(**asked)
    impatient = begin(**asked, maxTriggerDelay="300")  # a number alone is milliseconds
    send(cluster, topic, 1)
    assert patient.values() == impatient.values() == ["v0"]
    send(cluster, topic, 3, first=1)
    assert patient.batch() is None
    began_at = time.monotonic()
    wait_until(lambda: (rows := impatient.batch()) is not None and len(rows) == 3)
    assert time.monotonic() - began_at < 10
    assert patient.batch() is None
    send(cluster, topic, 1, first=4)
    assert patient.values() == ["v2", "v4", "v1", "v3"]


def test_available_now_reads_what_is_there_in_batches_and_no_more(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin
) -> None:
    send(cluster, topic, 10)
    asked = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 4, "minOffsetsPerTrigger": 4}
    stream = begin(**asked, available_now=True)
    sizes = [len(stream.batch() or [])]
    send(cluster, topic, 5, first=10)
    admin.topics.add_partitions(topic, 3)
    sizes += [len(rows) for rows in iter(stream.batch, None)]
    assert sizes == [4, 4, 2]
    after = begin(stream.checkpoint, **asked, available_now=True)
    assert sum(len(rows) for rows in iter(after.batch, None)) == 5


@OPTION("minPartitions")
@OPTION("maxRecordsPerPartition")
def test_a_micro_batch_is_cut_into_tasks(cluster: Cluster, topic: str, begin: Begin) -> None:
    sent = send(cluster, topic, 12)
    many = begin(subscribe=topic, startingOffsets="earliest", minPartitions=4)
    assert many.values() == sent
    assert [each.size for each in many.ranges] == [3, 3, 3, 3]
    small = begin(subscribe=topic, startingOffsets="earliest", maxRecordsPerPartition=5)
    assert small.values() == sent
    assert [each.size for each in small.ranges] == [3, 3, 3, 3]


# ---- what changes while it runs --------------------------------------------------------------------------------------


@OPTION("subscribe")
@OPTION("assign")
def test_new_partitions_are_read_from_their_beginning(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin
) -> None:
    stream, fixed = begin(subscribe=topic), begin(assign=json.dumps({topic: [1]}))
    admin.topics.add_partitions(topic, 3)
    sent = send(cluster, topic, 4, to=2)
    send(cluster, topic, 2, first=4)
    assert stream.values() == ["v4", "v5", *sent]
    assert fixed.values() == ["v5"]


@OPTION("subscribePattern")
def test_new_topics_of_a_pattern_are_read_and_patterns_may_match_nothing_yet(
    cluster: Cluster, admin: ottla.Admin, begin: Begin
) -> None:
    stream = begin(subscribePattern="^fresh-")
    assert stream.batch() is None
    admin.topics.create("fresh-a", partitions=2)
    admin.topics.create("not-fresh-a", partitions=2)
    sent = send(cluster, "fresh-a", 4)
    send(cluster, "not-fresh-a", 4)
    assert stream.values() == sent
    admin.topics.create("fresh-b", partitions=2)
    assert stream.plan() is not None
    assert stream.values() == []  # nothing is in it yet, but it is known from now on
    assert stream.batch() is None


@OPTION("minOffsetsPerTrigger")
def test_a_new_partition_alone_is_no_reason_for_a_batch(admin: ottla.Admin, topic: str, begin: Begin) -> None:
    stream = begin(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=3)
    assert stream.batch() is None
    admin.topics.add_partitions(topic, 3)
    assert stream.plan() is None


@OPTION("failOnDataLoss")
def test_a_topic_that_is_deleted_fails_the_query_or_is_left_out(
    cluster: Cluster,
    admin: ottla.Admin,
    topic: str,
    begin: Begin,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark_ottla.cluster.UNKNOWN_TOPIC_GRACE_S", 0.3)
    admin.topics.create(f"{topic}-other", partitions=1)
    asked = {"subscribe": f"{topic},{topic}-other", "startingOffsets": "earliest"}
    strict, lenient = begin(**asked), begin(**asked, failOnDataLoss="false")
    send(cluster, topic, 4)
    planned = lenient.plan()
    assert planned is not None
    admin.topics.delete(topic)
    send(cluster, f"{topic}-other", 1, to=0)
    words = refused(strict.batch)
    assert f"{topic}-0, {topic}-1: deleted while the query was reading" in words
    assert "failOnDataLoss" in words
    assert lenient.run(planned) == []  # the topic went between planning and reading
    assert lenient.values() == ["v0"]
    assert "deleted" in caplog.text
    assert lenient.batch() is None
    admin.topics.create(topic, partitions=1)
    send(cluster, topic, 2, to=0)
    assert lenient.values() == ["v0", "v1"]


@OPTION("failOnDataLoss")
@pytest.mark.parametrize("question", ["latest", "earliest"])
def test_a_topic_that_is_deleted_between_two_questions_is_one_that_was_deleted(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    monkeypatch.setattr("pyspark_ottla.cluster.UNKNOWN_TOPIC_GRACE_S", 0.3)
    monkeypatch.setattr("ottla.client.list_offsets.UNKNOWN_TOPIC_GRACE_S", 0.3)
    admin.topics.create(f"{topic}-other", partitions=1)
    asked = {"subscribe": f"{topic},{topic}-other", "startingOffsets": "earliest"}
    strict, lenient = begin(**asked), begin(**asked, failOnDataLoss="false")
    send(cluster, topic, 4)
    planned = [query.plan() for query in (strict, lenient)]
    asks = getattr(SourcePartitions, question)

    def ask_late(self: SourcePartitions, *arguments: Any) -> Any:
        admin.topics.delete(topic, if_missing="ok")
        return asks(self, *arguments)

    monkeypatch.setattr(SourcePartitions, question, ask_late)
    words = refused(strict.run, planned[0])
    assert f"{topic}-0, {topic}-1: deleted while the query was reading" in words
    send(cluster, f"{topic}-other", 1, to=0)
    assert lenient.run(planned[1] or "") == []
    assert lenient.values() == ["v0"]


@OPTION("failOnDataLoss")
@pytest.mark.story("spark-partition-that-does-not-begin-at-0")
def test_what_is_gone_of_a_new_partition_is_told_and_a_batch_is_the_same_whenever_it_is_planned(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    asked = {"subscribe": topic, "startingOffsets": "earliest"}
    strict, lenient = begin(**asked), begin(**asked, failOnDataLoss="false", maxOffsetsPerTrigger=2)
    admin.topics.add_partitions(topic, 3)
    send(cluster, topic, 10, to=2)
    admin.topics.delete_records(topic, {2: 7})
    assert f"{topic}-2 0..6 (7 offsets)" in refused(strict.batch)
    planned = lenient.plan()
    assert planned == lenient.plan()
    before = lenient.checkpoint
    assert texts(lenient.run(planned or "")) == ["v7", "v8"]  # what is gone takes no part of the limit
    assert f"{topic}-2 0..6 (7 offsets)" in caplog.text
    admin.topics.delete_records(topic, {2: 8})
    lenient.checkpoint = before
    caplog.clear()
    assert texts(lenient.run(planned or "")) == ["v8"]
    assert f"{topic}-2 0..7 (8 offsets)" in caplog.text
    assert lenient.values() == ["v9"]


def send_anew(cluster: Cluster, admin: ottla.Admin, topic: str, count: int, *, partitions: int = 2) -> None:
    """Delete the topic, and make another of its name with so many records in partition 0."""
    admin.topics.delete(topic)
    admin.topics.create(topic, partitions=partitions)
    send(cluster, topic, count, first=100, to=0)


@OPTION("failOnDataLoss")
@pytest.mark.story("spark-topic-made-anew")
@pytest.mark.story("spark-consumer-of-a-former-topic")
@pytest.mark.parametrize("count", [1, 9], ids=["shorter", "longer"])
def test_a_topic_that_was_made_anew_is_another_one(
    cluster: Cluster,
    admin: ottla.Admin,
    topic: str,
    begin: Begin,
    caplog: pytest.LogCaptureFixture,
    count: int,
) -> None:
    send(cluster, topic, 8)
    asked = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset__retryIntervalMs": 10}
    strict, lenient = begin(**asked), begin(**asked, failOnDataLoss="false")
    assert len(strict.batch() or []) == 8
    lenient.checkpoint = strict.checkpoint
    send_anew(cluster, admin, topic, count)
    assert f"{topic}: deleted and recreated since the query last read" in refused(strict.batch)
    planned, before = lenient.plan(), lenient.checkpoint
    assert planned == lenient.plan()
    expected = [f"v{100 + n}" for n in range(count)]
    for _ in range(2):  # Spark may do it again
        lenient.checkpoint = before
        assert texts(lenient.run(planned or "")) == expected
    assert caplog.text.count("recreated since") == 1
    assert lenient.batch() is None


@pytest.mark.story("spark-topic-made-anew")
def test_a_batch_of_a_topic_that_was_made_anew_since_it_was_planned_is_gone(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin
) -> None:
    send(cluster, topic, 8)
    asked = {"subscribe": topic, "startingOffsets": "earliest"}
    strict, lenient = begin(**asked), begin(**asked, failOnDataLoss="false")
    planned = strict.plan()
    assert planned is not None
    send_anew(cluster, admin, topic, 20)
    assert f"{topic}-0, {topic}-1: deleted while the query was reading" in refused(strict.run, planned)
    assert lenient.run(planned) == []
    assert lenient.values() == [f"v{100 + n}" for n in range(20)]


@pytest.mark.story("spark-task-in-another-topic")
@pytest.mark.parametrize("batches_before", [0, 1], ids=["new consumers", "kept consumers"])
def test_a_task_has_no_rows_of_a_topic_that_was_made_anew_since_it_was_planned(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin, batches_before: int
) -> None:
    """A row at the same offset is another one: the batch would change each time that it is read."""
    asked = {"subscribe": topic, "startingOffsets": "earliest"}
    strict, lenient = begin(**asked), begin(**asked, failOnDataLoss="false")
    for _ in range(batches_before):
        send(cluster, topic, 2)
        for stream in (strict, lenient):
            assert stream.values() == ["v0", "v1"]
    send(cluster, topic, 8)
    planned = {stream: stream.plan() or "" for stream in (strict, lenient)}
    anew = partial(send_anew, cluster, admin, topic, 20)
    assert f"{topic}-0: deleted while the query was reading" in refused(strict.run, planned[strict], before_tasks=anew)
    assert lenient.run(planned[lenient], before_tasks=anew) == []


def without_ids(checkpoint: str) -> str:
    told = json.loads(checkpoint)
    return json.dumps({topic: {n: at for n, at in numbers.items() if n.isdigit()} for topic, numbers in told.items()})


def test_a_checkpoint_without_ids_is_gone_on_with(cluster: Cluster, topic: str, begin: Begin) -> None:
    send(cluster, topic, 4)
    stream = begin(subscribe=topic, checkpoint=offsets(topic, 1, 2))
    assert stream.values() == ["v2"]
    assert json.loads(stream.checkpoint)[topic].keys() == {"0", "1", "id", "epochs"}
    again = begin(subscribe=topic, startingOffsets=stream.checkpoint)
    assert from_json(json.loads(again.checkpoint)) == from_json(json.loads(stream.checkpoint))


@OPTION("fetchOffset.numRetries")
@OPTION("fetchOffset.retryIntervalMs")
def test_a_new_leader_that_is_behind_for_a_moment_is_no_loss(
    cluster: Cluster, topic: str, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = begin(
        subscribe=topic, startingOffsets="earliest", fetchOffset__numRetries=2, fetchOffset__retryIntervalMs=9
    )
    send(cluster, topic, 8)
    assert len(stream.batch() or []) == 8
    slept: list[float] = []
    look_up = list_offsets_or_end

    def behind(*args: Any, **settings: Any) -> dict[TopicPartition, int]:
        found = look_up(*args, **settings)
        return {each: at - 1 for each, at in found.items()} if len(slept) < 2 else found

    monkeypatch.setattr("pyspark_ottla.cluster.list_offsets_or_end", behind)
    monkeypatch.setattr("pyspark_ottla.cluster.time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    assert stream.batch() is None
    assert slept == [0.009, 0.009]


@OPTION("failOnDataLoss")
def test_records_that_are_deleted_before_they_are_read_are_named_or_left_out(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    asked = {"subscribe": topic, "startingOffsets": "earliest"}
    strict, lenient = begin(**asked), begin(**asked, failOnDataLoss="false")
    send(cluster, topic, 8)
    admin.topics.delete_records(topic, {0: 1, 1: 3})
    planned = strict.plan()
    assert planned is not None
    words = refused(strict.run, planned)
    assert (
        f"4 offsets that the query has not read yet are gone: {topic}-0 0..0 (1 offset); {topic}-1 0..2 (3 offsets)"
        in words
    )
    assert lenient.values() == ["v2", "v4", "v6", "v7"]
    assert f"{topic}-1 0..2" in caplog.text


@OPTION("failOnDataLoss")
@pytest.mark.parametrize(
    ("before", "left"), [({0: 3}, ["v6", "v1", "v3", "v5", "v7"]), ({0: 4}, ["v1", "v3", "v5", "v7"])]
)
def test_retention_while_a_task_waits_is_a_loss_too(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin, before: dict[int, int], left: list[str]
) -> None:
    asked = {"subscribe": topic, "startingOffsets": "earliest"}
    strict, lenient = begin(**asked), begin(**asked, failOnDataLoss="false")
    send(cluster, topic, 8)
    planned = strict.plan()
    assert planned is not None
    deleted: list[object] = []

    def delete() -> None:
        if not deleted:
            deleted.append(admin.topics.delete_records(topic, before))

    rows = lenient.run(planned, before_tasks=delete)
    assert [row["value"].decode() for row in rows] == left
    words = refused(strict.run, planned)
    assert f"{topic}-0 0..{before[0] - 1}" in words


@OPTION("failOnDataLoss")
def test_a_batch_that_was_planned_in_an_earlier_run_is_checked_again(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin
) -> None:
    """Else its tasks would wait for records that never come."""
    send(cluster, topic, 8)
    asked = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset__retryIntervalMs": 10}
    first = begin(**asked)
    planned = without_ids(first.plan() or "")  # as an older release has written it
    first.checkpoint = without_ids(first.checkpoint)
    admin.topics.delete(topic)
    admin.topics.create(topic, partitions=2)
    send(cluster, topic, 2)
    assert f"{topic}-0 ends at 1, and the query is at 4" in refused(begin(first.checkpoint, **asked).run, planned)
    rows = begin(first.checkpoint, **asked, failOnDataLoss="false").run(planned)
    assert [row["value"] for row in rows] == [b"v0", b"v1"]


@OPTION("failOnDataLoss")
def test_a_topic_that_is_deleted_while_a_task_waits_is_left_out(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.metadata_updater.UNKNOWN_TOPIC_GRACE_S", 0.3)
    asked = {"assign": json.dumps({topic: [0]}), "startingOffsets": "earliest"}
    strict, lenient = begin(**asked), begin(**asked, failOnDataLoss="false")
    send(cluster, topic, 8)
    planned = strict.plan()
    assert planned is not None
    tasks = strict.reader.partitions(json.loads(strict.checkpoint), json.loads(planned))
    assert lenient.run(planned, before_tasks=lambda: admin.topics.delete(topic)) == []
    assert "deleted while the query was reading" in refused(list, strict.reader.read(tasks[0]))


def test_a_checkpoint_of_another_query_is_refused(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    words = refused(begin(offsets("others", 3, 4), subscribe=topic, failOnDataLoss="false").batch)
    assert re.search(
        rf"belongs to another query: it holds others-0, others-1, .* reads {topic}\W.*checkpointLocation", words
    )
    assert "it holds 17" in refused(begin("17", subscribe=topic).batch)
    assert "another query" in refused(begin('{"a": 5}', subscribe=topic).batch)
    both = json.dumps({**json.loads(offsets(topic, 0, 0)), **json.loads(offsets("unsubscribed", 7))})
    assert "unsubscribed-0" in refused(begin(both, subscribe=topic).batch)
    sent = send(cluster, topic, 2)
    assert begin(both, subscribe=topic, failOnDataLoss="false").values() == sent
    assert "unsubscribed-0" in caplog.text
    assert "deleted" not in caplog.text


def test_brokers_that_are_away_are_waited_for(cluster: Cluster, topic: str, begin: Begin) -> None:
    sent = send(cluster, topic, 4)
    stream = begin(subscribe=topic, startingOffsets="earliest")
    planned = stream.plan()
    assert planned is not None
    for work in (lambda: stream.run(planned), stream.batch):
        cluster.brokers[0].kill()
        back = threading.Timer(1.5, cluster.brokers[0].restart)
        back.start()
        rows = work()
        back.join()
        assert [row["value"].decode() for row in rows or []] == sent
        sent = send(cluster, topic, 2, first=4)


@OPTION("kafkaConsumer.pollTimeoutMs")
def test_tasks_wait_for_a_broker_that_hangs_longer_than_a_request_does(
    cluster: Cluster, topic: str, begin: Begin
) -> None:
    """Three requests in vain: with the 30 s that are the default for each, a minute and a half."""
    sent = send(cluster, topic, 4)
    stream = begin(subscribe=topic, startingOffsets="earliest", kafka__request__timeout__ms=300)
    planned = stream.plan()
    assert planned is not None
    hangs = cluster.faults.delay("Fetch", 60.0).times(3)
    rows = stream.run(planned)
    assert [row["value"].decode() for row in rows] == sent
    assert hangs.met == 3


@OPTION("kafkaConsumer.pollTimeoutMs")
def test_tasks_wait_for_a_broker_that_is_away(cluster: Cluster, topic: str, begin: Begin) -> None:
    sent = send(cluster, topic, 4)
    stream = begin(subscribe=topic, startingOffsets="earliest", kafka__request__timeout__ms=300)
    planned = stream.plan()
    assert planned is not None
    broker = cluster.brokers[0]

    def come_back_late() -> None:
        with Knocks(broker.kafka_address) as knocks:
            knocks.until(5)
        broker.restart()

    back = threading.Thread(target=come_back_late)

    def away() -> None:
        broker.kill()
        back.start()

    rows = stream.run(planned, before_tasks=away)
    back.join(60.0)
    assert [row["value"].decode() for row in rows] == sent


@OPTION("fetchOffset.numRetries")
def test_planning_waits_for_a_broker_that_hangs_longer_than_a_request_does(
    cluster: Cluster, topic: str, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of the four tries that there are by default."""
    stream = begin(subscribe=topic, startingOffsets="earliest", fetchOffset__retryIntervalMs=10)
    sent = send(cluster, topic, 4)
    monkeypatch.setattr("pyspark_ottla.cluster._TRY_S", 0.3)
    hangs = cluster.faults.delay("ListOffsets", 60.0).times(3)
    planned = stream.plan()
    assert hangs.met == 3
    assert planned is not None
    assert [row["value"].decode() for row in stream.run(planned)] == sent


def test_a_minute_without_brokers_is_waited_for_by_default() -> None:
    options = read_options({"kafka.bootstrap.servers": "b0:1", "subscribe": "t"}, streaming=True)
    assert options.fetch_offset_retries * cluster_of_spark._TRY_S > 60
    assert options.poll_timeout_s > 60


# ---- offsets for others ----------------------------------------------------------------------------------------------


@OPTION("commitOffsets")
def test_what_was_processed_is_committed_to_a_group(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin
) -> None:
    send(cluster, topic, 6)
    stream = begin(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=4, commitOffsets=topic)

    def committed() -> list[int | None]:
        return [admin.groups.committed(topic, if_missing="ok").get(partition(topic, n)) for n in range(2)]

    assert len(stream.batch() or []) == 4
    assert len(stream.batch() or []) == 2  # Spark has asked for it once the first one was processed
    wait_until(lambda: committed() == [2, 2])
    assert stream.batch() is None
    stream.stop()
    assert committed() == [3, 3]


@OPTION("commitOffsets")
def test_a_group_with_members_or_without_a_coordinator_does_not_hold_up_a_query(
    cluster: Cluster,
    admin: ottla.Admin,
    topic: str,
    begin: Begin,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark_ottla.commits._PAUSE_S", 0.2)
    group = f"{topic}-group"
    stream = begin(subscribe=topic, startingOffsets="earliest", commitOffsets=group)

    def warned() -> list[str]:
        return [each for each in caplog.messages if f"not committed to group {group}" in each]

    with ottla.Consumer(topic, bootstrap=cluster.bootstrap, group=group) as member:
        wait_until(lambda: member.poll(0.1) is not None and member.assignment())
        sent = send(cluster, topic, 2)
        assert stream.values() == sent
        assert stream.batch() is None
        wait_until(warned)
    # The member has gone.
    wait_until(lambda: admin.groups.committed(group, if_missing="ok").get(partition(topic, 1)) == 1)
    assert len(warned()) == 1
    cluster.group_coordinators[0].kill()
    try:
        sent = send(cluster, topic, 2, first=2)
        began_at = time.monotonic()
        assert stream.values() == sent
        assert stream.batch() is None
        assert time.monotonic() - began_at < 5
    finally:
        cluster.group_coordinators[0].restart()
    wait_until(lambda: admin.groups.committed(group, if_missing="ok").get(partition(topic, 1)) == 2)


@OPTION("commitOffsets")
def test_what_could_not_be_committed_is_tried_again_when_the_query_stops(
    cluster: Cluster,
    admin: ottla.Admin,
    topic: str,
    begin: Begin,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark_ottla.commits._PAUSE_S", 60.0)
    stream = begin(subscribe=topic, startingOffsets="earliest", commitOffsets=topic)
    with ottla.Consumer(topic, bootstrap=cluster.bootstrap, group=topic) as member:
        wait_until(lambda: member.poll(0.1) is not None and member.assignment())
        sent = send(cluster, topic, 2)
        assert stream.values() == sent
        assert stream.batch() is None
        wait_until(lambda: f"not committed to group {topic}" in caplog.text)
    stream.stop()
    assert admin.groups.committed(topic) == {partition(topic, 0): 1, partition(topic, 1): 1}


@pytest.mark.story("spark-ends-before-its-last-commit")
def test_the_last_offsets_of_what_is_there_now_are_committed_before_the_query_ends(
    cluster: Cluster, admin: ottla.Admin, topic: str, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the answer to its last question Spark kills the process."""
    send_at_once = OffsetCommits._send

    def send_late(self: OffsetCommits, wanted: Offsets) -> bool:
        time.sleep(0.5)
        return send_at_once(self, wanted)

    monkeypatch.setattr(OffsetCommits, "_send", send_late)
    send(cluster, topic, 2)
    stream = begin(subscribe=topic, startingOffsets="earliest", commitOffsets=topic, available_now=True)
    assert len(stream.batch() or []) == 2
    assert stream.batch() is None
    assert admin.groups.committed(topic) == {partition(topic, 0): 1, partition(topic, 1): 1}


def test_progress_tells_where_the_logs_end(cluster: Cluster, topic: str, begin: Begin) -> None:
    stream = begin(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2)
    assert stream.reader.reportLatestOffset() is None
    send(cluster, topic, 6)
    assert len(stream.batch() or []) == 2
    told = stream.reader.reportLatestOffset()
    assert told is not None
    assert json.loads(without_ids(json.dumps(told))) == json.loads(offsets(topic, 3, 3))
    assert told[topic]["id"] == json.loads(stream.checkpoint)[topic]["id"]


# ---- options that can't be -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maxOffsetsPerTrigger": 5, "minOffsetsPerTrigger": 10}, "minOffsetsPerTrigger=10 is greater than"),
        ({"maxTriggerDelay": "15m"}, "without minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": 1, "maxTriggerDelay": "soon"}, "maxTriggerDelay='soon' is not a duration"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger=many is not valid"),
        ({"maxBytesPerTrigger": "1 parsec"}, "is not a size"),
        ({"failOnDataLoss": "maybe"}, "use true or false"),
        ({"commitOffsets": ""}, "commitOffsets is empty"),
    ],
)
def test_what_contradicts_itself_is_refused(begin: Begin, options: dict[str, object], said: str) -> None:
    assert said in refused(begin, subscribe="any", **options)
