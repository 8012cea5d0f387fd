"""One partition's state: how its epochs grow with it, which replicas stay eligible, and what a change of it relies on.

A change of leader adds one to the leader epoch, any change one to the partition epoch. A shrink or an expansion leaves
the leader epoch, and with it the clients' connections, as they are.

Eligible leader replicas (KIP-966): while the ISR is smaller than min.insync.replicas nothing more is committed (rule
8), so a member that leaves it from then on still has every committed record, and stays eligible. Once the ISR is large
enough again, no broker outside it is eligible. The ISR may become empty, and only then the ELR is used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

from ottla_controller.machines.brokers import registration_seen
from ottla_controller.machines.configs import cluster_configs
from ottla_controller.machines.decision import ReliedOn, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Broker, Change, ClusterImage, Partition
from ottla_core.configs.config_values import MIN_ISR, EffectiveConfigs, resolve
from ottla_core.model import PartitionId, TopicId

UNCLEAN: Final = "unclean.leader.election.enable"
RECOVERY: Final = "unclean.recovery.strategy"
NO_BROKERS: Final[frozenset[int]] = frozenset()


class TopicConfigs:
    """What topics' configs say of elections, as the controller sees them. The cluster's configs are read once, if at
    all."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    @cached_property
    def _cluster(self) -> EffectiveConfigs:
        return resolve({}, cluster_configs(self._image), {})

    def min_isr(self, topic_id: TopicId) -> int:
        return int(self._text(topic_id, MIN_ISR))

    def allows_unclean(self, topic_id: TopicId) -> bool:
        return self._text(topic_id, UNCLEAN) == "true"

    def recovery_strategy(self, topic_id: TopicId) -> str:
        return self._text(topic_id, RECOVERY)

    def _text(self, topic_id: TopicId, name: str) -> str:
        topic = self._image.topic_by_id(topic_id)
        own = None if topic is None else topic.configs.get(name)
        return own if own is not None else str(self._cluster.entries[name].text)


def with_isr(partition: Partition, isr: tuple[int, ...], min_isr: int, lost: Collection[int] = NO_BROKERS) -> Partition:
    """Return the partition with `isr` in sync. `lost` are replicas that may have lost records, and are no longer
    eligible."""
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    if len(isr) < min(min_isr, len(partition.replicas)):
        were = dict.fromkeys((*partition.isr, *partition.elr))
        elr = tuple(b for b in were if b not in isr and b not in lost)
        ever = dict.fromkeys((*were, *partition.last_known_elr))
        last_known = tuple(b for b in ever if b not in isr and b not in elr)
    epoch = partition.partition_epoch + 1
    return replace(partition, isr=isr, elr=elr, last_known_elr=last_known, partition_epoch=epoch)


def without_elr(partition: Partition) -> Partition:
    """Return the partition with no eligible broker outside the ISR, because what the ELR rests on changes."""
    return replace(partition, elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1)


def with_replicas(partition: Partition, replicas: tuple[int, ...]) -> Partition:
    elr = tuple(b for b in partition.elr if b in replicas)
    last_known = tuple(b for b in partition.last_known_elr if b in replicas)
    epoch = partition.partition_epoch + 1
    return replace(partition, replicas=replicas, elr=elr, last_known_elr=last_known, partition_epoch=epoch)


def with_leader(
    partition: Partition, leader: int, isr: tuple[int, ...], min_isr: int, lost: Collection[int] = NO_BROKERS
) -> Partition:
    after = with_isr(partition, isr, min_isr, lost)
    return replace(after, leader=leader, leader_epoch=partition.leader_epoch + 1)


def recovering_with(partition: Partition, leader: int) -> Partition:
    """Return the partition after an unclean election. The log is from now on what `leader` has, and no other replica is
    eligible (rule 19)."""
    return replace(
        without_elr(partition), isr=(leader,), leader=leader, leader_epoch=partition.leader_epoch + 1, recovering=True
    )


def directories_of(after: Partition, before: Partition, brokers: Mapping[int, Broker]) -> dict[int, str]:
    """Return the directory of each member: the one with which it became a member, or else the one that is registered
    now.

    A member of an older release, whose directory is not noted, is taken as it is registered.
    """
    noted = before.directories
    joined = {b for b in after.isr if b not in before.isr and b not in before.elr}
    directories = {}
    for b in (*after.isr, *after.elr, *after.last_known_elr):
        known = None if b in joined else noted.get(b)
        if known is None and b in brokers:
            known = brokers[b].directory_id
        if known:
            directories[b] = known
    return directories


def write_of(image: ClusterImage, id_: PartitionId, after: Partition) -> Write:
    """Return the change, and what it relied on: the partition as it was, and the registrations of the new ISR.

    So a broker that has died or restarted since does not become a member of the ISR (rule C2).
    """
    key, before = keys.partition(id_), image.partitions[id_]
    seen = ReliedOn(key, mod_revision=before.mod_revision)
    members = (image.brokers[b] for b in after.isr if b in image.brokers)
    after = replace(after, directories=directories_of(after, before, image.brokers))
    return Write(Change(key, after), (seen, *(registration_seen(b) for b in members)))
