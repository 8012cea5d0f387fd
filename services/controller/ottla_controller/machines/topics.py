"""Topics are created, grown and deleted by decisions, each of which is made from one image.

A topic may have ten thousand partitions, and a transaction of etcd takes a hundred writes. So a topic can't appear in
one step, and a controller may die between two. The order of the writes makes that harmless: the topic key is the commit
point (I8). Creation writes all partition keys first and the topic key last. Deletion removes the topic key first. So
whatever a crash leaves is partition keys that no topic has, and `decide_remove_orphans` removes those.

Every function decides one topic, or raises the OttlaError that the client gets for this topic. Nothing is written here:
a decision names what it relied on, and the journal writes it only if that still holds. The topic id comes from outside,
because a decision may be made again after a lost race.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ottla_controller.machines.configs import check_min_isr, cluster_configs, cluster_configs_seen, cluster_values
from ottla_controller.machines.decision import Decision, ReliedOn, Write
from ottla_controller.machines.placement import Replicas, assign_replicas, check_assignments, start_of
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage, Partition, Topic
from ottla_core.configs.config_values import check_topic_configs, topic_key, without_effect
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import INTERNAL_TOPICS, PartitionId, TopicId, check_topic_name
from ottla_core.plural import counted

MAX_PARTITIONS: Final = 10_000
"""The most partitions of one topic. Each is a key in the metadata store and files on a broker. Kafka bounds a request
likewise."""

DEFAULT: Final = -1
"""This count means that the cluster's configs decide."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic as it is requested. `assignments` (partition, replicas) replace the two counts, which are then -1 or
    0."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[tuple[int, Replicas]] = ()


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic that was created. `warnings` name configs without an effect."""

    name: str
    topic_id: TopicId
    partitions: int
    replication_factor: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    name: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class PartitionsCreated:
    """Partitions that were added. `warning` is what a user of keys must know (feature 165)."""

    name: str
    warning: str


def decide_create_topic(image: ClusterImage, new: NewTopic, *, topic_id: TopicId) -> Decision[TopicCreated]:
    """Create a topic. Its partition keys come first, and the topic key last, because it is the commit point (I8)."""
    _check_client_may_change(new.name)
    _check_absent(image, new.name)
    _check_no_collision(image, new.name)
    return decide_create_internal_topic(image, new, topic_id=topic_id)


def decide_create_internal_topic(image: ClusterImage, new: NewTopic, *, topic_id: TopicId) -> Decision[TopicCreated]:
    """Create a topic of the controller's own, whose name no client may use."""
    _check_absent(image, new.name)
    configs = check_topic_configs(new.configs, cluster_configs(image))
    placement = _replicas_of(image, new)
    # A topic whose min.insync.replicas is above its replicas could never be written to.
    check_min_isr(configs, len(placement[0]))
    topic = Topic(name=new.name, id=topic_id, partition_count=len(placement), configs=configs)
    commit = Write(
        Change(keys.topic(new.name), topic),
        # The name must still be free, and the configs that gave the counts must be those that were read.
        (ReliedOn(keys.topic(new.name), mod_revision=0), cluster_configs_seen(image)),
    )
    return Decision(
        TopicCreated(new.name, topic_id, len(placement), len(placement[0]), without_effect(topic_key, configs)),
        (*_partition_writes(image, topic_id, 0, placement), commit),
    )


def decide_create_partitions(
    image: ClusterImage, name: str, total_count: int, assignments: Sequence[Replicas] = ()
) -> Decision[PartitionsCreated]:
    """Add partitions. Their keys come first, then the topic key with the new count. `assignments` are of the new ones,
    in order."""
    _check_client_may_change(name)
    topic = _known(image, name)
    if total_count <= topic.partition_count:
        raise OttlaError(
            ErrorCode.INVALID_PARTITIONS,
            f"the topic {name} already has {counted(topic.partition_count, 'partition')}, but the requested "
            f"total is {total_count}",
            hint="partitions can only be added; request a larger total",
        )
    _check_count(total_count)
    # The new partitions go on where the placement of the existing ones ended, so that leaders stay spread.
    existing = [partition.replicas for _, partition in image.partitions_of(topic)]
    racks = _live_racks(image)
    count = total_count - topic.partition_count
    if assignments:
        placement = _check_new_assignments(image, assignments, count, len(existing[0]))
    else:
        placement = assign_replicas(racks, count, len(existing[0]), start=start_of(racks, existing), existing=existing)
    warning = (
        f"records with a key may now go to another partition than before: {name} has {total_count} partitions "
        f"instead of {topic.partition_count}, so order by key holds only from here on"
    )
    commit = Write(
        Change(keys.topic(name), replace(topic, partition_count=total_count)),
        (ReliedOn(keys.topic(name), mod_revision=topic.mod_revision),),
    )
    return Decision(
        PartitionsCreated(name, warning),
        (*_partition_writes(image, topic.id, topic.partition_count, placement), commit),
    )


def decide_delete_topic(image: ClusterImage, name: str) -> Decision[TopicDeleted]:
    """Delete a topic. Its topic key goes first: from there on the topic is gone, whatever happens to its partition
    keys."""
    _check_client_may_change(name)
    topic = _known(image, name)
    if not cluster_values(image).boolean("delete.topic.enable"):
        raise OttlaError(
            ErrorCode.TOPIC_DELETION_DISABLED,
            f"{name} was not deleted: the cluster does not allow topic deletion",
            hint="set delete.topic.enable=true",
        )
    seen = (ReliedOn(keys.topic(name), mod_revision=topic.mod_revision), cluster_configs_seen(image))
    partitions = [PartitionId(topic.id, n) for n in range(topic.partition_count)]
    commit = Write(Change(keys.topic(name), None), seen)
    return Decision(TopicDeleted(name, topic.id), (commit, *_removed(partitions)), commits_first=True)


def decide_delete_topic_by_id(image: ClusterImage, topic_id: TopicId) -> Decision[TopicDeleted]:
    """Delete the topic with this id, and never one that has its name by now (rule 23). Raises UNKNOWN_TOPIC_ID."""
    topic = image.topic_by_id(topic_id)
    if topic is None:
        raise OttlaError(
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"no topic has the id {topic_id.hex()}",
            hint="list the topics to see which exist",
        )
    return decide_delete_topic(image, topic.name)


def decide_remove_orphans(image: ClusterImage) -> Decision[int]:
    """Remove partition keys that no topic has, which a controller left that died half-way. The response is their
    number."""
    orphans = [p for p in image.partitions if not _has(image.topic_by_id(p.topic_id), p)]
    return Decision(len(orphans), _removed(orphans))


def check_no_duplicates(names: Iterable[str]) -> None:
    """Raise INVALID_REQUEST for a request that names a topic twice: it is not clear which of the two should hold."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise OttlaError(ErrorCode.INVALID_REQUEST, f"the request names {name[:60]!r} twice", hint="name it once")
        seen.add(name)


def _has(topic: Topic | None, partition: PartitionId) -> bool:
    return topic is not None and partition.partition < topic.partition_count


def _removed(partitions: Iterable[PartitionId]) -> tuple[Write, ...]:
    return tuple(Write(Change(keys.partition(p), None)) for p in sorted(partitions))


def _known(image: ClusterImage, name: str) -> Topic:
    topic = image.topics.get(name)
    if topic is None:
        raise OttlaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"there is no topic {name!r}",
            hint="list the topics to see which exist",
        )
    return topic


def _check_client_may_change(name: str) -> None:
    check_topic_name(name)
    # Their partition counts decide where each group and transactional id belongs, so they never change.
    if name in INTERNAL_TOPICS:
        raise OttlaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{name} is an internal topic, which only its coordinator may change",
            hint="choose another name",
        )


def _check_absent(image: ClusterImage, name: str) -> None:
    if name in image.topics:
        raise OttlaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"the topic {name} already exists", hint="choose another name")


def _check_no_collision(image: ClusterImage, name: str) -> None:
    """Raise if another topic's metrics would have the same names: `.` becomes `_` in them (Kafka's rule)."""
    if "." not in name and "_" not in name:
        return
    flat = name.replace(".", "_")
    for other in image.topics:
        if other.replace(".", "_") == flat:
            raise OttlaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"the topic {name} collides with {other}: '.' and '_' count as the same character",
                hint="choose another name",
            )


def _replicas_of(image: ClusterImage, new: NewTopic) -> list[Replicas]:
    """Return the replicas of every partition, as requested, or as the cluster's configs and the placement have it."""
    defaults = cluster_values(image)
    if new.assignments:
        partitions, factor = len(new.assignments), max(len(replicas) for _, replicas in new.assignments)
    else:
        partitions = defaults.integer("num.partitions") if new.partitions == DEFAULT else new.partitions
        default_factor = defaults.integer("default.replication.factor")
        factor = default_factor if new.replication_factor == DEFAULT else new.replication_factor
    _check_count(partitions)
    if new.assignments:
        _check_no_counts(new)
        return check_assignments(new.assignments, _registered(image))
    # It begins where the last topic's placement would have gone on, so that many small topics spread as one large one
    # does.
    return assign_replicas(_live_racks(image), partitions, factor, start=len(image.partitions))


def _check_new_assignments(
    image: ClusterImage, assignments: Sequence[Replicas], count: int, replication_factor: int
) -> list[Replicas]:
    if len(assignments) != count or len(assignments[0]) != replication_factor:
        raise OttlaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the assignment has {counted(len(assignments), 'partition')} with "
            f"{counted(len(assignments[0]), 'replica')} each, but the request adds {count} with {replication_factor} "
            "each",
            hint="for each new partition, list as many replicas as the topic's replication factor",
        )
    return check_assignments(list(enumerate(assignments)), _registered(image))


def _check_no_counts(new: NewTopic) -> None:
    if new.partitions not in (DEFAULT, 0) or new.replication_factor not in (DEFAULT, 0):
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            "partition and replica counts can't be combined with assignments",
            hint="set both counts to -1",
        )


def _check_count(partitions: int) -> None:
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise OttlaError(
            ErrorCode.INVALID_PARTITIONS,
            f"a topic can't have {partitions} partitions",
            hint=f"use 1 to {MAX_PARTITIONS:,}, or -1 for the cluster's num.partitions",
        )


def _registered(image: ClusterImage) -> dict[int, bool]:
    """Say for every registered broker whether it is live."""
    return {n: not b.fenced for n, b in image.brokers.items()}


def _live_racks(image: ClusterImage) -> dict[int, str]:
    return {n: b.rack for n, b in image.live_brokers().items()}


def _partition_writes(image: ClusterImage, topic_id: TopicId, first: int, placement: Sequence[Replicas]) -> list[Write]:
    """Write new partitions, led by the first live replica, with all live ones in sync: their logs are equal, being
    empty."""
    live = image.live_brokers()
    writes = []
    for number, replicas in enumerate(placement, first):
        isr = tuple(b for b in replicas if b in live)
        directories = {b: live[b].directory_id for b in isr}
        partition = Partition(
            replicas=replicas, leader=isr[0], isr=isr, directories=directories, restored=image.restored.count
        )
        # Each member must still be the incarnation that was seen (rule 11). A broker that died in between would be in
        # sync without ever having made its log.
        relied_on = tuple(ReliedOn(keys.broker(b), create_revision=live[b].epoch) for b in isr)
        writes.append(Write(Change(keys.partition(PartitionId(topic_id, number)), partition), relied_on))
    return writes
