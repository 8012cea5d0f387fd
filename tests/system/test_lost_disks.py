"""A machine that comes back with less than it had: nothing that was acknowledged is lost while others have it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from three_brokers import three_brokers
from waiting import wait_until

import ottla
from ottla.admin.topics import PartitionInfo
from ottla.testing import Cluster
from ottla_core.errors import ErrorCode, OttlaError
from ottla_stack.cluster import RunningBroker

MANY = [f"v{n}" for n in range(500)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with three_brokers() as running:
        yield running


def seen_by(broker: RunningBroker) -> PartitionInfo:
    with ottla.Admin(broker.kafka_address) as admin:
        return admin.topics.describe("t")[0].partitions[0]


def led_by_others(cluster: Cluster, witness: RunningBroker) -> None:
    wait_until(lambda: seen_by(witness).leader not in (-1, *seen_by(witness).offline))


def restart_with_an_empty_disk(broker: RunningBroker) -> None:
    """Killed, emptied, started under its own id: which another directory may have once the old registration lapsed."""
    broker.kill()
    shutil.rmtree(broker.data_dir)
    wait_until(lambda: came_up(broker))


def came_up(broker: RunningBroker) -> bool:
    try:
        broker.restart()
    except OttlaError as error:
        if error.code != ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            raise
        return False
    return True


@pytest.mark.rule(8, 14, 21)
def test_the_last_one_in_sync_that_lost_its_disk_takes_nothing_from_the_others(cluster: Cluster) -> None:
    cluster.produce("t", MANY, acks="all")
    last = cluster.brokers[seen_by(cluster.brokers[0]).leader]
    others = [b for b in cluster.brokers if b is not last]
    for broker in others:
        broker.stop()
    wait_until(lambda: seen_by(last).isr == (last.id,))
    assert len(seen_by(last).elr) == 1, "the second left when nothing more could be committed"
    restart_with_an_empty_disk(last)  # before anybody else is back
    wait_until(lambda: seen_by(last).leader == -1)
    assert seen_by(last).last_known_elr == (last.id,)
    for broker in others:
        broker.restart()
    led_by_others(cluster, others[0])
    wait_until(lambda: len(seen_by(others[0]).isr) == 3)
    assert seen_by(others[0]).leader != last.id
    assert [r.value for r in cluster.read("t")] == MANY


@pytest.mark.rule(21)
def test_an_old_copy_of_a_volume_does_not_lead_though_it_was_closed_in_order(cluster: Cluster) -> None:
    cluster.produce("t", MANY[:100], acks="all")
    victim = cluster.brokers[seen_by(cluster.brokers[0]).leader]
    victim.stop()
    saved = victim.data_dir.with_name("saved")
    shutil.copytree(victim.data_dir, saved)
    victim.restart()
    wait_until(lambda: len(seen_by(victim).isr) == 3)
    cluster.produce("t", MANY[100:], acks="all")
    for broker in cluster.brokers:
        broker.kill()
    shutil.rmtree(victim.data_dir)
    saved.rename(victim.data_dir)
    victim.restart()
    wait_until(lambda: (seen_by(victim).leader, seen_by(victim).isr) == (-1, ()))
    assert seen_by(victim).elr, "who was there at the last commit can lead"
    assert victim.id not in seen_by(victim).elr
    for broker in cluster.brokers:
        if broker is not victim:
            broker.restart()
    led_by_others(cluster, victim)
    wait_until(lambda: len(seen_by(victim).isr) == 3)
    assert [r.value for r in cluster.read("t")] == MANY


@pytest.mark.rule(21)
def test_a_cluster_that_lost_power_comes_back_by_itself(cluster: Cluster) -> None:
    """All machines went down: nobody can prove anything, and all are back with the disks they had."""
    cluster.produce("t", MANY, acks="all")
    for broker in cluster.brokers:
        broker.kill()
    for broker in cluster.brokers:
        lines = (broker.data_dir / "boot-id").read_text().splitlines()
        (broker.data_dir / "boot-id").write_text("\n".join(["another boot", *lines[1:]]) + "\n")
        broker.restart()
    led_by_others(cluster, cluster.brokers[0])
    wait_until(lambda: len(seen_by(cluster.brokers[0]).isr) == 3)
    assert [r.value for r in cluster.read("t")] == MANY
