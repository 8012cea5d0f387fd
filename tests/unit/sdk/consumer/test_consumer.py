"""The consumer against scripted brokers: where it begins, what it hands out, where it ends, what it survives."""

import contextlib
import logging
import struct
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from batches import raw_batch
from scripted_requests import parts, parts_of
from waiting import wait_until

from ottla.client.kafka.apis import FETCH, OFFSET_FOR_LEADER_EPOCH
from ottla.client.metadata_updater import MetadataUpdater
from ottla.consumer import fetcher
from ottla.consumer import start_offsets as plan
from ottla.consumer.consumer import Consumer
from ottla.consumer.context import ConsumerContext
from ottla.errors import (
    ConfigError,
    ErrorCode,
    FatalError,
    OffsetOutOfRangeError,
    OttlaError,
    SerializationError,
    TruncationError,
    UnknownTopicError,
    UnreadableBatchError,
)
from ottla.fakes.scripted import Break, Hang, Reject, ScriptedCluster
from ottla.fakes.scripted_log import ScriptedBatch
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import FetchRequest, ListOffsetsRequest, MetadataRequest, OffsetForLeaderEpochRequest
from ottla_core.model import TopicPartition
from ottla_core.records.batch import CONTROL, iter_headers, placed_prefix, read_header
from ottla_core.records.twins import new_builder

WAIT = 10.0
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def filled(counts: dict[int, int], *, batch_size: int = 1000, brokers: int = 1) -> ScriptedCluster:
    """Topic t with so many records a partition, values b"<n>", timestamps 1,000 + n."""
    cluster = ScriptedCluster({"t": len(counts)}, brokers=brokers)
    refill(cluster, counts, batch_size=batch_size)
    cluster.seen.clear()
    return cluster


def refill(cluster: ScriptedCluster, counts: dict[int, int], *, batch_size: int = 1000) -> None:
    """More of the same."""
    with Producer[Any, Any](
        "b0:1",
        topic="t",
        value="bytes",
        batch_size=batch_size,
        max_request_size=max(100, batch_size),  # otherwise batches that wait grow
        _transport=cluster.connect,
    ) as producer:
        for partition, count in counts.items():
            for n in range(count):
                producer.send(b"%d" % n, partition=partition, timestamp=1000 + n)


def consumer_of(cluster: ScriptedCluster, *topics: str, **arguments: Any) -> Consumer[Any, Any]:
    defaults = {"bootstrap": "b0:1", "start": "earliest", "fetch_max_wait": 0.05, "value": lambda data: int(data)}
    return Consumer(*(topics or ("t",)), **{**defaults, "_transport": cluster.connect, **arguments})


@pytest.mark.feature(83)
def test_everything_is_read_in_order_and_the_end_is_exact() -> None:
    cluster = filled({0: 500, 1: 300, 2: 0}, brokers=2)
    for _ in range(2):
        with consumer_of(cluster, stop="end") as consumer:
            records = list(consumer)
            assert consumer.assignment() == {TopicPartition("t", n) for n in range(3)}
        for partition, count in ((0, 500), (1, 300)):
            mine = [(r.offset, r.value, r.timestamp) for r in records if r.partition == partition]
            assert mine == [(n, n, 1000 + n) for n in range(count)]
        assert len(records) == 800


def test_what_is_written_after_the_start_does_not_belong_to_the_end() -> None:
    cluster = filled({0: 10})
    consumer = consumer_of(cluster, stop="end")
    rows = iter(consumer)
    assert next(rows).offset == 0
    with Producer[Any, Any]("b0:1", topic="t", _transport=cluster.connect) as producer:
        for _ in range(10):
            producer.send(b"99")
    assert [r.offset for r in rows] == list(range(1, 10))
    consumer.close()


@pytest.mark.feature(37)
def test_several_topics_and_chosen_partitions() -> None:
    cluster = filled({0: 3, 1: 4})
    cluster.add_topic("u", 1)
    with Producer[Any, Any]("b0:1", topic="u", _transport=cluster.connect) as producer:
        producer.send(b"7")
    with consumer_of(cluster, "t", "u", stop="end") as consumer:
        assert sorted({(r.topic, r.partition) for r in consumer}) == [("t", 0), ("t", 1), ("u", 0)]
    with consumer_of(cluster, stop="end", partitions=[1]) as consumer:
        assert [r.partition for r in consumer] == [1] * 4
    with consumer_of(cluster, stop="end", partitions=[5]) as consumer, pytest.raises(ConfigError, match="0 to 1"):
        next(iter(consumer))


@pytest.mark.feature(59)
def test_readers_that_choose_their_partitions_have_each_key_to_themselves_and_are_no_group() -> None:
    cluster = ScriptedCluster({"t": 2})
    with Producer[Any, Any]("b0:1", topic="t", key="str", value="int", _transport=cluster.connect) as producer:
        for n in range(100):
            producer.send(n, key=f"key-{n % 10}")
    cluster.seen.clear()
    seen = []
    for partition in (0, 1):
        with consumer_of(cluster, stop="end", partitions=[partition], key="str", value="int") as consumer:
            records = list(consumer)
            assert consumer.assignment() == {TopicPartition("t", partition)}
        seen.append({record.key for record in records})
        assert sum(1 for record in records) == 10 * len(seen[-1]), "all of each key that comes here at all"
    assert (len(seen[0] | seen[1]), seen[0] & seen[1]) == (10, set())
    assert min(map(len, seen)) > 0
    asked = {type(body).__name__ for _, body in cluster.seen}
    assert asked <= {"MetadataRequest", "ListOffsetsRequest", "FetchRequest"}, "no coordinator is asked for anything"


@pytest.mark.feature(55)
@pytest.mark.feature(56)
@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        ("earliest", 5, range(5)),
        ("earliest", 0, range(0)),
        ({T0: 90}, "end", range(90, 100)),
        (datetime.fromtimestamp(1.05, UTC), "end", range(50, 100)),
        ("earliest", datetime.fromtimestamp(1.02, UTC), range(20)),
        (datetime(2100, 1, 1, tzinfo=UTC), "end", range(0)),
        (timedelta(days=-36500 * 10), "end", range(100)),
        ("latest", "end", range(0)),
    ],
)
def test_places_to_start_and_stop(start: Any, stop: Any, expected: range) -> None:
    cluster = filled({0: 100}, batch_size=70)  # one record a batch, for the scripted brokers find times by batch
    with consumer_of(cluster, start=start, stop=stop) as consumer:
        assert [r.offset for r in consumer] == list(expected)


def test_a_seek_may_say_where_to_stop() -> None:
    cluster = filled({0: 100}, batch_size=400)
    with consumer_of(cluster, start={T0: 10}, stop={T0: 20}) as consumer:
        assert [r.offset for r in consumer] == list(range(10, 20))
        for stop in (40, 60, 30):
            consumer.seek(T0, stop - 5, stop=stop)
            assert not consumer.finished
            assert [r.offset for r in consumer] == list(range(stop - 5, stop))
            assert consumer.finished
        consumer.seek(T0, 28)
        assert [r.offset for r in consumer] == [28, 29]


@pytest.mark.feature(46)
def test_without_a_start_reading_begins_at_the_end_and_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_warned", [])
    cluster = filled({0: 10})
    with caplog.at_level(logging.WARNING, "ottla.consumer"), consumer_of(cluster, start="committed") as consumer:
        assert consumer.position(T0) == 10
        assert not consumer.poll(0.1)
    with consumer_of(cluster, start="committed", auto_offset_reset="earliest") as consumer:
        assert consumer.position(T0) == 0
    assert [r.message for r in caplog.records if "start='earliest'" in r.message] != []
    assert len(plan._warned) == 1


@pytest.mark.feature(35)
@pytest.mark.feature(43)
def test_poll_gives_what_is_there_and_nothing_after_its_timeout() -> None:
    cluster = filled({0: 25})
    with consumer_of(cluster, max_poll_records=10) as consumer:
        sizes = [len(consumer.poll(WAIT)) for _ in range(3)]
        assert sizes == [10, 10, 5]
        assert not consumer.poll(0.1)
        assert consumer.position(T0) == 25
        consumer.seek(T0, 20)
        batch = consumer.poll(WAIT, max_records=3)
        assert [r.offset for r in batch] == [20, 21, 22]
        assert (batch.values(), batch.keys()) == ([20, 21, 22], [None] * 3)
        assert batch[1].offset == 21
        assert [r.offset for r in batch[1:]] == [21, 22]
        assert batch.offsets == {T0: 23}


def test_batches_are_of_the_size_asked_for_and_the_last_is_what_is_left() -> None:
    cluster = filled({0: 130, 1: 120})
    with consumer_of(cluster, stop="end") as consumer:
        batches = list(consumer.batches(100))
    assert [len(batch) for batch in batches] == [100, 100, 50]
    assert sorted(v for batch in batches for v in batch.values()) == sorted([*range(130), *range(120)])


def test_iterating_polling_and_batches_share_one_position() -> None:
    cluster = filled({0: 50})
    with consumer_of(cluster, stop="end") as consumer:
        first = [r.offset for _, r in zip(range(7), consumer, strict=False)]
        assert consumer.position(T0) == 7
        then = [r.offset for r in consumer.poll(WAIT, max_records=5)]
        rest = [r.offset for batch in consumer.batches(10) for r in batch]
    assert first + then + rest == list(range(50))


@pytest.mark.feature(54)
def test_seeking_in_the_middle_of_reading() -> None:
    cluster = filled({0: 30, 1: 30})
    with consumer_of(cluster, stop="end") as consumer:
        offsets = []
        for record in consumer:
            if record.partition == 0:
                offsets.append(record.offset)
                if record.offset == 5 and len(offsets) < 10:
                    consumer.seek(T0, 2)
        assert offsets == [0, 1, 2, 3, 4, 5, 2, 3, 4, 5, *range(6, 30)]
        consumer.seek_to_beginning(T0)
        assert consumer.position(T0) == 0
        consumer.seek_to_end()
        assert (consumer.position(T0), consumer.position(T1)) == (30, 30)
        consumer.seek_to_time(datetime.fromtimestamp(1.0, UTC), T1)
        assert consumer.position(T1) == 0
        assert consumer.offsets("latest") == {T0: 30, T1: 30}
        with pytest.raises(ConfigError, match="not assigned"):
            consumer.seek(("t", 9), 0)
        with pytest.raises(ConfigError, match="is not an offset"):
            consumer.seek(T0, -1)


@pytest.mark.timeout(30)
@pytest.mark.story("partition-without-a-leader-ends-reading")
def test_a_partition_without_a_leader_is_read_when_it_has_one_and_stops_no_other() -> None:
    cluster = filled({0: 3, 1: 2})
    cluster.move_leader("t", 1, broker=-1, epoch=0)
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(5)) == 3
        asked = len(cluster.requests(ListOffsetsRequest))
        assert not consumer.poll(0.2)
        assert len(cluster.requests(ListOffsetsRequest)) == asked, "nobody can be asked"
        assert len(cluster.requests(MetadataRequest)) < 20, "it is not looked up without a pause"
        cluster.move_leader("t", 1, broker=0, epoch=1)
        got: list[Any] = []

        def has_the_rest() -> bool:
            got.extend(record.value for record in consumer.poll(0.1))
            return len(got) >= 2

        wait_until(has_the_rest, limit_s=10)
        assert consumer.position(T1) == 2


def test_a_paused_partition_waits_and_loses_nothing() -> None:
    cluster = filled({0: 20, 1: 20})
    with consumer_of(cluster) as consumer:
        rows = iter(consumer)
        first = next(rows)
        here, other = (T0, T1) if first.partition == 0 else (T1, T0)
        consumer.pause(here)
        assert consumer.paused() == {here}
        assert [next(rows).partition for _ in range(20)] == [other.partition] * 20
        assert not consumer.poll(0.1)
        consumer.resume()
        assert [r.offset for r in (next(rows) for _ in range(19))] == list(range(1, 20))


@pytest.mark.rule(57)
def test_a_batch_that_begins_below_the_position_is_cut_and_markers_are_not_shown() -> None:
    cluster = filled({0: 10}, batch_size=10_000)
    assert len(cluster.logs[T0].batches) == 1
    add_marker(cluster)
    with Producer[Any, Any]("b0:1", topic="t", _transport=cluster.connect) as producer:
        producer.send(b"11")
    with consumer_of(cluster, start={T0: 4}, stop="end") as consumer:
        assert [r.offset for r in consumer] == [4, 5, 6, 7, 8, 9, 11]
    add_marker(cluster)
    with consumer_of(cluster, start={T0: 11}, stop="end") as consumer:
        assert [r.offset for r in consumer] == [11]
        assert consumer.position(T0) == 13


@pytest.mark.feature(46)
def test_a_position_that_is_gone_is_reset_as_asked(caplog: pytest.LogCaptureFixture) -> None:
    cluster = filled({0: 100}, batch_size=200)
    cluster.truncate("t", 0, before=40)
    start = cluster.logs[T0].start
    assert 0 < start <= 40
    with caplog.at_level(logging.WARNING, "ottla.consumer"):
        with consumer_of(cluster, start={T0: 3}, stop="end", auto_offset_reset="earliest") as consumer:
            assert [r.offset for r in consumer] == list(range(start, 100))
        with consumer_of(cluster, start={T0: 3}, stop="end") as consumer:
            assert list(consumer) == []
        with (
            consumer_of(cluster, start={T0: 3}, auto_offset_reset="none") as consumer,
            pytest.raises(OffsetOutOfRangeError, match="t-0"),
        ):
            next(iter(consumer))
    assert ["earliest" in r.message for r in caplog.records] == [True, False]


@pytest.mark.feature(32)
@pytest.mark.story("nowhere-was-the-end")
@pytest.mark.parametrize("start", ["committed", {("t", 1): 2}])
def test_without_a_start_and_without_a_reset_reading_is_an_error_until_somebody_seeks(start: Any) -> None:
    with consumer_of(filled({0: 3, 1: 3}), start=start, auto_offset_reset="none") as consumer:
        for read in (lambda: consumer.poll(WAIT), lambda: consumer.position(T0)):
            with pytest.raises(OffsetOutOfRangeError, match="t-0 has no start position"):
                read()
        consumer.seek(T0, 1)
        consumer.seek(T1, 2)
        assert (consumer.position(T0), consumer.position(T1)) == (1, 2)
        got: list[tuple[int, int]] = []
        while len(got) < 3:
            got += [(r.partition, r.offset) for r in consumer.poll(WAIT)]
        assert sorted(got) == [(0, 1), (0, 2), (1, 2)]


def test_a_partition_with_a_position_needs_no_start_of_the_others() -> None:
    with consumer_of(filled({0: 3, 1: 3}), start={("t", 0): 2}, auto_offset_reset="none") as consumer:
        assert consumer.position(T0) == 2
        consumer.seek_to_end(T0)
        assert consumer.position(T0) == 3
        with pytest.raises(OffsetOutOfRangeError, match="t-1 has no start position"):
            consumer.position(T1)


@pytest.mark.feature(32)
@pytest.mark.story("topic-made-anew-is-read-from-the-middle")
def test_a_topic_that_was_made_anew_is_another_and_is_read_as_auto_offset_reset_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = filled({0: 10, 1: 10})
    with consumer_of(cluster, metadata_max_age=0.05) as consumer, caplog.at_level(logging.WARNING):
        assert sum(len(consumer.poll(WAIT, max_records=10)) for _ in range(2)) == 20
        cluster.drop_topic("t")
        cluster.add_topic("t", 2)
        refill(cluster, {0: 30, 1: 30})
        got: list[tuple[int, int]] = []
        for _ in range(10):
            got += [(r.partition, r.offset) for r in consumer.poll(1.0)]
            if len(got) == 60:
                break
        assert sorted(got) == [(partition, n) for partition in (0, 1) for n in range(30)]
        # The warning is logged without the lock, by the thread that saw the metadata: it may come after the records.
        wait_until(lambda: any("was deleted and recreated" in record.message for record in caplog.records))
    (words,) = [r.message for r in caplog.records if "was deleted and recreated" in r.message]
    assert "reading continues from the earliest record" in words


@pytest.mark.story("topic-made-anew-is-read-from-the-middle")
def test_without_a_reset_a_topic_that_was_made_anew_is_an_error_until_somebody_seeks() -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster, metadata_max_age=0.05, auto_offset_reset="none") as consumer:
        assert len(consumer.poll(WAIT)) == 10
        cluster.drop_topic("t")
        cluster.add_topic("t", 1)
        refill(cluster, {0: 30})
        for _ in range(2):
            with pytest.raises(OttlaError, match="was deleted and recreated") as raised:
                consumer.poll(WAIT)
            assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_ID
        consumer.seek(T0, 5)
        assert [r.offset for r in consumer.poll(WAIT)] == list(range(5, 30))


@pytest.mark.story("stop-in-a-topic-that-is-gone")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("recreated", [True, False])
def test_a_topic_that_is_gone_before_it_was_read_to_its_stop_is_an_error(
    begun: bool, recreated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "UNKNOWN_TOPIC_GRACE_S", 0.2)
    cluster = filled({0: 100}, batch_size=100)
    small: dict[str, Any] = {"prefetch": 16384, "max_partition_fetch_bytes": 200, "metadata_max_age": 0.05}
    with consumer_of(cluster, start={T0: 0}, stop="end", **small) as consumer:
        assert consumer.assignment() == {T0}
        if begun:
            assert len(consumer.poll(WAIT, max_records=5)) == 5
        cluster.drop_topic("t")
        if recreated:
            cluster.add_topic("t", 1)
            refill(cluster, {0: 10})
        for _ in range(2):
            with pytest.raises(UnknownTopicError, match="before the consumer reached its stop") as raised:
                list(consumer)
            codes = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert raised.value.code == (codes[0] if recreated else codes[1])
        if recreated:
            consumer.seek(T0, 2, stop=5)
            assert [r.offset for r in consumer] == [2, 3, 4]


@pytest.mark.parametrize(
    "failure", [Break(), Reject(ErrorCode.NOT_LEADER_OR_FOLLOWER), Reject(ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_reading_goes_on_after_what_is_retriable(failure: Any) -> None:
    cluster = filled({0: 200}, batch_size=500)
    cluster.will(FETCH, failure, failure)
    with consumer_of(cluster, stop="end", max_partition_fetch_bytes=1000) as consumer:
        assert [r.value for r in consumer] == list(range(200))


@pytest.mark.feature(45)
def test_a_broker_that_hangs_is_left_after_the_request_timeout() -> None:
    cluster = filled({0: 5})
    cluster.will(FETCH, Hang())
    with consumer_of(cluster, request_timeout=0.2) as consumer:
        assert len(consumer.poll(WAIT)) == 5, "well before the 30 s that are the default"
    assert len(cluster.requests(FetchRequest)) >= 2


@pytest.mark.feature(32)
def test_a_leader_that_moves_is_followed() -> None:
    cluster = filled({0: 10}, brokers=2)
    with consumer_of(cluster, stop=20) as consumer:
        rows = iter(consumer)
        assert [next(rows).offset for _ in range(10)] == list(range(10))
        cluster.move_leader("t", 0, broker=1, epoch=1)
        with Producer[Any, Any]("b0:1", topic="t", _transport=cluster.connect) as producer:
            for n in range(10):
                producer.send(b"%d" % n)
        assert [r.offset for r in rows] == list(range(10, 20))


def test_records_that_can_not_be_read_raise_again_and_again_until_somebody_seeks() -> None:
    cluster = filled({0: 3})
    with Producer[Any, Any]("b0:1", topic="t", _transport=cluster.connect) as producer:
        producer.send(b"bad")
        producer.send(b"4")
    with consumer_of(cluster, stop="end") as consumer:
        values: list[int] = []
        with pytest.raises(SerializationError) as caught:
            values.extend(r.value for r in consumer)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 0, 3)
        assert consumer.position(T0) == 3
        with pytest.raises(SerializationError):
            next(iter(consumer))
        consumer.seek(T0, 4)
        assert [r.value for r in consumer] == [4]


def test_records_that_can_not_be_read_may_be_skipped(caplog: pytest.LogCaptureFixture) -> None:
    cluster = filled({0: 1})
    with Producer[Any, Any]("b0:1", topic="t", _transport=cluster.connect) as producer:
        producer.send(b"bad")
        producer.send(b"2")
    for read in ("iterate", "batches"):
        with (
            caplog.at_level(logging.WARNING, "ottla.consumer"),
            consumer_of(cluster, stop="end", on_bad_record="skip") as consumer,
        ):
            rows = consumer if read == "iterate" else (r for batch in consumer.batches() for r in batch)
            assert [r.value for r in rows] == [0, 2]
    assert sum("skipped: the record at offset 1 of t-0" in r.message for r in caplog.records) == 2


def test_a_damaged_batch_raises_and_is_never_skipped() -> None:
    cluster = filled({0: 30}, batch_size=300)
    first, data = cluster.logs[T0].batches[1].first, cluster.logs[T0].batches[1].records
    damaged = data[:-1] + bytes([data[-1] ^ 1])
    cluster.logs[T0].batches[1] = cluster.logs[T0].batches[1]._replace(records=damaged)
    with consumer_of(cluster, stop="end", on_bad_record="skip") as consumer:
        seen: list[int] = []
        with pytest.raises(OttlaError) as caught:
            seen.extend(r.offset for r in consumer)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        assert seen == list(range(first))
        consumer.seek(T0, cluster.logs[T0].batches[1].next)
        assert [r.offset for r in consumer] == list(range(cluster.logs[T0].batches[1].next, 30))
    with consumer_of(cluster, stop="end") as consumer:
        assert len(consumer.poll(WAIT)) == first
        for _ in range(2):
            with pytest.raises(OttlaError, match="t-0: the CRC"):
                consumer.poll(WAIT)


def with_an_unreadable_batch() -> ScriptedCluster:
    """Five records, a batch of three that its producer wrote wrongly, and five more."""
    cluster = filled({0: 5})
    cluster.logs[T0].append(raw_batch(b"no records at all, really", 3))
    refill(cluster, {0: 5})
    return cluster


def read_all(consumer: Consumer[Any, Any], by: str) -> Iterator[int]:
    while by == "poll" and (batch := consumer.poll(WAIT)):
        yield from (record.offset for record in batch)
    if by == "batches":
        yield from (record.offset for batch in consumer.batches() for record in batch)
    if by == "iteration":
        yield from (record.offset for record in consumer)


@pytest.mark.story("unreadable-batch-stops-its-readers-for-ever")
@pytest.mark.parametrize("by", ["iteration", "batches", "poll"])
def test_a_batch_that_its_producer_wrote_wrongly_can_be_skipped(caplog: pytest.LogCaptureFixture, by: str) -> None:
    cluster = with_an_unreadable_batch()
    with (
        caplog.at_level(logging.WARNING, "ottla.consumer"),
        consumer_of(cluster, stop="end", on_bad_record="skip") as consumer,
    ):
        assert list(read_all(consumer, by)) == [*range(5), *range(8, 13)]
        assert consumer.position(T0) == 13
    [line] = [r.message for r in caplog.records if "skipped" in r.message]
    assert "t-0: the batch at offset 5 can't be read" in line


@pytest.mark.parametrize("by", ["iteration", "batches", "poll"])
def test_a_batch_that_can_not_be_read_raises_until_the_consumer_seeks_past_it(by: str) -> None:
    with consumer_of(with_an_unreadable_batch(), stop="end") as consumer:
        seen: list[int] = []
        for _ in range(2):
            with pytest.raises(UnreadableBatchError) as caught:
                seen.extend(read_all(consumer, by))
            error = caught.value
            assert (error.code, error.topic, error.partition) == (ErrorCode.INVALID_RECORD, "t", 0)
            assert (error.offset, error.next_offset, error.retriable) == (5, 8, False)
        assert seen == list(range(5))
        consumer.seek(T0, error.next_offset)
        assert list(read_all(consumer, by)) == list(range(8, 13))


def test_closing_from_another_thread_ends_the_loop() -> None:
    cluster = filled({0: 3})
    consumer = consumer_of(cluster)
    arrived = threading.Event()
    seen = []

    def read() -> None:
        for record in consumer:
            seen.append(record.offset)
            if len(seen) == 3:
                arrived.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert arrived.wait(WAIT)
    consumer.close()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert seen == [0, 1, 2]
    consumer.close()
    with pytest.raises(OttlaError, match="the consumer is closed"):
        consumer.poll()


@pytest.mark.story("closed-while-it-starts")
@pytest.mark.parametrize("group", [None, "g"])
def test_a_consumer_that_is_closed_while_it_starts_leaves_no_thread(
    group: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test, or a web server, closes what another thread has only begun to read."""
    start_at = "committed" if group else "earliest"
    consumer = consumer_of(filled({0: 3}), group=group, start=start_at, client_id="started-and-closed")
    start = ConsumerContext.start_updater

    def started_and_closed(context: ConsumerContext, *given: Any, **named: Any) -> MetadataUpdater:
        updater = start(context, *given, **named)
        closing = threading.Thread(target=consumer.close)
        closing.start()
        wait_until(lambda: consumer._fetcher.closed if group else not closing.is_alive())  # a group is left later
        return updater

    monkeypatch.setattr(ConsumerContext, "start_updater", started_and_closed)
    with contextlib.suppress(ConfigError):  # "the consumer is closed"
        assert not consumer.poll(WAIT)
    wait_until(lambda: all("started-and-closed" not in thread.name for thread in threading.enumerate()), limit_s=WAIT)


def test_partitions_that_are_added_are_read_from_their_beginning() -> None:
    cluster = filled({0: 1})
    with consumer_of(cluster, start="latest", metadata_max_age=0.05) as consumer:
        assert consumer.position(T0) == 1
        cluster.add_topic("t", 2)
        with Producer[Any, Any]("b0:1", topic="t", _transport=cluster.connect) as producer:
            producer.send(b"5", partition=1)
        (record,) = consumer.poll(WAIT)
        assert (record.partition, record.offset, record.value) == (1, 0, 5)


def test_a_topic_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.metadata_updater.UNKNOWN_TOPIC_GRACE_S", 0.05)
    cluster = ScriptedCluster({"orders": 1})
    with consumer_of(cluster, "order") as consumer, pytest.raises(UnknownTopicError, match="did you mean orders"):
        next(iter(consumer))


@pytest.mark.feature(40)
@pytest.mark.feature(41)
@pytest.mark.feature(42)
def test_fetch_limits_travel_with_the_request() -> None:
    cluster = filled({0: 1})
    limits = {"fetch_min_bytes": 7, "fetch_max_wait": 0.03, "fetch_max_bytes": "2MiB"}
    with consumer_of(cluster, stop="end", max_partition_fetch_bytes=5000, **limits) as consumer:
        list(consumer)
    request = cluster.requests(FetchRequest)[0]
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (7, 30, 2 << 20)
    assert parts_of(request)[0].partition_max_bytes == 5000


def test_a_record_shows_itself_and_its_time() -> None:
    cluster = ScriptedCluster({"t": 1})
    with Producer[Any, Any]("b0:1", topic="t", _transport=cluster.connect) as producer:
        producer.send({"a": 1}, key="k", headers=[("h", b"1"), ("h", b"2")], timestamp=1_500)
    with consumer_of(cluster, stop="end", value="auto") as consumer:
        (record,) = consumer
    assert record.datetime == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert (record.header("h"), record.header("none")) == (b"2", None)
    assert repr(record) == "Record(t-0@0, timestamp=1500, key='k', value={'a': 1})"


def add_marker(cluster: ScriptedCluster) -> None:
    """Append a control batch of one record, as a transaction coordinator does."""
    builder = new_builder(1000, pure=True)
    builder.append(0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0))
    data = builder.seal(attributes=CONTROL)
    log = cluster.logs[T0]
    first = log.end
    ((_, header),) = iter_headers(data)
    log.batches.append(ScriptedBatch(first, first + 1, 0, placed_prefix(read_header(data), first, 0) + data[16:]))
    assert header.is_control


# ---- leaders that change ---------------------------------------------------------------------------------------------


def half_read(cluster: ScriptedCluster, **arguments: Any) -> tuple[Consumer[Any, Any], list[int]]:
    """A consumer that has been handed everything there is."""
    consumer = consumer_of(cluster, **arguments)
    values: list[int] = []
    while len(values) < len(cluster.values("t", 0)):
        values += consumer.poll(WAIT).values()
    return consumer, values


@pytest.mark.rule(67)
@pytest.mark.feature(32)
def test_a_leader_change_is_not_noticed_where_nothing_was_lost(caplog: pytest.LogCaptureFixture) -> None:
    cluster = filled({0: 50}, brokers=2)
    consumer, _ = half_read(cluster)
    with consumer, caplog.at_level(logging.WARNING, "ottla.consumer"):
        cluster.move_leader("t", 0, broker=1, epoch=3)
        send(cluster, b"50", b"51")
        assert consumer.poll(WAIT, max_records=2).offsets == {T0: 52}
        (question,) = parts(cluster, OffsetForLeaderEpochRequest)
        assert (question.current_leader_epoch, question.leader_epoch) == (3, 0)
        assert consumer.metrics["truncation-total"] == 0
    assert [r.message for r in caplog.records] == []


@pytest.mark.rule(67)
@pytest.mark.feature(46)
def test_a_truncated_log_is_read_on_from_where_it_parts_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    cluster = filled({0: 50}, batch_size=200, brokers=2)
    consumer, _ = half_read(cluster)
    with consumer, caplog.at_level(logging.WARNING, "ottla.consumer"):
        end = lose_half(cluster)
        assert consumer.poll(WAIT).values() == [1000]
        assert consumer.position(T0) == end + 1
        assert consumer.metrics["truncation-total"] == 1
    (warning,) = [r.message for r in caplog.records]
    assert "t-0: the log was truncated: this consumer read up to offset 50 in leader epoch 0" in warning
    assert f"the new leader's log lacks the records from {end} on; continuing there" in warning


@pytest.mark.story("stop-behind-a-truncation")
def test_a_read_to_the_end_ends_where_the_log_was_truncated() -> None:
    cluster = filled({0: 50}, batch_size=200, brokers=2)
    small: dict[str, Any] = {"prefetch": 16384, "max_partition_fetch_bytes": 200}
    with consumer_of(cluster, start="earliest", stop="end", **small) as consumer:
        values = consumer.poll(WAIT, max_records=5).values()
        end = lose_half(cluster)
        while batch := consumer.poll(WAIT):
            values += batch.values()
        assert consumer.finished
    assert values == [*range(end)]


@pytest.mark.rule(67)
@pytest.mark.feature(46)
def test_without_a_reset_a_truncation_is_an_error_with_both_offsets() -> None:
    cluster = filled({0: 50}, batch_size=200, brokers=2)
    consumer, _ = half_read(cluster, auto_offset_reset="none")
    with consumer:
        end = lose_half(cluster)
        for _ in range(2):
            with pytest.raises(TruncationError) as caught:
                consumer.poll(WAIT)
            assert (caught.value.offset, caught.value.divergent_offset) == (50, end)
            assert f"seek to {end}" in caught.value.hint
        consumer.seek(T0, end)
        assert consumer.poll(WAIT).values() == [1000]


@pytest.mark.feature(32)
@pytest.mark.parametrize("failure", [Break(), Hang(), Reject(ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_check_that_fails_is_made_again(failure: Any) -> None:
    cluster = filled({0: 50}, brokers=2)
    consumer, _ = half_read(cluster)
    with consumer:
        cluster.will(OFFSET_FOR_LEADER_EPOCH, failure, failure)
        cluster.move_leader("t", 0, broker=1, epoch=3)
        send(cluster, b"50")
        assert consumer.poll(WAIT).values() == [50]
    assert len(cluster.requests(OffsetForLeaderEpochRequest)) == 3


def failing_once(owner: object, name: str) -> None:
    """Where another thread than the reader's calls it."""
    real, failures = getattr(owner, name), [MemoryError("no more")]

    def call(*arguments: Any, **named: Any) -> Any:
        if failures and threading.current_thread() is not threading.main_thread():
            raise failures.pop()
        return real(*arguments, **named)

    setattr(owner, name, call)


@pytest.mark.story("consumers-thread-dies-unmissed")
@pytest.mark.parametrize("where", ["an answer", "the metadata", "a check"])
def test_what_fails_on_a_thread_of_the_consumer_is_raised_once_and_reading_goes_on(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = filled({0: 50}, brokers=2)
    consumer, _ = half_read(cluster, metadata_max_age=0.05)
    with consumer:
        if where == "the metadata":
            failing_once(consumer._fetcher, "pump")
        else:
            failing_once(consumer._subscription, "on_response" if where == "an answer" else "on_checked")
        cluster.move_leader("t", 0, broker=1, epoch=3)
        send(cluster, b"50")
        values: list[int] = []
        with pytest.raises(FatalError, match="one of the consumer's threads failed") as caught:
            values += (value for _ in range(2) for value in consumer.poll(WAIT).values())
        assert isinstance(caught.value.__cause__, MemoryError)
        while not values:
            values += consumer.poll(WAIT).values()
        assert values == [50]
        send(cluster, b"51")
        assert consumer.poll(WAIT).values() == [51]
    (record,) = [r for r in caplog.records if r.message == "a consumer thread failed"]
    assert record.exc_info


@pytest.mark.feature(32)
def test_a_leader_that_hangs_is_left_when_another_one_leads() -> None:
    cluster = filled({0: 50}, brokers=2)
    consumer, _ = half_read(cluster)
    with consumer:
        cluster.stop(0)
        cluster.move_leader("t", 0, broker=1, epoch=3)
        send(cluster, b"50")
        assert consumer.poll(WAIT).values() == [50]


@pytest.mark.feature(58)
def test_the_replica_in_the_own_rack_is_read_and_the_leader_where_it_is_gone() -> None:
    cluster = filled({0: 50}, brokers=2)
    cluster.racks = {0: "north", 1: "south"}
    with consumer_of(cluster, client_rack="south") as consumer:
        assert len(consumer.poll(WAIT)) > 0
        read = [(address, body) for address, body in cluster.seen if isinstance(body, FetchRequest)]
        assert [(address, body.rack_id) for address, body in read][:2] == [("b0:1", "south"), ("b1:1", "south")]
        cluster.stop(1)
        send(cluster, b"50")
        assert consumer.poll(WAIT).values()[-1:] == [50]
        assert [address for address, body in cluster.seen if isinstance(body, FetchRequest)][-1] == "b0:1"
    with consumer_of(cluster) as consumer:
        cluster.seen.clear()
        assert len(consumer.poll(WAIT)) > 0
        assert {address for address, body in cluster.seen if isinstance(body, FetchRequest)} == {"b0:1"}


def send(cluster: ScriptedCluster, *values: bytes) -> None:
    with Producer[Any, Any]("b0:1,b1:1", topic="t", value="bytes", _transport=cluster.connect) as producer:
        for value in values:
            producer.send(value, partition=0)


def lose_half(cluster: ScriptedCluster) -> int:
    """Another broker leads, without the second half of the log, and takes a record 1000; where the logs part."""
    cluster.lose("t", 0, after=25)
    cluster.move_leader("t", 0, broker=1, epoch=2)
    end = cluster.logs[T0].end
    send(cluster, b"1000")
    return end
