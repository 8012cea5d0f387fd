"""The runs themselves, against scripted brokers: every record is counted once, as delivered, failed or lost."""

from __future__ import annotations

import time

import pytest

from ottla.bench.end_to_end import EndToEnd
from ottla.bench.measurement import Measurement, Window
from ottla.bench.throughput import RunBounds, consume, produce
from ottla.client.kafka.apis import FETCH, PRODUCE
from ottla.consumer.consumer import Consumer
from ottla.errors import ErrorCode
from ottla.fakes.scripted import Hang, Reject, ScriptedCluster
from ottla.producer.producer import Producer

QUICK = RunBounds(1_000, 20.0)


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster({"t": 3})


def producer_for(cluster: ScriptedCluster, **arguments: float) -> Producer[bytes, bytes]:
    return Producer("b0:1", topic="t", key="bytes", value="bytes", _transport=cluster.connect, **arguments)  # type: ignore[arg-type]  # settings by name


def consumer_for(cluster: ScriptedCluster, **arguments: str) -> Consumer[bytes, bytes]:
    return Consumer("t", bootstrap="b0:1", key="bytes", value="bytes", _transport=cluster.connect, **arguments)  # type: ignore[arg-type]  # settings by name


def ignore(*_: object) -> None: ...


def test_every_record_is_sent_counted_and_read_again(cluster: ScriptedCluster) -> None:
    measured = Measurement(time.monotonic(), 5.0)
    with producer_for(cluster) as producer:
        acknowledged = produce(producer, measured, QUICK, ignore, size_bytes=10, distinct_keys=50)
    assert (measured.total.sent, measured.total.publish.count, acknowledged.failed) == (1_000, 1_000, 0)
    assert measured.total.sent_bytes == 1_000 * (10 + len(b"key-00000000"))

    read = Measurement(time.monotonic(), 5.0)
    with consumer_for(cluster, start="earliest", stop="end") as consumer:
        consume(consumer, read, QUICK, ignore, existing=1_000)
    assert (read.total.received, read.total.received_bytes, read.total.backlog) == (1_000, measured.total.sent_bytes, 0)


def test_what_is_refused_counts_as_failed_with_its_reason(cluster: ScriptedCluster) -> None:
    cluster.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD))
    measured = Measurement(time.monotonic(), 5.0)
    with producer_for(cluster) as producer:
        acknowledged = produce(producer, measured, RunBounds(10, 20.0), ignore, size_bytes=10)
    assert (measured.total.sent, measured.total.failed, acknowledged.failed) == (0, 10, 10)
    assert acknowledged.first_error is not None
    assert acknowledged.first_error.code == ErrorCode.INVALID_RECORD


def test_a_rate_is_kept_and_the_time_bounds_the_run(cluster: ScriptedCluster) -> None:
    windows: list[Window] = []
    measured = Measurement(time.monotonic(), 0.1)
    with producer_for(cluster) as producer:
        produce(producer, measured, RunBounds(1_000_000, 0.5), windows.append, size_bytes=10, rate=200.0)
    assert 50 <= measured.total.sent <= 101
    assert measured.total.delay.count == measured.total.sent
    assert windows
    assert sum(window.sent for window in windows) <= measured.total.sent


def test_reading_stops_at_the_number_that_was_asked_for(cluster: ScriptedCluster) -> None:
    with producer_for(cluster) as producer:
        produce(producer, Measurement(0.0, 5.0), QUICK, ignore, size_bytes=1)
    read = Measurement(time.monotonic(), 5.0)
    with consumer_for(cluster, start="earliest", stop="end") as consumer:
        consume(consumer, read, RunBounds(300, 20.0), ignore, existing=1_000)
    assert (read.total.received, read.total.backlog) == (300, 700)


def test_records_come_back_once_each_and_those_of_others_do_not_count(cluster: ScriptedCluster) -> None:
    measured = Measurement(time.monotonic(), 5.0)
    seen: list[int] = []
    with producer_for(cluster, linger=0.0) as producer, consumer_for(cluster, start="latest") as consumer:
        run = EndToEnd(producer, consumer, measured, RunBounds(50, 20.0), size_bytes=10, rate=1_000.0)

        def on_record(number: int, latency_us: int) -> None:
            seen.append(number)
            for other in range(number, number + 4):
                producer.send(b"of another run", headers=[("ottla-bench", b"another!" + other.to_bytes(8, "big"))])

        missing = run.run(on_record, patience_s=10.0)
    assert (missing, sorted(seen)) == (0, list(range(50)))
    assert (measured.total.received, measured.total.sent) == (50, 50)
    assert (measured.total.end_to_end.count, measured.total.received_bytes) == (50, 50 * 10)
    assert measured.total.end_to_end.max_us > 0


def test_what_does_not_come_back_is_missed(cluster: ScriptedCluster) -> None:
    cluster.will(FETCH, *[Hang()] * 20)
    with producer_for(cluster, linger=0.0) as producer, consumer_for(cluster, start="latest") as consumer:
        run = EndToEnd(producer, consumer, Measurement(0.0, 5.0), RunBounds(5, 20.0), size_bytes=10, rate=1_000.0)
        assert run.run(ignore, patience_s=0.2) == 5
    assert run.acknowledged.failed == 0
