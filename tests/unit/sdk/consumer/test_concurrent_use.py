"""One consumer, one thread: who else comes is told so at once. Any thread may wake it up, close it and read metrics."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from waiting import wait_until

import ottla.aio
from ottla.client.kafka.apis import FETCH
from ottla.consumer.consumer import Consumer
from ottla.consumer.metrics import METRICS
from ottla.errors import ConcurrentUseError, ErrorCode, OffsetOutOfRangeError, OttlaError, WakeupError
from ottla.fakes.scripted import Hang, Hold, Reject, ScriptedCluster
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import MetadataRequest
from ottla_core.model import TopicPartition

WAIT = 10.0
AT_ONCE = WAIT / 2
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def filled(count: int, *, batch_size: int = 1000, partitions: int = 1) -> ScriptedCluster:
    cluster = ScriptedCluster({"t": partitions})
    with Producer[Any, Any]("b0:1", topic="t", batch_size=batch_size, _transport=cluster.connect) as producer:
        for n in range(count):
            producer.send(b"%d" % n, partition=0)
    cluster.seen.clear()
    return cluster


def consumer_of(cluster: ScriptedCluster, **arguments: Any) -> Consumer[Any, Any]:
    defaults = {"bootstrap": "b0:1", "start": "earliest", "fetch_max_wait": 0.05, "value": "bytes"}
    return Consumer("t", **{**defaults, "_transport": cluster.connect, **arguments})


class Other(threading.Thread):
    """Another thread that calls once; `outcome` is what came of it."""

    def __init__(self, call: Callable[[], Any], name: str = "other") -> None:
        super().__init__(name=name, daemon=True)
        self._call = call
        self.start()

    def run(self) -> None:
        try:
            self.outcome: Any = self._call()
        except OttlaError as error:
            self.outcome = error

    def result(self) -> Any:
        self.join(WAIT)
        assert not self.is_alive()
        return self.outcome


@contextmanager
def blocked_in(consumer: Consumer[Any, Any], call: Callable[[], Any]) -> Iterator[Other]:
    """Another thread inside of `call`, waiting for records that don't come."""
    before = consumer.metrics["fetch-total"]
    other = Other(call, "reader")
    wait_until(lambda: consumer.metrics["fetch-total"] > before)
    yield other
    consumer.close()
    other.join(WAIT)


@pytest.mark.feature(39)
@pytest.mark.parametrize(
    "read",
    [lambda c: c.poll(WAIT), lambda c: next(iter(c)), lambda c: next(c.batches())],
    ids=["poll", "for", "batches"],
)
def test_whoever_waits_for_records_is_woken_at_once_and_can_go_on(read: Any) -> None:
    cluster = filled(0)
    consumer = consumer_of(cluster)
    cluster.will(FETCH, None, Hold())  # the second fetch brings no news by which the reader would wake up
    with blocked_in(consumer, lambda: read(consumer)) as reader:
        began = time.monotonic()
        consumer.wakeup()
        assert isinstance(reader.result(), WakeupError)
        assert time.monotonic() - began < AT_ONCE
        cluster.release()
        assert str(reader.result()) == "the consumer was woken up; keep reading, or close the consumer"
        with Producer[Any, Any]("b0:1", topic="t", _transport=cluster.connect) as producer:
            producer.send(b"later")
        assert consumer.poll(WAIT).values() == [b"later"]


@pytest.mark.feature(39)
def test_a_wake_up_that_meets_nobody_is_for_the_next_and_loses_nothing() -> None:
    with consumer_of(filled(30, batch_size=300)) as consumer:
        assert consumer.poll(WAIT, max_records=3).offsets == {T0: 3}
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(WAIT)
        assert [r.offset for r in consumer.poll(WAIT, max_records=2)] == [3, 4]
        gathering = consumer.batches(1000, max_wait=WAIT)
        threading.Timer(0.05, consumer.wakeup).start()
        assert next(gathering).first_offsets == {T0: 5}  # what was gathered comes first
        with pytest.raises(WakeupError):
            consumer.poll(WAIT)


@pytest.mark.feature(39)
def test_whoever_waits_for_a_topic_is_woken_or_sent_home() -> None:
    cluster = ScriptedCluster({"u": 1})
    consumer = consumer_of(cluster)
    reader = Other(lambda: next(iter(consumer)))
    asked = cluster.requests(MetadataRequest)
    wait_until(lambda: len(cluster.requests(MetadataRequest)) > len(asked))
    consumer.wakeup()
    assert isinstance(reader.result(), WakeupError)
    reader = Other(lambda: list(consumer))
    asked = cluster.requests(MetadataRequest)
    wait_until(lambda: len(cluster.requests(MetadataRequest)) > len(asked))
    consumer.close()
    assert reader.result() == []


@pytest.mark.feature(38)
@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.poll(0),
        lambda c: next(iter(c)),
        lambda c: next(c.batches()),
        lambda c: c.position(T0),
        lambda c: c.seek(T0, 0),
        lambda c: c.seek_to_beginning(),
        lambda c: c.pause(),
        lambda c: c.assignment(),
        lambda c: c.lag(),
    ],
)
def test_a_second_thread_is_told_so_at_once(call: Any) -> None:
    consumer = consumer_of(filled(0))
    with blocked_in(consumer, lambda: consumer.poll(WAIT)):
        began = time.monotonic()
        with pytest.raises(
            ConcurrentUseError, match="the thread reader uses this consumer while the thread MainThread calls it"
        ):
            call(consumer)
        assert time.monotonic() - began < AT_ONCE
        assert not consumer.finished


@pytest.mark.feature(38)
def test_a_loop_is_its_threads_own_until_it_is_left() -> None:
    with consumer_of(filled(30, batch_size=300)) as consumer:
        for record in consumer:
            assert record.offset == 0
            assert consumer.position(T0) == 1
            refused = Other(lambda: consumer.poll(0)).result()
            assert isinstance(refused, ConcurrentUseError)
            assert (
                refused.message == "the thread MainThread iterates over this consumer while the thread other calls it"
            )
            break
        batch = Other(lambda: consumer.poll(WAIT, max_records=2)).result()
        assert [r.offset for r in batch] == [1, 2]
        rows = iter(consumer)
        taken = [Other(lambda: next(rows).offset).result() for _ in range(27)]  # handed on, one at a time
        assert taken == list(range(3, 30))


def test_what_was_gathered_comes_before_the_error_of_another_partition() -> None:
    cluster = filled(5, partitions=2)
    cluster.logs[T1].start = 7
    with consumer_of(cluster, start={T0: 0, T1: 0}, auto_offset_reset="none") as consumer:
        cluster.will(FETCH, Hold())
        threading.Timer(0.05, cluster.release).start()
        errors = 0
        seen: list[Any] = []
        while len(seen) < 5 or not errors:
            try:
                seen += [r.offset for r in next(consumer.batches(1000, max_wait=0.2))]
            except OffsetOutOfRangeError:
                errors += 1
        assert seen == list(range(5))


def test_metrics_say_how_much_was_read_and_how_far_behind_it_is() -> None:
    cluster = filled(100, batch_size=300)
    size = sum(len(batch.records) for batch in cluster.logs[T0].batches)
    with consumer_of(cluster) as consumer:
        assert set(consumer.metrics) == set(METRICS)
        assert (consumer.metrics["records-lag-max"], consumer.metrics["records-consumed-total"]) == (-1, 0)
        assert len(consumer.poll(WAIT, max_records=10)) == 10
        assert consumer.metrics["records-consumed-total"] == 10
        assert (consumer.metrics["records-lag-max"], consumer.lag()) == (90, {T0: 90})
        assert [record.offset for _, record in zip(range(90), consumer, strict=False)][-1] == 99
        assert consumer.metrics["bytes-consumed-total"] == size
        assert consumer.metrics["records-lag-max"] == 0
        assert consumer.poll(0).values() == []
        assert consumer.metrics["records-consumed-total"] == 100
        assert 0 < consumer.metrics["fetch-latency-avg"] <= consumer.metrics["fetch-latency-max"] < WAIT * 1000
    for stop, count in (("end", 100), (37, 37)):
        with consumer_of(cluster, stop=stop) as consumer:
            assert len(list(consumer)) == count
            assert consumer.metrics["records-consumed-total"] == count


def test_metrics_of_a_broker_that_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    cluster = filled(1)
    cluster.will(FETCH, Hang())
    with consumer_of(cluster, request_timeout=0.05) as consumer:
        assert consumer.poll(0.1).values() == []
        assert consumer.metrics["fetch-total"] == 0
    cluster.will(FETCH, Reject(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with consumer_of(cluster) as consumer:
        assert consumer.poll(WAIT).values() == [b"0"]
        assert consumer.metrics["fetch-total"] >= 2


async def test_a_task_is_woken_too() -> None:
    cluster = filled(3)
    arguments: dict[str, Any] = {"bootstrap": "b0:1", "start": "earliest", "_transport": cluster.connect}
    async with ottla.aio.Consumer("t", **arguments) as consumer:
        assert len(await consumer.poll(WAIT, max_records=2)) == 2
        assert (await consumer.lag(), consumer.metrics["records-consumed-total"]) == ({T0: 1}, 2)
        await consumer.poll(WAIT)
        waiting = asyncio.create_task(consumer.poll(WAIT))
        await asyncio.sleep(0)
        await asyncio.to_thread(consumer.wakeup)
        with pytest.raises(WakeupError):
            await waiting
