"""What commits of offsets share, inside and outside of transactions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.grouping import grouped
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.errors import ErrorCode
from ottla_core.kafka.messages import OffsetCommitResponse, TxnOffsetCommitResponse
from ottla_proto import group_pb2 as pb

Partition = TypeVar("Partition")


def replaced_topics(request: pb.CommitOffsetsRequest, names: TopicNames) -> set[bytes]:
    """Return the ids in the request whose name belongs to another topic, as far as this client knows.

    A request by name would commit their offsets in that topic.
    """
    known = {offset.topic_id: names.id_of(offset.topic) for offset in request.offsets if offset.topic_id}
    return {topic_id for topic_id, current in known.items() if any(current) and current != topic_id}


def topics_of(
    request: pb.CommitOffsetsRequest,
    new_partition: Callable[..., Partition],
    *,
    by_id: bool,
    without: Container[bytes] = (),
) -> Iterator[tuple[dict[str, Any], list[Partition]]]:
    """Yield the field that names each topic, and the topic's offsets, `without` topics of these ids."""
    found = grouped(
        (
            offset.topic_id if by_id else offset.topic,
            new_partition(
                partition_index=offset.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch if offset.HasField("leader_epoch") else -1,
                committed_metadata=offset.metadata,
            ),
        )
        for offset in request.offsets
        if offset.topic_id not in without
    )
    for key, partitions in found.items():
        yield {"topic_id" if by_id else "name": key}, partitions


def outcomes_of(
    response: OffsetCommitResponse | TxnOffsetCommitResponse,
    names: Mapping[bytes, str],
    *,
    by_id: bool,
    left_out: Iterable[tuple[str, int]] = (),
) -> pb.CommitOffsetsResponse:
    """Return the outcome of each offset. `names` has the names of topics by their ids. The partitions that were
    `left_out` of the request fail with UNKNOWN_TOPIC_ID."""
    committed = pb.CommitOffsetsResponse()
    for topic in response.topics:
        name = names.get(topic.topic_id, "") if by_id else topic.name
        for partition in topic.partitions:
            error = error_of(partition.error_code, partition.error_message)
            committed.partitions.add(topic=name, partition=partition.partition_index, error=error)
    for name, number in left_out:
        error = error_of(ErrorCode.UNKNOWN_TOPIC_ID, f"the offset is for a former topic named {name}")
        committed.partitions.add(topic=name, partition=number, error=error)
    return committed
