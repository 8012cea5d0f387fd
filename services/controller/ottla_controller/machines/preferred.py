"""Elections without a failed leader: by command, and back to preferred leaders for the balance (KIP-460).

The first replica of a partition is its preferred leader. Placement spreads those evenly, and failovers undo it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from ottla_controller.machines.availability import Availability, available
from ottla_controller.machines.decision import Decision
from ottla_controller.machines.election import Rules, Settled, rules_of, settled, writes_of
from ottla_controller.machines.partition import TopicConfigs, with_leader
from ottla_controller.machines.partition_index import PartitionIndex, under_replicated, unpreferred
from ottla_controller.machines.recovery import LogsReport, by_an_operators_word
from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import NO_LEADER, PartitionId


class ElectionType(Enum):
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True)
class ElectionOutcome:
    """What the election of one partition changed, or why there was none."""

    id: PartitionId
    settled: Settled | None = None
    error: OttlaError | None = None


def decide_elect_leaders(
    image: ClusterImage,
    kind: ElectionType,
    partitions: Sequence[PartitionId],
    reports: Mapping[int, LogsReport] | None = None,
) -> Decision[tuple[ElectionOutcome, ...]]:
    """Elect leaders in one transaction for all of `partitions`, each named once. The caller requests at most
    MAX_WRITES.

    With `reports` of logs, an unclean election knows the longest log.
    """
    existing = available(image)
    configs = TopicConfigs(image)
    outcomes = tuple(_outcome(image, configs, existing, kind, id_, reports or {}) for id_ in partitions)
    done = [o.settled for o in outcomes if o.settled is not None]
    return Decision(outcomes, tuple(chain.from_iterable(writes_of(image, s) for s in done)))


def unbalanced(image: ClusterImage, index: PartitionIndex, percentage: int) -> list[PartitionId]:
    """Return the partitions to move back: those of brokers that lead too few of the partitions for which they are
    preferred.

    `percentage` is leader.imbalance.per.broker.percentage. Only partitions whose preferred leader may lead are in the
    list.
    """
    existing = available(image)
    not_preferred = [(id_, image.partitions[id_]) for id_ in sorted(index.where(unpreferred))]
    missed = Counter(p.replicas[0] for _, p in not_preferred)
    over = {b for b, count in missed.items() if count * 100 > percentage * index.preferred[b]}
    return [id_ for id_, p in not_preferred if p.replicas[0] in over and _may_lead(existing, p)]


def is_whole(image: ClusterImage, index: PartitionIndex) -> bool:
    """Return whether every preferred leader is available, and every replica is in sync."""
    willing = available(image).willing
    return not index.where(under_replicated) and all(b in willing for b, count in index.preferred.items() if count)


def check_once(partitions: Iterable[tuple[str, int]]) -> None:
    """Raise INVALID_REQUEST if an election is requested twice."""
    twice = [p for p, count in Counter(partitions).items() if count > 1]
    if twice:
        topic, partition = twice[0]
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"the request names {topic[:60]}-{partition} twice",
            hint="name each partition once",
        )


def _outcome(
    image: ClusterImage,
    configs: TopicConfigs,
    existing: Availability,
    kind: ElectionType,
    id_: PartitionId,
    reports: Mapping[int, LogsReport],
) -> ElectionOutcome:
    partition = image.partitions.get(id_)
    if partition is None:
        error = OttlaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "there is no such partition",
            hint="list the topics to see which exist",
        )
        return ElectionOutcome(id_, error=error)
    rules = rules_of(configs, id_.topic_id)
    try:
        if kind is ElectionType.PREFERRED:
            return ElectionOutcome(id_, Settled(id_, partition, _preferred(partition, existing, rules)))
        longest = by_an_operators_word(image, id_, reports)
        return ElectionOutcome(id_, Settled(id_, partition, _unclean(partition, existing, rules, longest)))
    except OttlaError as error:
        return ElectionOutcome(id_, error=error)


def _preferred(partition: Partition, existing: Availability, rules: Rules) -> Partition:
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise OttlaError(ErrorCode.ELECTION_NOT_NEEDED, f"the preferred leader {preferred} already leads the partition")
    if preferred in existing.read_only:
        raise OttlaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"the disk of the preferred leader {preferred} is full",
            hint="free space on that broker; it may lead again as soon as its disk has room",
        )
    if not _may_lead(existing, partition):
        raise OttlaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"the preferred leader {preferred} is not live or not in the ISR {list(partition.isr)}",
            hint="try again when that broker has caught up",
        )
    return with_leader(partition, preferred, partition.isr, rules.min_isr)


def _unclean(partition: Partition, existing: Availability, rules: Rules, longest: Partition | None) -> Partition:
    """Elect an eligible replica, or else the `longest` log of those that were reported, or else a live replica."""
    if partition.leader != NO_LEADER:
        raise OttlaError(
            ErrorCode.ELECTION_NOT_NEEDED, f"the partition already has a leader: broker {partition.leader}"
        )
    after = settled(partition, existing, rules._replace(unclean=False))
    if after.leader == NO_LEADER:
        after = longest or settled(partition, existing, rules._replace(unclean=True))
    if after.leader == NO_LEADER:
        raise OttlaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"none of the replicas {list(partition.replicas)} is live",
            hint="start one of these brokers",
        )
    return after


def _may_lead(existing: Availability, partition: Partition) -> bool:
    preferred = partition.replicas[0]
    return preferred in existing.willing - existing.read_only and preferred in partition.isr
