"""One partition's state: how its epochs grow with it, and what a change of it relies on.

A change of leader adds one to the leader epoch, any change one to the partition epoch. A shrink or an expansion leaves
the leader epoch, and with it the clients' connections, as they are.
"""

from __future__ import annotations

from dataclasses import replace

from ottla_controller.machines.brokers import registration_seen
from ottla_controller.machines.decision import ReliedOn, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage, Partition
from ottla_core.model import PartitionId


def with_isr(partition: Partition, isr: tuple[int, ...]) -> Partition:
    return replace(partition, isr=isr, partition_epoch=partition.partition_epoch + 1)


def with_replicas(partition: Partition, replicas: tuple[int, ...]) -> Partition:
    return replace(partition, replicas=replicas, partition_epoch=partition.partition_epoch + 1)


def with_leader(partition: Partition, leader: int, isr: tuple[int, ...]) -> Partition:
    return replace(with_isr(partition, isr), leader=leader, leader_epoch=partition.leader_epoch + 1)


def write_of(image: ClusterImage, id_: PartitionId, after: Partition) -> Write:
    """The change, and what it relied on: the partition as it was, and the lives of those who are in sync (rule C2)."""
    key = keys.partition(id_)
    seen = ReliedOn(key, mod_revision=image.partitions[id_].mod_revision)
    members = (image.brokers[b] for b in after.isr if b in image.brokers)
    return Write(Change(key, after), (seen, *(registration_seen(b) for b in members)))
