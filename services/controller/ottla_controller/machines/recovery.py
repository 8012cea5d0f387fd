"""The logs decide which replica leads if none is known to have every committed record (KIP-966).

There are two causes, and one way out: of the replicas that have answered, the one with the greatest (last epoch, log
end) leads.

*Lost tails (rule C16).* ISR and ELR are empty, because all their members stopped uncleanly, or lost their disks. With
`unclean.recovery.strategy=balanced`, the default, the election waits for all their last members (`last_known_elr`),
each with the directory that it had. Then no other log can have more. `aggressive` takes the best of the live replicas,
and `none` leaves it to an operator. The election never waits for a log that began again on an empty disk; if one began
again in its old directory, it waits for all replicas.

*Doubt (rule C18).* The metadata was restored from a backup. Committed records are on min.insync.replicas of the
replicas, so any |replicas| − min.insync.replicas + 1 logs hold each of them. Only logs count that are whole by their
own evidence. If there are not as many, all replicas have to answer. The new leader epoch is above all epochs of the
logs, by a gap, because a replica that did not answer may have seen later ones.

In both cases internal topics are like others, except that `aggressive` does not apply to them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

from ottla_controller.machines.brokers import registration_seen
from ottla_controller.machines.decision import Decision
from ottla_controller.machines.election import Settled, writes_of
from ottla_controller.machines.partition import TopicConfigs, recovering_with
from ottla_core.cluster.image import Broker, ClusterImage, Partition
from ottla_core.model import INTERNAL_TOPICS, PartitionId

BALANCED: Final = "balanced"
AGGRESSIVE: Final = "aggressive"

EPOCH_GAP: Final = 1_000
"""More leader epochs than any replica that did not answer has seen since the backup."""


class LogEnd(NamedTuple):
    """The end of a log: the epoch of its last record and the next offset, by which logs are compared.

    `sound` says that by the log's own evidence nothing of it is missing. `latest_epoch` is the newest that the replica
    has led in or followed, perhaps without a record.
    """

    last_epoch: int
    offset: int
    sound: bool = True
    latest_epoch: int = -1


@dataclass(frozen=True, slots=True)
class LogsReport:
    """A report of one incarnation of a broker about its logs."""

    epoch: int
    ends: Mapping[PartitionId, LogEnd]


def to_ask(image: ClusterImage, among: Iterable[PartitionId] | None = None) -> dict[int, list[PartitionId]]:
    """Return the partitions, `among` these or all, whose log ends have to be requested, by broker id. As long as too
    few brokers are live, there are none."""
    request: defaultdict[int, list[PartitionId]] = defaultdict(list)
    configs = TopicConfigs(image)
    for id_ in image.partitions if among is None else among:
        partition = image.partitions[id_]
        if partition.has_none_eligible:
            for broker in _witnesses(image, configs, id_, partition):
                request[broker.id].append(id_)
    return dict(request)


def decide_recover(
    image: ClusterImage, partitions: Iterable[PartitionId], reports: Mapping[int, LogsReport]
) -> Decision[tuple[Settled, ...]]:
    """Elect by `reports` (by broker id) if they have all that is needed. At most MAX_WRITES partitions are decided."""
    moved = tuple(_recovered(image, partitions, reports))
    writes = []
    for settled, witnesses in moved:
        *before, write = writes_of(image, settled)
        # A broker that has restarted since may have another log.
        incarnations = tuple(registration_seen(b) for b in witnesses)
        writes.append((*before, replace(write, relied_on=tuple(dict.fromkeys((*write.relied_on, *incarnations))))))
    return Decision(tuple(settled for settled, _ in moved), tuple(chain.from_iterable(writes)))


def by_an_operators_word(image: ClusterImage, id_: PartitionId, reports: Mapping[int, LogsReport]) -> Partition | None:
    """Return the partition, led by the longest log of those that were reported, or None if none was.

    Records of the other logs are lost, to which an operator has agreed. An empty disk has the shortest log.
    """
    partition = image.partitions[id_]
    ends = {
        b.id: reports[b.id].ends[id_]
        for b in _registered(image, partition.replicas)
        if not (b.fenced or b.shutting_down)
        and b.id in reports
        and reports[b.id].epoch == b.epoch
        and id_ in reports[b.id].ends
    }
    return _led_by_the_longest(image, partition, ends, tuple(ends)) if ends else None


def _recovered(
    image: ClusterImage, partitions: Iterable[PartitionId], reports: Mapping[int, LogsReport]
) -> Iterator[tuple[Settled, list[Broker]]]:
    configs = TopicConfigs(image)
    for id_ in partitions:
        partition = image.partitions.get(id_)
        if partition is None or not partition.has_none_eligible:
            continue
        witnesses = _witnesses(image, configs, id_, partition)
        ends = {}
        for broker in witnesses:
            report = reports.get(broker.id)
            if report is not None and report.epoch == broker.epoch and id_ in report.ends:
                ends[broker.id] = report.ends[id_]
        after = _elected(image, partition, _that_count(image, configs, id_, ends, requested=len(witnesses)))
        if after is not None:
            yield Settled(id_, partition, after), [b for b in witnesses if b.id in ends]


def _that_count(
    image: ClusterImage, configs: TopicConfigs, id_: PartitionId, ends: Mapping[int, LogEnd], *, requested: int
) -> Mapping[int, LogEnd]:
    """Return those of `ends` that decide, given how many were requested, or none if they prove too little."""
    partition = image.partitions[id_]
    of_all = ends if len(ends) == len(partition.replicas) else {}
    if image.is_in_doubt(partition):
        sound = sum(end.sound for end in ends.values())
        return ends if sound >= _needed(configs, id_, partition) else of_all
    if configs.recovery_strategy(id_.topic_id) != BALANCED:
        return ends if len(ends) == requested else {}
    awaited = {b: ends[b] for b in _awaited(partition) if b in ends}
    if len(awaited) < len(_awaited(partition)):
        return {}
    began_anew = any(not end.offset and not end.sound for end in awaited.values())  # and any other log may have more
    return of_all if began_anew else awaited


def _elected(image: ClusterImage, partition: Partition, ends: Mapping[int, LogEnd]) -> Partition | None:
    """Return the partition with the best of `ends` as the leader, or None if none of them may lead."""
    willing = [b for b in partition.replicas if b in ends and not image.brokers[b].fenced]
    if not willing:
        return None
    longest = max(end[:2] for end in ends.values())
    if all(ends[b][:2] < longest for b in willing):
        return None  # the broker that has more is not unfenced yet
    return _led_by_the_longest(image, partition, ends, willing)


def _led_by_the_longest(
    image: ClusterImage, partition: Partition, ends: Mapping[int, LogEnd], willing: Sequence[int]
) -> Partition:
    """Elect the longest log, the first in replica order among equals, in an epoch above all that were reported."""
    best = max(willing, key=lambda b: ends[b][:2])
    seen = max(partition.leader_epoch, *(max(end.last_epoch, end.latest_epoch) for end in ends.values()))
    epoch = seen + (EPOCH_GAP if image.is_in_doubt(partition) else 1)
    return replace(recovering_with(partition, best), leader_epoch=epoch, restored=image.restored.count)


def _witnesses(image: ClusterImage, configs: TopicConfigs, id_: PartitionId, partition: Partition) -> list[Broker]:
    """Return the brokers whose logs decide once there are enough of them, or else none."""
    if image.is_in_doubt(partition):
        existing = _registered(image, partition.replicas)
        return existing if len(existing) >= _needed(configs, id_, partition) else []
    strategy = configs.recovery_strategy(id_.topic_id)
    live = [b for b in _registered(image, partition.replicas) if not b.fenced]
    kept = [b for b in live if partition.directories.get(b.id) in (None, b.directory_id)]
    if strategy == BALANCED:
        return kept if {b.id for b in kept}.issuperset(_awaited(partition)) else []
    if strategy == AGGRESSIVE and image.topic_names.get(id_.topic_id) not in INTERNAL_TOPICS:
        return kept
    return []


def _awaited(partition: Partition) -> tuple[int, ...]:
    return partition.last_known_elr or partition.replicas


def _registered(image: ClusterImage, brokers: Iterable[int]) -> list[Broker]:
    return [image.brokers[b] for b in brokers if b in image.brokers]


def _needed(configs: TopicConfigs, id_: PartitionId, partition: Partition) -> int:
    """Return how many replicas have every committed record between them."""
    count = len(partition.replicas)
    return count - min(configs.min_isr(id_.topic_id), count) + 1
