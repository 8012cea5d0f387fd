"""The exchanges that commit offsets for a group, inside and outside of transactions, and that fetch them again.

Newer versions of these requests name topics by their ids. A coordinator can then tell a topic from a later one of the
same name (KIP-848, KIP-1319). A request has names, as in older versions, if the client does not know all of the ids.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT, AnyApi
from ottla.client.kafka.exchange import Exchange, Terms, lacking, raise_failed
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.offsets import OffsetAndMetadata, Offsets
from ottla.client.transaction_requests import suited
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.membership import MemberIdentity
from ottla.machines.transaction import Assigned
from ottla_core.kafka.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from ottla_core.model import TopicPartition
from ottla_core.rpc.parts import commit_in_parts

Failures: TypeAlias = dict[TopicPartition, OttlaError]
"""The error of each partition whose offset was not committed."""

_COMMITTED_BY_ID_FROM: Final = 10
_COMMITTED_IN_TRANSACTION_BY_ID_FROM: Final = 6
_FETCHED_BY_ID_FROM: Final = 10
_SEVERAL_GROUPS_FROM: Final = 8
"""From this version of OffsetFetch on, a request can have several groups (KIP-709)."""
_NO_EPOCH: Final = -1
_FIXED_BYTES: Final = 64
"""An upper bound of the bytes that an offset takes in a request, besides its topic and its metadata."""

_OF_THE_GROUP: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""Errors about the group. Kafka has no error for a whole request, and repeats such an error for each partition."""

P = TypeVar("P")


class Transaction(NamedTuple):
    """The transaction with which offsets are committed."""

    transactional_id: str
    producer: Assigned


def in_parts(group: str, offsets: Offsets) -> Iterator[Offsets]:
    """Yield the offsets in parts that are small enough for one request each."""

    def size_bytes(item: tuple[TopicPartition, OffsetAndMetadata]) -> int:
        return len(item[0].topic.encode()) + len(item[1].metadata.encode()) + _FIXED_BYTES

    return map(dict, commit_in_parts(group, offsets.items(), size_bytes))


def commit(group: str, member: MemberIdentity, offsets: Offsets, names: TopicNames) -> Exchange[Failures]:
    """Return the exchange that commits offsets. Each is for the topic with its `topic_id`, or, without an id, for the
    topic that has the name at the moment.

    Raises an error about the group. Any other error is the failure of its partition.
    """
    whole = _Commit(offsets, names, OFFSET_COMMIT, _COMMITTED_BY_ID_FROM)

    def build(terms: Terms) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(**topic, partitions=partitions)
                for topic, partitions in whole.by_topic(terms, OffsetCommitRequest.OffsetCommitRequestPartition)
            ],
        )

    return Exchange(whole.api, build, whole.failures)


def commit_in_transaction(
    group: str, member: MemberIdentity, offsets: Offsets, names: TopicNames, transaction: Transaction
) -> Exchange[Failures]:
    """Return the exchange that commits offsets in a transaction. They count once it is committed.

    Raises like `commit`.
    """
    api = suited(TXN_OFFSET_COMMIT, transaction.producer.version)
    whole = _Commit(offsets, names, api, _COMMITTED_IN_TRANSACTION_BY_ID_FROM)
    producer = transaction.producer.producer

    def build(terms: Terms) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id=transaction.transactional_id,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(**topic, partitions=partitions)
                for topic, partitions in whole.by_topic(terms, TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition)
            ],
        )

    return Exchange(whole.api, build, whole.failures)


class _Commit:
    """The offsets of one commit.

    A request by name would commit the offsets of a former topic for the topic that has its name now. So these offsets
    are left out, and fail with UNKNOWN_TOPIC_ID.
    """

    def __init__(self, offsets: Offsets, names: TopicNames, api: AnyApi, by_id_from: int) -> None:
        self.api: Final = api if all(offset.topic_id for offset in offsets.values()) else api.before(by_id_from)
        self._offsets: Final = offsets
        self._names: Final = names
        self._by_id_from: Final = by_id_from
        self._left_out: Offsets = {}

    def by_topic(self, terms: Terms, partition: Callable[..., P]) -> Iterator[tuple[dict[str, Any], list[P]]]:
        """Yield the field that names each topic, and the topic's offsets in the form of the request."""
        by_id = terms.version >= self._by_id_from
        self._left_out = {} if by_id else {at: o for at, o in self._offsets.items() if self._is_replaced(at, o)}
        found = grouped(
            (
                offset.topic_id if by_id else at.topic,
                partition(
                    partition_index=at.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=_NO_EPOCH if offset.leader_epoch is None else offset.leader_epoch,
                    committed_metadata=offset.metadata,
                ),
            )
            for at, offset in self._offsets.items()
            if at not in self._left_out
        )
        for key, partitions in found.items():
            yield {"topic_id" if by_id else "name": key}, partitions

    def failures(self, response: OffsetCommitResponse | TxnOffsetCommitResponse) -> Failures:
        """Return the failures in a response. Raises an error about the group."""
        names = {offset.topic_id: at.topic for at, offset in self._offsets.items() if offset.topic_id}
        failures: Failures = {}
        left = dict(self._offsets)
        for topic in response.topics:
            name = topic.name or names.get(topic.topic_id, "")
            for partition in topic.partitions:
                code, at = partition.error_code, TopicPartition(name, partition.partition_index)
                if code in _OF_THE_GROUP:
                    raise_failed(partition)
                if left.pop(at, None) is not None and code:
                    failures[at] = error_from_code(code, partition.error_message)
        if len(left) == len(self._offsets) > len(self._left_out):  # nothing was answered
            raise lacking(self.api, next(at for at in left if at not in self._left_out))
        for at in left:
            former = f"the offset is for a former topic named {at.topic}"
            is_former = at in self._left_out
            failures[at] = error_from_code(ErrorCode.UNKNOWN_TOPIC_ID, former) if is_former else lacking(self.api, at)
        return failures

    def _is_replaced(self, at: TopicPartition, offset: OffsetAndMetadata) -> bool:
        """Return whether the name of the offset's topic belongs to another topic, as far as this client knows."""
        current = self._names.id_of(at.topic)
        return bool(offset.topic_id) and any(current) and current != offset.topic_id


def commit_first(group: str, member: MemberIdentity, offsets: Offsets) -> Exchange[Failures]:
    """Return the exchange that commits the offsets of those partitions in which the group has committed nothing yet.

    Only coordinators of ottla can compare and commit in one step.
    """
    from ottla.client.kafka.private_call import private_call
    from ottla_proto import group_pb2 as pb
    from ottla_proto.contracts import Group

    def read(response: pb.CommitOffsetsResponse) -> Failures:
        return {
            TopicPartition(each.topic, each.partition): error_from_code(each.error.code, each.error.message)
            for each in response.partitions
            if each.error.code
        }

    request = pb.CommitOffsetsRequest(
        group=group,
        member=pb.Member(member_id=member.member_id, instance_id=member.instance_id),
        generation=member.generation,
        only_first=True,
        offsets=[
            pb.OffsetToCommit(
                topic=at.topic,
                partition=at.partition,
                offset=offset.offset,
                leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                topic_id=offset.topic_id or b"",
            )
            for at, offset in offsets.items()
        ],
    )
    return private_call(Group.COMMIT_OFFSETS, request, read)


def fetch(
    group: str, partitions: Collection[TopicPartition] | None, names: TopicNames, *, require_stable: bool = False
) -> Exchange[Offsets]:
    """Return the exchange that fetches the committed offsets of some partitions, or of all (None).

    Partitions without a committed offset are left out. If the request has ids, offsets of an earlier topic with that
    name are left out, too, and each offset has the `topic_id` of its topic. Otherwise `topic_id` is None.

    Raises the error of the group or of a partition. With `require_stable`, that is UNSTABLE_OFFSET_COMMIT while an open
    transaction has an offset of the partition. Then the caller tries again (KIP-447).
    """
    numbers = grouped((partition.topic, partition.partition) for partition in partitions or ())
    ids = {name: names.id_of(name) for name in numbers}
    names_by_id = {topic_id: name for name, topic_id in ids.items()}
    by_id = partitions is not None and all(map(any, ids.values()))

    def topics(kind: Callable[..., P], version: int) -> list[P] | None:
        if partitions is None:
            return None
        if version >= _FETCHED_BY_ID_FROM:
            return [kind(topic_id=ids[name], partition_indexes=each) for name, each in numbers.items()]
        return [kind(name=name, partition_indexes=each) for name, each in numbers.items()]

    def build(terms: Terms) -> OffsetFetchRequest:
        if terms.version < _SEVERAL_GROUPS_FROM:
            named = topics(OffsetFetchRequest.OffsetFetchRequestTopic, terms.version)
            return OffsetFetchRequest(group_id=group, topics=named, require_stable=require_stable)
        named_or_by_id = topics(OffsetFetchRequest.OffsetFetchRequestTopics, terms.version)
        of_group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=named_or_by_id)
        return OffsetFetchRequest(groups=[of_group], require_stable=require_stable)

    def read(response: OffsetFetchResponse) -> Offsets:
        of_group: Any = next(iter(response.groups), response)  # before version 8 the message itself is about the group
        raise_failed(of_group)
        return dict(_committed(of_group.topics, names_by_id))

    return Exchange(OFFSET_FETCH if by_id else OFFSET_FETCH.before(_FETCHED_BY_ID_FROM), build, read)


def _committed(
    topics: Iterable[Any], names_by_id: Mapping[bytes, str]
) -> Iterator[tuple[TopicPartition, OffsetAndMetadata]]:
    for topic in topics:
        name, topic_id = topic.name, None
        if not name:
            name, topic_id = names_by_id.get(topic.topic_id, ""), topic.topic_id
        for each in topic.partitions:
            raise_failed(each)
            if each.committed_offset >= 0:
                epoch = None if each.committed_leader_epoch == _NO_EPOCH else each.committed_leader_epoch
                offset = OffsetAndMetadata(each.committed_offset, each.metadata or "", epoch, topic_id)
                yield TopicPartition(name, each.partition_index), offset
