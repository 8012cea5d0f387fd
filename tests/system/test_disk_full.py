"""A broker whose disk is full: it refuses in words, stays up, loses nothing, and goes on when there is room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_disks import MEGABYTE, fill, on_small_disk, small_disk
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster
from ottla_core.errors import ErrorCode, OttlaError
from ottla_stack.running import RunningStack


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """The data directory of broker 0."""
    with small_disk(tmp_path / "stack" / "broker-0") as directory:
        yield directory


def test_a_full_disk_refuses_in_words_and_goes_on_when_there_is_room(disk: Path) -> None:
    with RunningStack(disk.parent, brokers=1, group_coordinators=0) as stack:
        ottla.Admin(stack.bootstrap).topics.create("t")
        pid = stack.pid("broker-0")
        with ottla.Producer(stack.bootstrap, topic="t", value="bytes", acks="all") as steady:
            kept = [steady.send(b"%d" % n).result(timeout=LIMIT_S).offset for n in range(100)]
            filler = fill(disk)
            impatient = ottla.Producer(
                stack.bootstrap, topic="t", value="bytes", linger=0, delivery_timeout=5, request_timeout=4
            )
            with pytest.raises(OttlaError) as refused:
                impatient.send(bytes(MEGABYTE // 2)).result(timeout=LIMIT_S)
            assert ErrorCode.KAFKA_STORAGE_ERROR.name in str(refused.value) or "room" in str(refused.value)
            assert "Traceback" not in str(refused.value)
            impatient.close(timeout=5)

            waiting = steady.send(b"100")
            filler.unlink()
            kept.append(waiting.result(timeout=LIMIT_S).offset)
            kept.append(steady.send(b"101").result(timeout=LIMIT_S).offset)
        assert stack.pid("broker-0") == pid, "it stayed up"
        stack.restart("broker-0")
        with ottla.Consumer("t", bootstrap=stack.bootstrap, start="earliest", stop="end", value="bytes") as consumer:
            found = {record.offset: record.value for record in consumer}
        assert [found[offset] for offset in kept] == [b"%d" % n for n in range(102)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three brokers, the first of them on a small disk."""
    with on_small_disk(Cluster(brokers=3, group_coordinators=0)) as running:
        yield running


def partition(cluster: Cluster, topic: str) -> ottla.PartitionInfo:
    with ottla.Admin(cluster.bootstrap) as admin:
        return admin.topics.describe(topic)[0].partitions[0]


def test_a_full_disk_leads_nothing_that_others_can_serves_readers_and_comes_back_by_itself(cluster: Cluster) -> None:
    replicas = {"led": [0, 1, 2], "next": [1, 0, 2], "alone": [0]}
    with ottla.Admin(cluster.bootstrap) as admin:
        for topic, brokers in replicas.items():
            min_isr = min(2, len(brokers))
            admin.topics.create(topic, assignments={0: brokers}, config={"min.insync.replicas": min_isr})
    for topic in replicas:
        cluster.produce(topic, [b"before"] * 10, value="bytes")
    filler = fill(cluster.brokers[0].data_dir)
    wait_until(lambda: partition(cluster, "led").leader == 1)
    assert set(partition(cluster, "next").isr) == {0, 1, 2}, "it has all that there is"
    cluster.produce("led", [b"full"] * 10, value="bytes", request_timeout=5, delivery_timeout=60)
    assert set(partition(cluster, "led").isr) == {1, 2}, "nobody waits for a replica that can't append"

    cluster.brokers[1].kill()
    wait_until(lambda: partition(cluster, "next").leader == 2)
    assert cluster.read("alone", value="bytes")[-1].value == b"before"
    with pytest.raises(OttlaError):
        cluster.produce("alone", [b"no"], value="bytes", delivery_timeout=1.5, request_timeout=1)
    cluster.brokers[1].restart()

    filler.unlink()
    cluster.produce("alone", [b"after"], value="bytes", request_timeout=5, delivery_timeout=60)
    wait_until(lambda: set(partition(cluster, "led").isr) == {0, 1, 2})
    assert [r.value for r in cluster.read("led", value="bytes")] == [b"before"] * 10 + [b"full"] * 10
    assert [r.value for r in cluster.read("alone", value="bytes")] == [b"before"] * 10 + [b"after"]


def test_a_commit_into_a_full_disk_says_why_it_failed() -> None:
    with on_small_disk(Cluster(brokers=1)) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("t")
        cluster.produce("t", [b"before"], value="bytes")
        with ottla.Consumer("t", bootstrap=cluster.bootstrap, group="g", auto_offset_reset="earliest") as consumer:
            consumer.poll(LIMIT_S)
            consumer.commit()
            filler = fill(cluster.brokers[0].data_dir)
            with pytest.raises(OttlaError):
                cluster.produce("t", [bytes(MEGABYTE // 2)], value="bytes", delivery_timeout=1.5, request_timeout=1)
            with pytest.raises(ottla.TimeoutError, match=r"not committed within 30 s; .*; free space on the disk"):
                consumer.commit({("t", 0): 0}, timeout=30)
            filler.unlink()
            consumer.commit({("t", 0): 1})
            committed = consumer.committed()["t", 0]
            assert committed is not None
            assert committed.offset == 1
