"""OffsetCommit (key 8), versions 2 to 10: offsets of a group, of topics that exist.

v5 drops the retention time; v6 adds leader epochs (KIP-320); v7 the group instance id (KIP-345); v10 names topics by
id.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka.protocol.consumer import OffsetCommitResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.kafka.group_calls import IDS_FROM, call, code_of, instance_of, member, name_of, partitions_there
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_core.slices import Slice, sliced
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Group

_Topic: Final = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition: Final = _Topic.OffsetCommitResponsePartition

_TOO_LARGE: Final = frozenset({ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE})


class Wanted(NamedTuple):
    """A topic of the request; `name` is None where nobody knows it."""

    name: str | None
    topic: Message


async def answer(backend: Backend, asked: Message, request: KafkaContext) -> Message:
    version = request.version
    wanted: list[Wanted] = []
    named: dict[TopicPartition, tuple[Message, bytes]] = {}
    turn = Slice()
    for topic in asked.topics:
        await turn.rest()
        name = name_of(backend, topic, version)
        wanted.append(Wanted(name, topic))
        if name is not None:  # of what names a partition twice the last holds, as it would if it were committed twice
            there = partitions_there(backend, name)
            topic_id = topic.topic_id.bytes if version >= IDS_FROM else b""
            named |= {
                TopicPartition(name, p.partition_index): (p, topic_id)
                for p in topic.partitions
                if p.partition_index in there
            }
    codes = await _commit(backend, asked, await sliced(_offset, named.items()))
    topics = [await _told(each, codes, version, turn) for each in wanted]
    return OffsetCommitResponse(version=version, topics=topics)


def _offset(named: tuple[TopicPartition, tuple[Message, bytes]]) -> pb.OffsetToCommit:
    partition, (each, topic_id) = named
    epoch = getattr(each, "committed_leader_epoch", -1)
    return pb.OffsetToCommit(
        topic=partition.topic,
        partition=partition.partition,
        offset=each.committed_offset,
        leader_epoch=None if epoch < 0 else epoch,
        metadata=each.committed_metadata or "",
        topic_id=topic_id,
    )


async def _commit(backend: Backend, asked: Message, offsets: list[pb.OffsetToCommit]) -> dict[TopicPartition, int]:
    """The code for each partition that was passed on."""
    wanted = pb.CommitOffsetsRequest(
        group=asked.group_id,
        member=member(asked.member_id, instance_of(asked)),
        generation=asked.generation_id_or_member_epoch,
        offsets=offsets,
    )
    try:
        response = await call(backend, asked.group_id, Group.COMMIT_OFFSETS, wanted)
        whole = _whole(response.error)
    except OttlaError as error:
        whole = _whole(error)
    if whole:
        return {TopicPartition(each.topic, each.partition): whole for each in offsets}
    return {TopicPartition(each.topic, each.partition): code_of(each.error) for each in response.partitions}


def _whole(error: Error | OttlaError) -> int:
    return int(ErrorCode.INVALID_COMMIT_OFFSET_SIZE) if error.code in _TOO_LARGE else code_of(error)


async def _told(wanted: Wanted, codes: dict[TopicPartition, int], version: int, turn: Slice) -> Message:
    unknown = int(ErrorCode.UNKNOWN_TOPIC_ID if wanted.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def told(number: int) -> Message:
        code = codes.get(TopicPartition(wanted.name or "", number), unknown)
        return _Partition(version=version, partition_index=number, error_code=code)

    partitions = await sliced(told, dict.fromkeys(each.partition_index for each in wanted.topic.partitions), turn)
    if version >= IDS_FROM:
        return _Topic(version=version, topic_id=wanted.topic.topic_id, partitions=partitions)
    return _Topic(version=version, name=wanted.topic.name, partitions=partitions)
