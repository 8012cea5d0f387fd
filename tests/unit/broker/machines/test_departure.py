"""What still ties a broker to its partitions: before it goes, and before it is trusted again."""

from __future__ import annotations

import pytest

from ottla_broker.machines.departure import is_relied_upon, leads_transferable
from ottla_core.cluster.image import Broker, ClusterImage, Partition
from ottla_core.model import NO_LEADER, PartitionId, TopicId


def image_of(partition: Partition, *brokers: Broker) -> ClusterImage:
    partitions = {PartitionId(TopicId(b"t" * 16), 0): partition}
    return ClusterImage("c", brokers={b.id: b for b in brokers}, partitions=partitions)


def broker(broker_id: int, *, fenced: bool = False, shutting_down: bool = False) -> Broker:
    return Broker(broker_id, 10, "d", "host:1", fenced=fenced, shutting_down=shutting_down)


def led(*isr: int, leader: int = 1, elr: tuple[int, ...] = ()) -> Partition:
    return Partition(replicas=(1, 2, 3), leader=leader, isr=isr, elr=elr)


@pytest.mark.parametrize(
    ("partition", "other", "expected"),
    [
        (led(1, 2), broker(2), True),
        (led(1, 2, leader=2), broker(2), False),
        (led(1), broker(2), False),
        (led(1, 2), broker(2, fenced=True), False),
        (led(1, 2), broker(2, shutting_down=True), False),
        (led(1, 3), broker(2), False),
    ],
)
def test_a_broker_goes_when_nobody_else_could_lead_what_it_leads(
    partition: Partition, other: Broker, expected: bool
) -> None:
    assert leads_transferable(image_of(partition, broker(1), other), 1) is expected


@pytest.mark.story("torn-log-is-vouched-for")
@pytest.mark.rule(21)
@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        (led(1, 2, leader=NO_LEADER), True),
        (led(1), True),
        (led(1, leader=NO_LEADER), True),
        (led(2, elr=(1,), leader=2), True),
        (led(2, 3, leader=2), False),
    ],
)
def test_a_broker_that_may_have_lost_a_tail_is_relied_upon_by_nobody_else(partition: Partition, expected: bool) -> None:
    assert is_relied_upon(image_of(partition, broker(1, fenced=True)), 1) is expected
