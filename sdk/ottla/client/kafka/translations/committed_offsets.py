"""What commits of offsets share, inside and outside of transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.grouping import grouped
from ottla_core.kafka.messages import OffsetCommitResponse, TxnOffsetCommitResponse
from ottla_proto import group_pb2 as pb

Partition = TypeVar("Partition")


def topics_of(
    request: pb.CommitOffsetsRequest, new_partition: Callable[..., Partition], *, by_id: bool
) -> Iterator[tuple[dict[str, Any], list[Partition]]]:
    """Yield the field that names each topic, and the topic's offsets."""
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
    )
    for key, partitions in found.items():
        yield {"topic_id" if by_id else "name": key}, partitions


def outcomes_of(
    response: OffsetCommitResponse | TxnOffsetCommitResponse, names: Mapping[bytes, str], *, by_id: bool
) -> pb.CommitOffsetsResponse:
    """Return the outcome of each offset. `names` has the names of topics by their ids."""
    committed = pb.CommitOffsetsResponse()
    for topic in response.topics:
        name = names.get(topic.topic_id, "") if by_id else topic.name
        for partition in topic.partitions:
            error = error_of(partition.error_code, partition.error_message)
            committed.partitions.add(topic=name, partition=partition.partition_index, error=error)
    return committed
