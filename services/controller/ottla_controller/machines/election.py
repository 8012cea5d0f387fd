"""Who leads each partition and who is in sync, by who is there: the level-triggered reconcile (rule C3).

`settled` says how one partition should be, given who is available; `decide_reconcile` writes the difference. Nothing
is remembered from event to event: whatever was missed, half done or done by another controller, the next look finds it.

The rules, in their order:

1. Of the ISR stay those who are there and do not go away, and those who are spared for the moment (rule C6).
2. The leader stays if it is one of them. Else the first of them, in the order of the replicas, is elected.
3. Where all others are gone, members that are shutting down serve on until they are gone too.
4. Where nobody of the ISR is there: an unclean election, if the topic allows it (rule 19). Else the partition has no
   leader and waits. It keeps its whole ISR then, where KRaft keeps one member: each of them holds every acknowledged
   record, so whoever comes back first may lead. The last leader goes in front, for its log is the longest.
5. Who may have lost acknowledged records (rule C15) is out of the ISR as long as another member is in it, whether that
   one is there or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from ottla_controller.machines.configs import cluster_configs
from ottla_controller.machines.decision import Decision, Write
from ottla_controller.machines.partition import with_isr, with_leader, write_of
from ottla_controller.machines.shards import fence_after_loss
from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.config_values import resolve
from ottla_core.model import NO_LEADER, PartitionId, TopicId

UNCLEAN: Final = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class Availability:
    """Brokers as elections see them. `spared` are away or fenced and kept for the moment (rule C6)."""

    willing: frozenset[int]  # live, and not shutting down: may be elected
    live: frozenset[int]
    spared: frozenset[int]
    read_only: frozenset[int]  # their disks take no appends: they lead where nobody else can
    tail_lost: frozenset[int]  # registered, fenced, and without proof that they have all they acknowledged (rule C15)


def available(image: ClusterImage, spared: frozenset[int] = frozenset()) -> Availability:
    brokers = image.brokers.values()
    return Availability(
        willing=frozenset(b.id for b in brokers if not b.fenced and not b.shutting_down),
        live=frozenset(b.id for b in brokers if not b.fenced),
        spared=spared,
        read_only=frozenset(b.id for b in brokers if b.read_only),
        tail_lost=frozenset(b.id for b in brokers if b.fenced and b.unclean),
    )


def settled(partition: Partition, there: Availability, *, unclean: bool) -> Partition:
    """`partition` as it should be; the same object where nothing is to be done. `unclean` allows losing records."""
    stay = tuple(b for b in partition.isr if b in there.willing or b in there.spared)
    leader = _first(partition, stay, there)
    if partition.leader in stay and not _has_room_for_it(partition, leader, there):
        return partition if stay == partition.isr else with_isr(partition, stay)
    if leader is not None:
        return with_leader(partition, leader, stay)
    if stay:
        return partition  # whoever could lead is spared: it is soon known whether they come back
    going = tuple(b for b in partition.isr if b in there.live)
    if partition.leader in going:
        return partition if going == partition.isr else with_isr(partition, going)
    if going:
        return with_leader(partition, next(b for b in partition.replicas if b in going), going)
    outsider = _first(partition, partition.replicas, there) if unclean else None
    if outsider is not None:
        return replace(with_leader(partition, outsider, (outsider,)), recovering=True)
    return _leaderless(partition, there)


def _first(partition: Partition, among: tuple[int, ...], there: Availability) -> int | None:
    """The first that may lead, in the order of the replicas; one whose disk takes appends, if there is any."""
    may = [b for b in partition.replicas if b in among and b in there.willing]
    return next((b for b in may if b not in there.read_only), may[0] if may else None)


def _has_room_for_it(partition: Partition, other: int | None, there: Availability) -> bool:
    """Whether `other` can take appends and the leader can't."""
    return partition.leader in there.read_only and other is not None and other not in there.read_only


def _leaderless(partition: Partition, there: Availability) -> Partition:
    isr = partition.isr
    if partition.leader in isr:
        isr = (partition.leader, *(b for b in isr if b != partition.leader))
    isr = tuple(b for b in isr if b not in there.tail_lost) or isr[:1]
    if partition.leader != NO_LEADER:
        return with_leader(partition, NO_LEADER, isr)
    return partition if isr == partition.isr else with_isr(partition, isr)


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one partition."""

    id: PartitionId
    before: Partition
    after: Partition

    @property
    def elected(self) -> bool:
        return self.after.leader_epoch > self.before.leader_epoch and self.after.leader != NO_LEADER

    @property
    def unclean(self) -> bool:
        return self.elected and self.after.leader not in self.before.isr

    @property
    def offline(self) -> bool:
        return self.after.leader == NO_LEADER


def unsettled(image: ClusterImage, spared: frozenset[int] = frozenset()) -> list[PartitionId]:
    """The partitions that are not as they should be: those that need a leader first, then ISRs."""
    there = available(image, spared)
    moved = list(_settled(image, there, image.partitions))
    moved.sort(key=lambda s: s.before.leader_epoch == s.after.leader_epoch)
    return [s.id for s in moved]


def decide_reconcile(
    image: ClusterImage, partitions: Iterable[PartitionId], spared: frozenset[int] = frozenset()
) -> Decision[tuple[Settled, ...]]:
    """Settle `partitions`, at most MAX_WRITES of them, as far as they still need it."""
    moved = tuple(_settled(image, available(image, spared), partitions))
    return Decision(moved, tuple(chain.from_iterable(writes_of(image, s) for s in moved)))


def writes_of(image: ClusterImage, moved: Settled) -> tuple[Write, ...]:
    """The partition as it is settled; before it, what has to be known of records that may be lost."""
    fences = fence_after_loss(image, moved.id) if moved.unclean else ()
    return (*fences, write_of(image, moved.id, moved.after))


def to_hand_over(image: ClusterImage, broker_id: int) -> int:
    """How many partitions the broker still leads, or is in sync of, that others could do without it (rule C8)."""
    moved = _settled(image, available(image), image.partitions)
    return sum(broker_id in (s.before.leader, *s.before.isr) for s in moved)


def _settled(image: ClusterImage, there: Availability, partitions: Iterable[PartitionId]) -> Iterator[Settled]:
    """Those of `partitions` that are not as they should be. Most are, and are passed over quickly."""
    willing, leading = there.willing, there.willing - there.read_only
    unclean: dict[TopicId, bool] = {}
    for id_ in partitions:
        partition = image.partitions.get(id_)
        if partition is None or (partition.leader in leading and willing.issuperset(partition.isr)):
            continue
        if id_.topic_id not in unclean:
            unclean[id_.topic_id] = _unclean_allowed(image, id_.topic_id)
        after = settled(partition, there, unclean=unclean[id_.topic_id])
        if after is not partition:
            yield Settled(id_, partition, after)


def _unclean_allowed(image: ClusterImage, topic_id: TopicId) -> bool:
    topic = image.topic_by_id(topic_id)
    return topic is not None and resolve(topic.configs, cluster_configs(image), {}).boolean(UNCLEAN)
