"""Images with one topic whose partitions are as a test wants them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from images import topic_id

from ottla_controller.machines.partition_index import PartitionIndex
from ottla_core.cluster.image import Broker, Change, ClusterImage, Partition, ResourceConfigs, Topic
from ottla_core.model import PartitionId

P0 = PartitionId(topic_id(1), 0)


def image_with(
    brokers: dict[int, dict[str, Any]] | int,
    *partitions: Partition,
    configs: dict[str, str] | None = None,
    cluster_configs: dict[str, str] | None = None,
) -> ClusterImage:
    """A topic `t` with these partitions. `brokers` are live, or as their fields say; their epochs are 100, 101, …"""
    if isinstance(brokers, int):
        brokers = {n: {} for n in range(brokers)}
    changes = [Change(("broker", n), broker(n, **fields)) for n, fields in brokers.items()]
    changes += [
        Change(("partition", PartitionId(topic_id(1), n)), replace(p, mod_revision=150))
        for n, p in enumerate(partitions)
    ]
    changes.append(Change(("topic", "t"), Topic("t", topic_id(1), len(partitions), configs or {}, 150)))
    if cluster_configs:
        changes.append(Change(("configs", "broker", ""), ResourceConfigs(cluster_configs, 150)))
    return ClusterImage("test").with_changes(changes, 200)


def index_of(image: ClusterImage) -> PartitionIndex:
    index = PartitionIndex()
    index.follow(ClusterImage("test"), image)
    return index


def broker(number: int, **fields: Any) -> Broker:
    registered = Broker(number, 100 + number, f"directory-{number}", f"host-{number}:9650", fenced=False, lease=7)
    return replace(registered, **fields)


def partition(*replicas: int, leader: int | None = None, isr: tuple[int, ...] | None = None) -> Partition:
    """Led by the first replica and all in sync, unless said otherwise; leader epoch 5, partition epoch 9."""
    return Partition(
        replicas,
        leader=replicas[0] if leader is None else leader,
        leader_epoch=5,
        isr=replicas if isr is None else isr,
        partition_epoch=9,
    )
