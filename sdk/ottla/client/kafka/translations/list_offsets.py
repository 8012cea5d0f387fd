"""Broker.ListOffsets is Kafka's ListOffsets, which names topics by their names."""

from __future__ import annotations

from functools import partial
from typing import Final

from ottla.client.kafka.apis import LIST_OFFSETS, AnyApi
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.named_topics import NamedTopics
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import ListOffsetsRequest, ListOffsetsResponse
from ottla_core.model import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_TIMESTAMP
from ottla_proto import broker_pb2 as pb

_LOCAL_FROM: Final = 8
"""Version 8 knows the timestamp for the first record on the broker's own disk (KIP-405). Earlier brokers have no other
records."""
_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1


class ListOffsetsTranslation:
    """Translates a request for the offsets at some timestamps."""

    api: Final[AnyApi] = LIST_OFFSETS

    def __init__(self) -> None:
        self._topics: Final = NamedTopics()

    def request(self, request: pb.ListOffsetsRequest, terms: Terms) -> ListOffsetsRequest:
        topics = self._topics.group(request.partitions, partial(_partition, version=terms.version), terms.names)
        return ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=_READ_COMMITTED if request.read_committed else 0,
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
            timeout_ms=terms.timeout_ms,
        )

    def response(self, response: ListOffsetsResponse, terms: Terms) -> pb.ListOffsetsResponse:
        return pb.ListOffsetsResponse(
            partitions=[
                pb.PartitionOffset(
                    topic_id=topic_id,
                    partition=partition.partition_index,
                    error=error_of(partition.error_code, partition.error_message),
                    offset=partition.offset,
                    timestamp_ms=partition.timestamp,
                    leader_epoch=partition.leader_epoch,
                )
                for topic_id, partition in self._topics.with_ids((t.name, t.partitions) for t in response.topics)
            ]
        )


def _partition(part: pb.ListOffsetsPartition, version: int) -> ListOffsetsRequest.ListOffsetsPartition:
    is_local = part.timestamp_ms == EARLIEST_LOCAL_TIMESTAMP
    return ListOffsetsRequest.ListOffsetsPartition(
        partition_index=part.partition,
        current_leader_epoch=part.current_leader_epoch if part.HasField("current_leader_epoch") else -1,
        timestamp=EARLIEST_TIMESTAMP if is_local and version < _LOCAL_FROM else part.timestamp_ms,
    )
