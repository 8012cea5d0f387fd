"""Three brokers, one partition: what is acknowledged is on all of them, and stays whoever dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster
from ottla_core.errors import ErrorCode, OttlaError


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, racks=("a", "b", "c")) as cluster:
        yield cluster


def create(cluster: Cluster, *, partitions: int = 1, min_isr: int = 2) -> None:
    config = {"min.insync.replicas": min_isr}
    ottla.Admin(cluster.bootstrap).topics.create("t", partitions=partitions, replicas=3, config=config)


def described(cluster: Cluster, partition: int = 0) -> ottla.PartitionInfo:
    return ottla.Admin(cluster.bootstrap).topics.describe("t")[0].partitions[partition]


def isr_is(cluster: Cluster, *isr: int) -> bool:
    return set(described(cluster).isr) == set(isr)


def logs(cluster: Cluster) -> list[dict[str, bytes]]:
    """Every broker's log files, by partition and name."""
    return [
        {f"{path.parent.name}/{path.name}": path.read_bytes() for path in sorted(broker.data_dir.glob("*/*.log"))}
        for broker in cluster.brokers
    ]


def have_equal_logs(cluster: Cluster) -> bool:
    first, *others = logs(cluster)
    return all(other == first for other in others)


def values(cluster: Cluster) -> list[int]:
    return [record.value for record in cluster.read("t", value="int")]


@pytest.mark.rule(1)
@pytest.mark.feature(111)
def test_every_replica_has_the_same_bytes(cluster: Cluster) -> None:
    create(cluster, partitions=4)
    cluster.produce("t", range(2000), value="int")
    assert sorted(values(cluster)) == list(range(2000))
    wait_until(lambda: have_equal_logs(cluster))
    assert sum(map(len, logs(cluster)[0].values())) > 2000


@pytest.mark.feature(32, 120, 180)
def test_a_leader_that_is_killed_costs_no_record_and_no_error(cluster: Cluster) -> None:
    create(cluster)
    with ottla.Producer(cluster.bootstrap, topic="t", value="int") as producer:
        for round_number in range(3):
            leader = described(cluster).leader
            deliveries = [producer.send(n) for n in range(round_number * 100, round_number * 100 + 50)]
            cluster.brokers[leader].kill()
            deliveries += [producer.send(n) for n in range(round_number * 100 + 50, round_number * 100 + 100)]
            for delivery in deliveries:
                delivery.result(timeout=LIMIT_S)
            cluster.brokers[leader].restart()
            wait_until(lambda: isr_is(cluster, 0, 1, 2))
    assert values(cluster) == list(range(300)), "none lost, none repeated, none out of order"
    wait_until(lambda: have_equal_logs(cluster))


@pytest.mark.feature(120)
def test_a_leader_that_stops_in_order_hands_over_first(cluster: Cluster) -> None:
    create(cluster)
    before = described(cluster)
    with ottla.Producer(cluster.bootstrap, topic="t", value="int") as producer:
        producer.send(0).result(timeout=LIMIT_S)
        cluster.brokers[before.leader].stop()
        after = described(cluster)
        assert after.leader in before.isr
        assert after.leader != before.leader
        producer.send(1).result(timeout=LIMIT_S)
    assert values(cluster) == [0, 1]


@pytest.mark.rule(9)
@pytest.mark.feature(108, 125)
def test_below_min_insync_replicas_acks_all_waits_and_goes_on(cluster: Cluster) -> None:
    create(cluster)
    leader = described(cluster).leader
    for broker in cluster.brokers:
        if broker.id != leader:
            broker.kill()
    wait_until(lambda: isr_is(cluster, leader))
    with ottla.Producer(
        cluster.bootstrap, topic="t", value="int", delivery_timeout=1, request_timeout=0.5, linger=0
    ) as producer:
        with pytest.raises(OttlaError) as refused:
            producer.send(1).result(timeout=LIMIT_S)
        assert refused.value.code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT)
    with ottla.Producer(cluster.bootstrap, topic="t", value="int") as producer:
        waiting = producer.send(2)
        cluster.brokers[(leader + 1) % 3].restart()
        waiting.result(timeout=LIMIT_S)
    assert values(cluster) == [2]


@pytest.mark.rule(8, 14)
@pytest.mark.feature(106)
def test_a_follower_that_stops_to_fetch_leaves_the_isr_by_time_and_comes_back(cluster: Cluster) -> None:
    ottla.Admin(cluster.bootstrap).configs.set({"replica.lag.time.max.ms": 500})
    create(cluster)
    partition = described(cluster)
    follower = next(r for r in partition.replicas if r != partition.leader)
    silent = cluster.faults.drop("ReplicaFetch").of(f"replica-{follower}")
    with ottla.Producer(cluster.bootstrap, topic="t", value="int") as producer:
        producer.send(1).result(timeout=LIMIT_S)
    wait_until(lambda: follower not in described(cluster).isr)
    cluster.faults.clear()
    assert silent.met > 0
    wait_until(lambda: follower in described(cluster).isr)


@pytest.mark.rule(17)
@pytest.mark.feature(58)
def test_a_consumer_reads_from_the_replica_in_its_rack(cluster: Cluster) -> None:
    create(cluster)
    cluster.produce("t", range(100), value="int")
    partition = described(cluster)
    follower = next(r for r in partition.replicas if r != partition.leader)
    rack = "abc"[follower]
    served = cluster.faults.delay("Fetch", 0, broker=follower).of("reader")
    assert [r.value for r in cluster.read("t", value="int", client_rack=rack, client_id="reader")] == list(range(100))
    assert served.met > 0


@pytest.mark.feature(90)
def test_a_broker_that_may_have_lost_a_tail_is_in_no_isr_before_it_serves(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster)
    cluster.produce("t", range(10), value="int")
    leader = cluster.brokers[described(cluster).leader]
    wait_until(lambda: have_equal_logs(cluster))
    leader.kill()
    lose_tail(leader.data_dir)
    leader.restart()
    wait_until(lambda: isr_is(cluster, 0, 1, 2))
    assert described(cluster).leader != leader.id
    assert values(cluster) == list(range(10))
    wait_until(lambda: have_equal_logs(cluster))


def lose_tail(data_dir: Path) -> None:
    """As a power cut would: another boot, and less in the log than was acknowledged."""
    for log in data_dir.glob("*/*.log"):
        log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    (data_dir / "boot-id").write_text("another boot\n")
