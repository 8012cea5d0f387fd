"""Which brokers lead each partition and are in sync, given those that are available: the level-triggered reconcile
(rule C3).

`settled` says how one partition should be, given who is available; `decide_reconcile` writes the difference. Nothing
is remembered from event to event: whatever was missed, half done or done by another controller, the next look finds it.

The rules, in their order:

0. After the metadata was restored from a backup nothing that it says of a partition counts (rule C18).
1. A broker that may have lost acknowledged records (rule C15), or that is back with another directory than the one
   that held its replica, is out of the ISR and of the ELR, and leads nothing.
2. The ISR keeps the members that are live and not shutting down, and those that are within_grace (rule C6).
3. The leader stays if it is one of them. Else the first of them, in the order of the replicas, is elected.
4. Where all others are gone, members that are shutting down serve on until they are gone too.
5. Where no member of the ISR is live, it becomes empty and its members eligible. The first of the ELR that is live
   leads, and is the whole ISR: each of the ELR has every acknowledged record (KIP-966, machines.partition).
6. Where none of those is live either: an unclean election, if the topic allows it (rule 19). Else the partition has
   no leader and waits: for one of the ELR, or for what `machines.recovery` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

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
from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.model import NO_LEADER, PartitionId, TopicId


@dataclass(frozen=True, slots=True)
class Availability:
    """Brokers as elections see them. `within_grace` are away or fenced and kept for the moment (rule C6)."""

    willing: frozenset[int]  # live, and not shutting down: may be elected
    live: frozenset[int]
    within_grace: frozenset[int]
    fenced: frozenset[int]
    read_only: frozenset[int]  # their disks take no appends: they lead where no other can
    tail_lost: frozenset[int]  # registered, fenced, and without proof that they have all they acknowledged (rule C15)
    directories: Mapping[int, str]  # of the registered ones
    restored: int  # which restoration of the metadata this is; a partition of another one is in doubt

    def lost(self, partition: Partition) -> frozenset[int]:
        """Return the members of ISR and ELR that may have lost acknowledged records."""
        return frozenset(
            b for b in (*partition.isr, *partition.elr) if b in self.tail_lost or self.has_moved(partition, b)
        )

    def has_moved(self, partition: Partition, broker_id: int) -> bool:
        """Whether the broker is back with another directory than the replica's; of an older release none is noted."""
        noted = partition.directories.get(broker_id)
        return noted is not None and self.directories.get(broker_id, noted) != noted


class Rules(NamedTuple):
    """What a topic's configs say of elections. `unclean` allows losing records."""

    min_isr: int
    unclean: bool


def available(image: ClusterImage, within_grace: frozenset[int] = frozenset()) -> Availability:
    brokers = image.brokers.values()
    return Availability(
        willing=frozenset(b.id for b in brokers if not b.fenced and not b.shutting_down),
        live=frozenset(b.id for b in brokers if not b.fenced),
        within_grace=within_grace,
        fenced=frozenset(b.id for b in brokers if b.fenced),
        read_only=frozenset(b.id for b in brokers if b.read_only),
        tail_lost=frozenset(b.id for b in brokers if b.fenced and b.unclean),
        directories={b.id: b.directory_id for b in brokers},
        # No leader is elected by what is known to be older than the logs, also before the restoration is counted.
        restored=image.restored.count + image.is_behind,
    )


def settled(partition: Partition, existing: Availability, rules: Rules) -> Partition:
    """`partition` as it should be; the same object where nothing is to be done."""
    if partition.restored != existing.restored:
        return _in_doubt(partition)
    lost = existing.lost(partition)
    trusted = tuple(b for b in partition.isr if b not in lost)
    stay = tuple(b for b in trusted if b in existing.willing or b in existing.within_grace)
    leader = _first(partition, stay, existing)
    if partition.leader in stay and not _has_room_for_it(partition, leader, existing):
        return _with_isr(partition, stay, rules, lost)
    if leader is not None:
        return with_leader(partition, leader, stay, rules.min_isr, lost)
    if stay:  # all that could lead are within grace: it is soon known whether they come back
        if partition.leader in lost:
            return with_leader(partition, NO_LEADER, trusted, rules.min_isr, lost)
        return _with_isr(partition, trusted, rules, lost)
    going = tuple(b for b in trusted if b in existing.live)
    if partition.leader in going:
        return _with_isr(partition, going, rules, lost)
    if going:
        leader = next(b for b in partition.replicas if b in going)
        return with_leader(partition, leader, going, rules.min_isr, lost)
    eligible = tuple(b for b in (*trusted, *partition.elr) if b not in lost)
    leader = _first(partition, eligible, existing)
    if leader is not None:
        return with_leader(partition, leader, (leader,), rules.min_isr, lost)
    outsider = _outsider(partition, existing) if rules.unclean else None
    if outsider is not None:
        return recovering_with(partition, outsider)
    if partition.leader != NO_LEADER:
        return with_leader(partition, NO_LEADER, (), rules.min_isr, lost)
    return _with_isr(partition, (), rules, lost)


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


def _first(partition: Partition, among: tuple[int, ...], existing: Availability) -> int | None:
    """The first that may lead, in the order of the replicas; one whose disk takes appends, if there is any."""
    may = [b for b in partition.replicas if b in among and b in existing.willing]
    return next((b for b in may if b not in existing.read_only), may[0] if may else None)


def _has_room_for_it(partition: Partition, other: int | None, existing: Availability) -> bool:
    """Whether `other` can take appends and the leader can't."""
    return partition.leader in existing.read_only and other is not None and other not in existing.read_only


def _outsider(partition: Partition, existing: Availability) -> int | None:
    """The leader of an unclean election: a former member of the ISR, else any replica; moved directories come last."""
    known, rest = partition.last_known_elr, partition.replicas
    kept = (tuple(b for b in among if not existing.has_moved(partition, b)) for among in (known, rest))
    return next((first for among in (*kept, rest) if (first := _first(partition, among, existing)) is not None), None)


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
