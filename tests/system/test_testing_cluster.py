"""`ottla.testing.Cluster` and what a test can do to it: faults by plan, kills, pauses, a clock that moves."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from waiting import LIMIT_S, until, wait_until

import ottla
from ottla.testing import Cluster
from ottla_broker.membership.registration import Registration
from ottla_core.errors import ErrorCode, OttlaError
from ottla_stack import cluster as cluster_module


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


def values(cluster: Cluster, topic: str = "t") -> list[int]:
    consumer = ottla.Consumer(topic, bootstrap=cluster.bootstrap, start="earliest", stop="end", value="int")
    with consumer:
        return [record.value for record in consumer]


def test_the_readme_snippet_works_as_written() -> None:
    with Cluster() as c:
        ottla.Admin(c.bootstrap).topics.create("t", partitions=3)
        with ottla.Producer(c.bootstrap, topic="t") as p:
            for i in range(10_000):
                p.send({"i": i}, key=str(i % 7))
        rows = [r.value["i"] for r in ottla.Consumer("t", bootstrap=c.bootstrap, start="earliest", stop="end")]
    assert sorted(rows) == list(range(10_000))


def test_the_brokers_of_a_cluster_are_stopped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one's stop waits until all of them have begun theirs."""
    met: list[Registration] = []
    together: list[Registration] = []
    stop = Registration.stop

    async def stop_with_the_others(self: Registration) -> None:
        met.append(self)
        await until(lambda: len(met) == 3)
        together.append(self)
        await stop(self)

    monkeypatch.setattr(Registration, "stop", stop_with_the_others)
    with Cluster(brokers=3) as cluster:
        folder = Path(cluster._folder.name)
    assert (len(together), folder.exists(), cluster._thread.is_alive()) == (3, False, False)


@pytest.mark.parametrize("how", ["raises", "hangs", "writes"])
def test_nothing_is_left_of_a_cluster_when_one_of_its_brokers_does_not_stop(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "_STEP_LIMIT_S", 5.0)
    cluster = Cluster(brokers=2).start()
    folder = Path(cluster._folder.name)
    cleanup = cluster._folder.cleanup

    def clean_up_beside_a_writer() -> None:
        """As where a thread of a broker that was cut off creates a file between the last look and the removal."""
        monkeypatch.setattr(cluster._folder, "cleanup", cleanup)
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    if how == "writes":
        monkeypatch.setattr(cluster._folder, "cleanup", clean_up_beside_a_writer)
    stop = cluster.brokers[0].stop_app

    async def stop_badly() -> None:
        await stop()
        if how == "hangs":
            await asyncio.Event().wait()
        raise OSError("the disk is gone")

    monkeypatch.setattr(cluster.brokers[0], "stop_app", stop_badly)
    with pytest.raises(TimeoutError) if how == "hangs" else pytest.raises(OSError, match="the disk is gone"):
        cluster.stop()
    assert not cluster.brokers[1].running
    assert cluster._controller is not None
    assert not cluster._controller._started, "the controller's parts are stopped too"
    assert (folder.exists(), cluster._thread.is_alive(), cluster._loop.is_closed()) == (False, False, True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stop_that_leaves_a_listener_open_fails_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_STEP_LIMIT_S", 0.5)
    cluster = Cluster().start()

    async def stop_nothing() -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(cluster.brokers[0], "stop_app", stop_nothing)
    with pytest.raises(OSError, match="the disk is gone"):
        cluster.stop()
    assert not cluster._thread.is_alive()


def test_errors_by_plan_are_met_as_often_as_planned_and_survived(cluster: Cluster) -> None:
    ottla.Admin(cluster.bootstrap).topics.create("t")
    refused = cluster.faults.error("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER).times(3)
    with ottla.Producer(cluster.bootstrap, topic="t", value="int") as producer:
        assert producer.send(1).result(timeout=LIMIT_S).offset == 0
        assert refused.met == 3
        fatal = cluster.faults.error("Produce", ErrorCode.INVALID_RECORD).once()
        with pytest.raises(OttlaError) as raised:
            producer.send(2).result(timeout=LIMIT_S)
        assert (raised.value.code, fatal.met) == (ErrorCode.INVALID_RECORD, 1)
        assert producer.send(3).result(timeout=LIMIT_S).offset == 1
    assert values(cluster) == [1, 3]


@pytest.mark.rule(25, 66)
@pytest.mark.parametrize(("idempotent", "expected"), [(True, [1, 2]), (False, [1, 2, 2])])
def test_a_dropped_call_is_sent_again_and_only_idempotence_keeps_a_lost_response_from_repeating(
    cluster: Cluster, idempotent: bool, expected: list[int]
) -> None:
    ottla.Admin(cluster.bootstrap).topics.create("t")
    with ottla.Producer(cluster.bootstrap, topic="t", value="int", enable_idempotence=idempotent) as producer:
        cluster.faults.drop("Produce").once()
        producer.send(1).result(timeout=LIMIT_S)
        cluster.faults.lose_response("Produce").once()
        assert producer.send(2).result(timeout=LIMIT_S).offset == len(expected) - 1
    assert values(cluster) == expected


def test_a_delay_and_a_pause_are_waited_out(cluster: Cluster) -> None:
    ottla.Admin(cluster.bootstrap).topics.create("t", partitions=2)
    slow = cluster.faults.delay("Fetch", 0.2).once()
    with ottla.Producer(cluster.bootstrap, topic="t", value="int") as producer:
        producer.send(2).result(timeout=LIMIT_S)
        for broker in cluster.brokers:
            broker.pause()
        waiting = [producer.send(n, partition=n) for n in (0, 1)]
        assert not any(delivery.done() for delivery in waiting)
        for broker in cluster.brokers:
            broker.resume()
        for delivery in waiting:
            delivery.result(timeout=LIMIT_S)
    assert sorted(values(cluster)) == [0, 1, 2]
    assert slow.met == 1


def test_a_killed_broker_comes_back_with_what_it_acknowledged(cluster: Cluster) -> None:
    ottla.Admin(cluster.bootstrap).topics.create("t", partitions=2)
    with ottla.Producer(cluster.bootstrap, topic="t", value="int") as producer:
        for n in range(100):
            producer.send(n, partition=n % 2).result(timeout=LIMIT_S)
        for broker in cluster.brokers:
            address = broker.address
            broker.kill()
            assert not broker.running
            broker.restart()
            assert broker.address == address
        producer.send(100, partition=0).result(timeout=LIMIT_S)
    assert sorted(values(cluster)) == list(range(101))


@pytest.mark.feature(86, 87)
@pytest.mark.rule(63)
def test_a_clock_that_is_moved_lets_retention_delete(cluster: Cluster) -> None:
    admin = ottla.Admin(cluster.bootstrap)
    admin.topics.create("t", config={"retention.ms": "86400000", "segment.bytes": "1000"})
    with ottla.Producer(cluster.bootstrap, topic="t", value="int") as producer:
        for n in range(50):
            producer.send(n).result(timeout=LIMIT_S)
    assert len(values(cluster)) == 50
    cluster.clock.move(timedelta(days=2))
    wait_until(lambda: values(cluster) == [])


def test_a_frozen_clock_stands_still(cluster: Cluster) -> None:
    ottla.Admin(cluster.bootstrap).topics.create("t", config={"message.timestamp.type": "LogAppendTime"})
    cluster.clock.freeze()
    with ottla.Producer(cluster.bootstrap, topic="t", value="int") as producer:
        stamps = [producer.send(n).result(timeout=LIMIT_S).timestamp for n in range(3)]
        cluster.clock.move(5.0)
        stamps.append(producer.send(3).result(timeout=LIMIT_S).timestamp)
        cluster.clock.unfreeze()
        wait_until(lambda: producer.send(4).result(timeout=LIMIT_S).timestamp > stamps[-1])
    assert stamps == [stamps[0]] * 3 + [stamps[0] + 5000]


def test_a_fault_for_no_method_is_refused_by_name(cluster: Cluster) -> None:
    with pytest.raises(
        ValueError,
        match="no contract has a method 'Prodcue'; the methods are AddOffsets, AddOffsetsToTxn, AddPartitions",
    ):
        cluster.faults.delay("Prodcue", 1)
