"""Which brokers lead each partition and are in sync, given those that are available: the level-triggered reconcile
(rule C3).

`settled` says how one partition should be, given who is available; `decide_reconcile` writes the difference. Nothing
is remembered from event to event: whatever was missed, half done or done by another controller, the next look finds it.

After the metadata was restored from a backup, nothing that it says of a partition counts (rule C18). Otherwise the
table in `machines.standing` says who leads, and who is in sync. A broker that may have lost acknowledged records (rule
C15), or that is back with another directory than the one that held its replica, is out of the ISR and of the ELR, and
leads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from ottla_controller.machines.availability import Availability, available
from ottla_controller.machines.decision import Decision, Write
from ottla_controller.machines.partition import (
    TopicConfigs,
    recovering_with,
    with_isr,
    with_leader,
    without_elr,
    write_of,
)
from ottla_controller.machines.shards import fence_after_loss
from ottla_controller.machines.standing import InSync, Leads, Standing
from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.model import NO_LEADER, PartitionId, TopicId


class Rules(NamedTuple):
    """What a topic's configs say of elections. `unclean` allows losing records."""

    min_isr: int
    unclean: bool


def settled(partition: Partition, existing: Availability, rules: Rules) -> Partition:
    """Return `partition` as it should be, or the same object where nothing is to be done."""
    if partition.restored != existing.restored:
        return _in_doubt(partition)
    standing = Standing(partition, existing, rules.unclean)
    outcome = standing.outcome
    if outcome.isr is InSync.RECOVERING:
        return recovering_with(partition, standing.first)
    leader = {Leads.SAME: partition.leader, Leads.FIRST: standing.first, Leads.NOBODY: NO_LEADER}[outcome.leader]
    isr = standing.isr_of(outcome)
    if outcome.leader is Leads.SAME or leader == partition.leader == NO_LEADER:
        return _with_isr(partition, isr, rules, standing.lost)
    return with_leader(partition, leader, isr, rules.min_isr, standing.lost)


def _in_doubt(partition: Partition) -> Partition:
    """Without a leader, and no replica is known to have anything: the logs themselves will show
    (`machines.recovery`)."""
    if partition.leader == NO_LEADER and not (partition.isr or partition.elr or partition.last_known_elr):
        return partition
    epoch = partition.leader_epoch + (partition.leader != NO_LEADER)
    return replace(without_elr(partition), leader=NO_LEADER, leader_epoch=epoch, isr=())


def _with_isr(partition: Partition, isr: tuple[int, ...], rules: Rules, lost: frozenset[int]) -> Partition:
    """Return `partition` itself if its ISR is `isr` already and no member has to leave the ELR."""
    if isr == partition.isr and lost.isdisjoint(partition.elr):
        return partition
    return with_isr(partition, isr, rules.min_isr, lost)


@dataclass(frozen=True, slots=True)
class Settled:
    """One partition before and after."""

    id: PartitionId
    before: Partition
    after: Partition

    @property
    def elected(self) -> bool:
        return self.after.leader_epoch > self.before.leader_epoch and self.after.leader != NO_LEADER

    @property
    def unclean(self) -> bool:
        return self.elected and self.after.leader not in (*self.before.isr, *self.before.elr)

    @property
    def offline(self) -> bool:
        return self.after.leader == NO_LEADER


def needs_election(
    image: ClusterImage, within_grace: frozenset[int] = frozenset(), among: Iterable[PartitionId] | None = None
) -> list[PartitionId]:
    """The partitions, `among` these or all, that are not as they should be: those that need a leader first, then
    ISRs."""
    existing = available(image, within_grace)
    moved = list(_settled(image, existing, image.partitions if among is None else among))
    moved.sort(key=lambda s: s.before.leader_epoch == s.after.leader_epoch)
    return [s.id for s in moved]


def decide_reconcile(
    image: ClusterImage, partitions: Iterable[PartitionId], within_grace: frozenset[int] = frozenset()
) -> Decision[tuple[Settled, ...]]:
    """Settle `partitions`, at most MAX_WRITES of them, as far as they still need it."""
    moved = tuple(_settled(image, available(image, within_grace), partitions))
    return Decision(moved, tuple(chain.from_iterable(writes_of(image, s) for s in moved)))


def writes_of(image: ClusterImage, moved: Settled) -> tuple[Write, ...]:
    """The partition as it is settled; before it, what has to be known of records that may be lost."""
    fences = fence_after_loss(image, moved.id) if moved.unclean else ()
    return (*fences, write_of(image, moved.id, moved.after))


def to_hand_over(image: ClusterImage, broker_id: int, replicas: Iterable[PartitionId]) -> Iterator[PartitionId]:
    """Those of the broker's `replicas` that it leads or is in sync with, though others could take over (rule C8)."""
    moved = _settled(image, available(image), replicas)
    return (s.id for s in moved if broker_id in (s.before.leader, *s.before.isr))


def _settled(image: ClusterImage, existing: Availability, partitions: Iterable[PartitionId]) -> Iterator[Settled]:
    """Those of `partitions` that are not as they should be. Most are, and are passed over quickly."""
    configs = TopicConfigs(image)
    rules: dict[TopicId, Rules] = {}
    for id_ in partitions:
        partition = image.partitions.get(id_)
        if partition is None or _is_well(partition, existing):
            continue
        if id_.topic_id not in rules:
            rules[id_.topic_id] = rules_of(configs, id_.topic_id)
        after = settled(partition, existing, rules[id_.topic_id])
        if after is not partition:
            yield Settled(id_, partition, after)


def _is_well(partition: Partition, existing: Availability) -> bool:
    """Whether nothing is to be done for sure. Who is back with another directory is fenced until it is out (C15)."""
    willing = existing.willing
    return (
        partition.restored == existing.restored
        and partition.leader in willing
        and partition.leader not in existing.read_only
        and willing.issuperset(partition.isr)
        and (not partition.elr or existing.fenced.isdisjoint(partition.elr))
    )


def rules_of(configs: TopicConfigs, topic_id: TopicId) -> Rules:
    return Rules(configs.min_isr(topic_id), configs.allows_unclean(topic_id))
