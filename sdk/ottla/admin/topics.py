"""admin.topics: create, delete, list and describe topics, add partitions, look up offsets, delete records."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.admin.propagation import until_all
from ottla.client.kafka.apis import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_RECORDS, DELETE_TOPICS
from ottla.client.kafka.exchange import Exchange, Terms, raise_failed
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.kafka_descriptions import eligible_leaders
from ottla.client.list_offsets import TRY_S, OffsetSpec, list_offsets, spec_timestamp
from ottla.client.settings import check_topic, one_of
from ottla.client.units import Duration, config_text
from ottla.errors import ConfigError, ErrorCode, config_error, error_from_code
from ottla.machines.metadata import ClusterView, TopicView
from ottla_core.kafka.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ottla_core.model import LATEST_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from ottla.client.kafka_descriptions import EligibleLeaders

logger = logging.getLogger("ottla.admin")

_DEFAULT: Final = -1
_HIGH_WATERMARK: Final = -1

Names = list[str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition, with its brokers identified by id.

    `leader` is -1 if the partition has no leader; `offline` lists the replicas on unreachable brokers. `elr` lists the
    eligible leader replicas, which are not in the ISR but have every record that was acknowledged with acks=all.
    `last_known_elr` lists the replicas that were in the ISR or ELR until an unclean stop or the loss of their disk
    (KIP-966).
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return len(self.isr) < len(self.replicas)

    @property
    def is_leaderless(self) -> bool:
        """Whether the partition has no reachable leader, so that clients can neither write nor read it."""
        return self.leader < 0 or self.leader in self.offline


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic. `id` is 16 bytes in hex; a recreated topic gets a new id."""

    name: str
    id: str
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool = False

    @property
    def replicas(self) -> int:
        """The replication factor of the first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class Topics:
    """The topics of a cluster. `timeout` limits a whole method call, in seconds; the default is request_timeout."""

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replicas: int | None = None,
        config: Mapping[str, object] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        if_exists: Literal["error", "ok"] = "error",
        dry_run: bool = False,
        timeout: Duration | None = None,
    ) -> TopicInfo | None:
        """Create a topic, and return it once every reachable broker serves it, so that you can write to it.

        `partitions` and `replicas` default to the cluster's num.partitions and default.replication.factor; instead,
        `assignments` can say which brokers hold each partition. `config` takes Kafka's names; durations and sizes may
        be text: {"retention.ms": "7d", "segment.bytes": "1GiB"}. With if_exists="ok" an existing topic is returned
        unchanged. A dry run checks the request, creates nothing and returns None. A config that has no effect in the
        cluster's release is logged as a warning.

        Raises TopicExistsError, ConfigError (name, numbers, configs), ConnectError, ottla.TimeoutError.
        """
        one_of(if_exists, "if_exists", ("error", "ok"))
        check_topic(name)
        deadline = self._channel.deadline(timeout)
        topic = _new_topic(name, partitions, replicas, config or {}, assignments or {})
        outcome = self._channel.exchange(creation(topic, dry_run=dry_run), deadline)
        created = outcome.response
        if created.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and (if_exists == "ok" or outcome.repeated):
            return None if dry_run else self._until_served(name, b"", deadline)
        raise_failed(created)
        warn(f"topic {name}", created.warnings)
        return None if dry_run else self._until_served(name, created.topic_id, deadline)

    def delete(
        self, *names: str, if_missing: Literal["error", "ok"] = "error", timeout: Duration | None = None
    ) -> None:
        """Delete topics and all their records, and return once no reachable broker lists them.

        Raises UnknownTopicError for a missing topic unless if_missing="ok"; the other topics are deleted nevertheless.
        """
        one_of(if_missing, "if_missing", ("error", "ok"))
        deadline = self._channel.deadline(timeout)
        outcome = self._channel.exchange(deletion(names), deadline)
        deleted = [topic for topic in outcome.response if not topic.error_code]
        for topic in deleted:
            self._channel.cluster.names.forget(topic.name or "")
        for topic in deleted:
            self._until_gone(topic.name or "", topic.topic_id, deadline)
        for topic in outcome.response:
            missing = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if missing and (if_missing == "ok" or outcome.repeated):
                continue
            if missing:
                otherwise = 'with if_missing="ok", this is not an error'
                raise self._channel.cluster.unknown_topic(topic.name or "", otherwise)
            raise_failed(topic)

    def list(self, *, internal: bool = False, timeout: Duration | None = None) -> Names:
        """Return the names of all topics, sorted; with `internal`, including ottla's internal topics."""
        return [topic.name for topic in self._described((), internal, self._channel.deadline(timeout))]

    def describe(self, *names: str, internal: bool = False, timeout: Duration | None = None) -> Sequence[TopicInfo]:
        """Return the named topics in the given order, or all topics, sorted by name. Raises UnknownTopicError."""
        deadline = self._channel.deadline(timeout)
        described = self._described(names, internal, deadline)
        if not described:
            return described
        leaders = eligible_leaders(self._channel.cluster, names, timeout=deadline.left())
        return [_with_eligible_leaders(topic, leaders) for topic in described] if leaders else described

    def _described(self, names: Sequence[str], internal: bool, deadline: Deadline) -> Sequence[TopicInfo]:
        """Describe topics by Metadata, which names no eligible leaders."""
        view = self._channel.cluster.fetch_metadata(names, all_topics=not names, timeout=deadline.left())
        if not names:
            topics = [view.topics[name] for name in sorted(view.topics)]
            return [_info(topic) for topic in topics if not topic.error and (internal or not topic.is_internal)]
        return [_info(topic_in(self._channel, view, name)) for name in names]

    def exists(self, name: str, *, timeout: Duration | None = None) -> bool:
        """Return whether a topic with that name exists."""
        deadline = self._channel.deadline(timeout)
        topic = self._channel.cluster.fetch_metadata([name], timeout=deadline.left()).topics.get(name)
        return topic is not None and topic.error in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)

    def add_partitions(self, name: str, total: int, *, dry_run: bool = False, timeout: Duration | None = None) -> str:
        """Grow a topic to `total` partitions, and return once every reachable broker serves them.

        Returns a warning: when the number of partitions changes, keys move to other partitions,
        so the order within a key holds only among records written afterwards.

        Raises ConfigError if the topic already has `total` partitions or more, and UnknownTopicError.
        """
        deadline = self._channel.deadline(timeout)
        outcome = self._channel.exchange(growth(name, total, dry_run=dry_run), deadline)
        result = outcome.response
        if not (outcome.repeated and self._has_grown(name, total, result.error_code, deadline)):
            raise_failed(result)
        if not dry_run:
            self._until_served(name, b"", deadline, partitions=total)
        return _keys_move(name, total)

    def _has_grown(self, name: str, total: int, code: int, deadline: Deadline) -> bool:
        """Return whether the topic has these partitions already, although a repeated request for them has failed."""
        if code != ErrorCode.INVALID_PARTITIONS:
            return False
        (topic,) = self._described([name], True, deadline)
        return len(topic.partitions) == total

    def offsets(
        self, name: str, at: OffsetSpec = "latest", *, timeout: Duration | None = None
    ) -> dict[int, int | None]:
        """Return each partition's offset at `at`, where a consumer with that `start` would begin.

        "latest" is the offset of the next record to be written. A time means the first record at or after it, or None
        if no such record exists. Raises UnknownTopicError.
        """
        deadline = self._channel.deadline(timeout)
        (topic,) = self._described([name], True, deadline)
        when = spec_timestamp(at, now_ms=self._channel.cluster.clock.wall_ms())
        timestamps = {TopicPartition(name, partition.partition): when for partition in topic.partitions}
        found = list_offsets(self._channel.cluster, timestamps, timeout=deadline.left())
        return {partition.partition: None if at is None else at.offset for partition, at in sorted(found.items())}

    def first_timestamps(self, name: str, *, timeout: Duration | None = None) -> dict[int, int]:
        """Return, for each partition, the timestamp in ms of its first record that has one; partitions without such a
        record are left out. Raises UnknownTopicError."""
        deadline = self._channel.deadline(timeout)
        (topic,) = self._described([name], True, deadline)
        beginning = {TopicPartition(name, partition.partition): 0 for partition in topic.partitions}
        found = list_offsets(self._channel.cluster, beginning, timeout=deadline.left())
        return {p.partition: at.timestamp for p, at in sorted(found.items()) if at is not None}

    def delete_records(
        self, name: str, before: Mapping[int, int] | None = None, *, timeout: Duration | None = None
    ) -> dict[int, int]:
        """Delete the records below an offset in each partition; None deletes every committed record.

        Returns each partition's first offset afterwards. Raises OffsetOutOfRangeError for an offset beyond the end.
        """
        deadline = self._channel.deadline(timeout)
        (topic,) = self._described([name], True, deadline)
        cuts = dict.fromkeys(range(len(topic.partitions)), _HIGH_WATERMARK) if before is None else dict(before)
        first: dict[int, int] = {}
        delete = partial(self._delete_records, name, bytes.fromhex(topic.id), cuts, first, deadline)
        while cuts.keys() - first.keys():
            self._channel.retried(delete, deadline)
        return dict(sorted(first.items()))

    def _delete_records(
        self, name: str, topic_id: bytes, cuts: Mapping[int, int], first: dict[int, int], deadline: Deadline
    ) -> None:
        """Send a request to each leader of a partition that `first` lacks, and enter the responses. Raises the first
        error."""
        view = self._channel.cluster.fetch_metadata([name], timeout=deadline.left())
        left = [number for number in cuts if number not in first]
        for address, numbers in self._by_leader(view, name, left).items():
            names = self._channel.cluster.names
            asked = deletion_of_records(names, topic_id, {number: cuts[number] for number in numbers})
            deleted = self._channel.cluster.exchange(address, asked, timeout=min(deadline.left(), TRY_S))
            first |= {each.partition_index: each.low_watermark for each in deleted if not each.error_code}
            for each in deleted:
                raise_failed(each)

    # ---- waiting for the brokers -----------------------------------------------------------------------------------

    def _until_served(self, name: str, topic_id: bytes, deadline: Deadline, partitions: int = 1) -> TopicInfo:
        def served(view: ClusterView) -> bool:
            topic = view.topics.get(name)
            if topic is None or len(topic.partitions) < partitions or view.without_leader([name]):
                return False
            return not any(topic_id) or topic.id == topic_id

        view = until_all(self._channel, [name], served, deadline, f"{name} is created")
        # Metadata shows what was decided; only a leader's response shows that it has opened the partition's log.
        ends = {TopicPartition(name, n): LATEST_TIMESTAMP for n in range(len(view.topics[name].partitions))}
        list_offsets(self._channel.cluster, ends, timeout=deadline.left())
        return _info(view.topics[name])

    def _until_gone(self, name: str, topic_id: bytes, deadline: Deadline) -> None:
        def gone(view: ClusterView) -> bool:
            topic = view.topics.get(name)
            return topic is None or bool(topic.error) or topic.id != topic_id

        until_all(self._channel, [name], gone, deadline, f"{name} is deleted")

    def _by_leader(self, view: ClusterView, name: str, numbers: Iterable[int]) -> dict[str, set[int]]:
        topic = topic_in(self._channel, view, name)
        by_leader: dict[str, set[int]] = {}
        for number in numbers:
            by_leader.setdefault(leader_of(view, topic, number), set()).add(number)
        return by_leader


# ---- Kafka's messages ------------------------------------------------------------------------------------------------
def creation(
    topic: CreateTopicsRequest.CreatableTopic, *, dry_run: bool
) -> Exchange[CreateTopicsResponse.CreatableTopicResult]:
    """Return the exchange that creates a topic or, in a dry run, checks whether it could."""

    def build(terms: Terms) -> CreateTopicsRequest:
        return CreateTopicsRequest(topics=[topic], timeout_ms=terms.timeout_ms, validate_only=dry_run)

    return Exchange(CREATE_TOPICS, build, lambda response: response.topics[0])


def deletion(names: Sequence[str]) -> Exchange[Sequence[DeleteTopicsResponse.DeletableTopicResult]]:
    """Return the exchange that deletes these topics. Raises ConfigError for a name that is no string."""
    for name in names:
        if not isinstance(name, str):
            raise config_error(f"{name!r} is no name of a topic", hint="pass strings")
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]

    def build(terms: Terms) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topics=topics, timeout_ms=terms.timeout_ms)

    return Exchange(DELETE_TOPICS, build, lambda response: as_many(response.responses, len(names)))


def growth(name: str, total: int, *, dry_run: bool) -> Exchange[CreatePartitionsResponse.CreatePartitionsTopicResult]:
    """Return the exchange that grows a topic to `total` partitions or, in a dry run, checks whether it could."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total, assignments=None)

    def build(terms: Terms) -> CreatePartitionsRequest:
        return CreatePartitionsRequest(topics=[topic], timeout_ms=terms.timeout_ms, validate_only=dry_run)

    return Exchange(CREATE_PARTITIONS, build, lambda response: response.results[0])


def deletion_of_records(
    names: TopicNames, topic_id: bytes, cuts: Mapping[int, int]
) -> Exchange[Sequence[DeleteRecordsResponse.DeleteRecordsPartitionResult]]:
    """Return the exchange that deletes the records below an offset in each of these partitions."""

    def build(terms: Terms) -> DeleteRecordsRequest:
        new = DeleteRecordsRequest.DeleteRecordsPartition
        partitions = [new(partition_index=number, offset=offset) for number, offset in cuts.items()]
        # If another topic has the name by now, its records must not be deleted.
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=names.name_of(topic_id), partitions=partitions)
        return DeleteRecordsRequest(topics=[topic], timeout_ms=terms.timeout_ms)

    def read(response: DeleteRecordsResponse) -> Sequence[DeleteRecordsResponse.DeleteRecordsPartitionResult]:
        deleted = [partition for topic in response.topics for partition in topic.partitions]
        if missing := cuts.keys() - {partition.partition_index for partition in deleted}:
            raise ValueError(f"it lacks the partitions {sorted(missing)}")
        return deleted

    return Exchange(DELETE_RECORDS, build, read)


# ---- checks ----------------------------------------------------------------------------------------------------------
def as_many(parts: Sequence[T], count: int) -> Sequence[T]:
    """Return the parts of a response. Raises ValueError if they are not as many as the request has."""
    if len(parts) != count:
        raise ValueError(f"it has {len(parts)} parts, and the request {count}")
    return parts


def leader_of(view: ClusterView, topic: TopicView, number: int) -> str:
    """Return the address of a partition's leader. Raises ConfigError, LEADER_NOT_AVAILABLE."""
    check_partition(topic, number)
    route = view.routes.get(TopicPartition(topic.name, number))
    if route is None:
        raise error_from_code(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic.name}-{number} has no leader")
    return route.address


def check_partition(topic: TopicView, number: int) -> None:
    """Raise ConfigError if the topic has no partition of that number."""
    count = len(topic.partitions)
    if not 0 <= number < count:
        raise ConfigError(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.name} has no partition {number}",
            hint=f"its partitions are 0 to {count - 1}",
        )


def topic_in(channel: ControllerChannel, view: ClusterView, name: str) -> TopicView:
    """Return the topic in the view. Raises UnknownTopicError with the nearest names, or the view's error for it."""
    topic = view.topics.get(name)
    if topic is None or topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise channel.cluster.unknown_topic(name)
    if topic.error:
        raise error_from_code(topic.error, topic.error_message)
    return topic


def _with_eligible_leaders(topic: TopicInfo, leaders: Mapping[TopicPartition, EligibleLeaders]) -> TopicInfo:
    def completed(partition: PartitionInfo) -> PartitionInfo:
        found = leaders.get(TopicPartition(topic.name, partition.partition))
        return partition if found is None else replace(partition, **found._asdict())

    return replace(topic, partitions=tuple(map(completed, topic.partitions)))


def _new_topic(
    name: str,
    partitions: int | None,
    replicas: int | None,
    config: Mapping[str, object],
    assignments: Mapping[int, Sequence[int]],
) -> CreateTopicsRequest.CreatableTopic:
    if assignments and (partitions is not None or replicas is not None):
        raise config_error(
            "assignments= can't be combined with partitions= or replicas=", hint="pass only assignments="
        )
    assignment, setting = CreateTopicsRequest.CreatableReplicaAssignment, CreateTopicsRequest.CreatableTopicConfig
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=_DEFAULT if partitions is None else partitions,
        replication_factor=_DEFAULT if replicas is None else replicas,
        configs=[setting(name=key, value=config_text(key, value)) for key, value in config.items()],
        assignments=[
            assignment(partition_index=number, broker_ids=list(brokers)) for number, brokers in assignments.items()
        ],
    )


def _keys_move(name: str, count: int) -> str:
    return (
        f"records with a key may now go to another partition than before: {name} has {count} partitions now, so order "
        "by key holds only from here on"
    )


def _info(topic: TopicView) -> TopicInfo:
    partitions = (
        PartitionInfo(number, p.leader, p.leader_epoch, p.replicas, p.isr, p.offline, p.elr, p.last_known_elr)
        for number, p in enumerate(topic.partitions)
    )
    return TopicInfo(topic.name, topic.id.hex(), tuple(partitions), topic.is_internal)


def warn(owner: str, warnings: Iterable[str]) -> None:
    """Log the controller's warnings of configs that are stored and have no effect."""
    for warning in warnings:
        logger.warning("%s: %s", owner, warning)
