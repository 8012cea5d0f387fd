"""What commits of offsets share, inside and outside of transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from ottla.client.grouping import grouped
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.errors import ErrorCode
from ottla_core.kafka.messages import OffsetCommitResponse, TxnOffsetCommitResponse
from ottla_proto import group_pb2 as pb

Partition = TypeVar("Partition")


class OffsetsByTopic:
    """The offsets of one commit, by topic.

    A request by name would commit offsets of a former topic in the topic that has its name now. So these offsets are
    left out, and fail with UNKNOWN_TOPIC_ID.
    """

    def __init__(self, offsets: Sequence[pb.OffsetToCommit]) -> None:
        self._offsets: Final = offsets
        self._left_out: Sequence[pb.OffsetToCommit] = ()

    def topics(
        self, new_partition: Callable[..., Partition], names: TopicNames, *, by_id: bool
    ) -> Iterator[tuple[dict[str, Any], list[Partition]]]:
        """Yield the field that names each topic, and the topic's offsets."""
        replaced = frozenset() if by_id else replaced_topics(self._offsets, names)
        self._left_out = [offset for offset in self._offsets if offset.topic_id in replaced]
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
            for offset in self._offsets
            if offset.topic_id not in replaced
        )
        for key, partitions in found.items():
            yield {"topic_id" if by_id else "name": key}, partitions

    def outcomes(
        self, response: OffsetCommitResponse | TxnOffsetCommitResponse, *, by_id: bool
    ) -> pb.CommitOffsetsResponse:
        """Return the outcome of each offset."""
        names = {offset.topic_id: offset.topic for offset in self._offsets}
        committed = pb.CommitOffsetsResponse()
        for topic in response.topics:
            name = names.get(topic.topic_id, "") if by_id else topic.name
            for partition in topic.partitions:
                error = error_of(partition.error_code, partition.error_message)
                committed.partitions.add(topic=name, partition=partition.partition_index, error=error)
        for offset in self._left_out:
            error = error_of(ErrorCode.UNKNOWN_TOPIC_ID, f"the offset is for a former topic named {offset.topic}")
            committed.partitions.add(topic=offset.topic, partition=offset.partition, error=error)
        return committed


def replaced_topics(offsets: Sequence[pb.OffsetToCommit], names: TopicNames) -> frozenset[bytes]:
    """Return the topic ids of `offsets` whose name belongs to another topic, as far as this client knows."""
    known = {offset.topic_id: names.id_of(offset.topic) for offset in offsets if offset.topic_id}
    return frozenset(topic_id for topic_id, current in known.items() if any(current) and current != topic_id)
