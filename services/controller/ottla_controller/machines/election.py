"""Elections decide which brokers lead each partition and are in sync, given those that are available.

A controller hears of deaths, returns and full disks as events. It may miss one, die after half of the writes, or be
replaced. So nothing is decided by the event. `settled` says how one partition should be, given who is available, and
`decide_reconcile` writes the difference (level-triggered). Whatever was missed, half done or done by another
controller, the next look finds it, and a second look at a settled partition writes nothing.

The table in `machines.standing` says who leads, and who is in sync. Two cases come before it. After the metadata was
restored from a backup, nothing that it says of a partition counts, and the logs decide (`machines.recovery`). A broker
that may have lost acknowledged records (rule 21), or that is back with another directory than the one that held its
replica (I27), is out of the ISR and of the ELR, and leads nothing.
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
    """What a topic's configs say of elections. `unclean` allows elections that may lose records."""

    min_isr: int
    unclean: bool


def settled(partition: Partition, existing: Availability, rules: Rules) -> Partition:
    """Return `partition` as it should be, or the same object if nothing is to be done."""
    if partition.restored != existing.restored:
        return _in_doubt(partition)
    standing = Standing(partition, existing, rules.unclean)
    outcome = standing.outcome
    if outcome.isr is InSync.RECOVERING:
        return recovering_with(partition, standing.first)
    leader = {Leads.SAME: partition.leader, Leads.FIRST: standing.first, Leads.NOBODY: NO_LEADER}[outcome.leader]
    isr = standing.isr_of(outcome)
    # The leader epoch goes up only with a leader. Each new epoch makes every client and follower start over.
    if outcome.leader is Leads.SAME or leader == partition.leader == NO_LEADER:
        return _with_isr(partition, isr, rules, standing.lost)
    return with_leader(partition, leader, isr, rules.min_isr, standing.lost)


def _in_doubt(partition: Partition) -> Partition:
    """Return the partition without a leader, and without replicas that are known to have anything.

    The logs themselves will show who leads (`machines.recovery`).
    """
    if partition.leader == NO_LEADER and not (partition.isr or partition.elr or partition.last_known_elr):
        return partition
    # The backup's leader is deposed once. Its epoch goes up, so that it hears of it.
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
    """Return the partitions, `among` these or all, that are not as they should be: those that need a leader first, then
    ISRs."""
    existing = available(image, within_grace)
    moved = list(_settled(image, existing, image.partitions if among is None else among))
    # Partitions without a leader serve no client, while a smaller ISR can wait. In the other order the last leadership
    # of a broker that shuts down moved three times as late.
    moved.sort(key=lambda s: s.before.leader_epoch == s.after.leader_epoch)
    return [s.id for s in moved]


def decide_reconcile(
    image: ClusterImage, partitions: Iterable[PartitionId], within_grace: frozenset[int] = frozenset()
) -> Decision[tuple[Settled, ...]]:
    """Settle `partitions`, as far as they still need it when the decision is made."""
    moved = tuple(_settled(image, available(image, within_grace), partitions))
    return Decision(moved, tuple(chain.from_iterable(writes_of(image, s) for s in moved)))


def writes_of(image: ClusterImage, moved: Settled) -> tuple[Write, ...]:
    """Return the partition as it is settled, and before it what has to be known of records that may be lost."""
    # This is so only after an unclean election: any other leader has every committed record, and the newest fence among
    # them (I18).
    fences = fence_after_loss(image, moved.id) if moved.unclean else ()
    # The shard's epoch comes first: a new leader must not serve an owner whose fence its log may have lost.
    return (*fences, write_of(image, moved.id, moved.after))


def to_hand_over(image: ClusterImage, broker_id: int, replicas: Iterable[PartitionId]) -> Iterator[PartitionId]:
    """Yield those of the broker's `replicas` that it leads or is in sync with, though others could take over."""
    moved = _settled(image, available(image), replicas)
    return (s.id for s in moved if broker_id in (s.before.leader, *s.before.isr))


def _settled(image: ClusterImage, existing: Availability, partitions: Iterable[PartitionId]) -> Iterator[Settled]:
    """Yield those of `partitions` that are not as they should be. Most of them are, and are passed over quickly."""
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
    """Return whether surely nothing is to be done.

    Ten thousand partitions are looked at when a broker dies, and this spares most of them the table. A broker that is
    back with another directory is fenced until it is out of ISR and ELR, so it need not be looked for here.
    """
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
