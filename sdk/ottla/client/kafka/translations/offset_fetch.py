"""Group.FetchOffsets is Kafka's OffsetFetch for one group.

Kafka's response does not say when an offset was committed.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import OFFSET_FETCH, OFFSET_FETCH_BY_NAME, AnyApi
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import OffsetFetchRequest, OffsetFetchResponse
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error

_SEVERAL_FROM: Final = 8
"""From this version on a request has several groups (KIP-709)."""
_IDS_FROM: Final = 10
"""From this version on topics are named by their ids (KIP-848)."""
_NO_EPOCH: Final = -1


class OffsetFetchTranslation:
    """Translates a request for the offsets that a group has committed.

    If the request names topics by their ids, the coordinator leaves out offsets of an earlier topic of the same name.
    If an id is unknown, or all topics are wanted, the request has names, as in older versions.
    """

    def __init__(self, request: pb.FetchOffsetsRequest, names: TopicNames) -> None:
        numbers = grouped((partition.topic, partition.partition) for partition in request.partitions)
        ids = {name: names.id_of(name) for name in numbers}
        self.api: Final[AnyApi] = (
            OFFSET_FETCH if not request.all and all(map(any, ids.values())) else OFFSET_FETCH_BY_NAME
        )
        self._numbers: Final = numbers
        self._ids: Final = ids
        self._names: Final = {topic_id: name for name, topic_id in ids.items()}

    def request(self, request: pb.FetchOffsetsRequest, terms: Terms) -> OffsetFetchRequest:
        if terms.version < _SEVERAL_FROM:
            topics = self._topics(OffsetFetchRequest.OffsetFetchRequestTopic, terms.version)
            return OffsetFetchRequest(
                group_id=request.group, topics=None if request.all else topics, require_stable=request.require_stable
            )
        topics = self._topics(OffsetFetchRequest.OffsetFetchRequestTopics, terms.version)
        group = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=request.group, topics=None if request.all else topics
        )
        return OffsetFetchRequest(groups=[group], require_stable=request.require_stable)

    def response(self, response: OffsetFetchResponse, terms: Terms) -> pb.FetchOffsetsResponse:
        group: Any = next(iter(response.groups), response)  # before version 8 the message itself is about the group
        found = pb.FetchOffsetsResponse(error=Error(code=group.error_code))
        for topic in group.topics:
            topic_id = b"" if terms.version < _IDS_FROM else topic.topic_id
            name = self._names.get(topic_id, "") if topic_id else topic.name
            for partition in topic.partitions:
                epoch = partition.committed_leader_epoch
                found.offsets.add(
                    topic=name,
                    partition=partition.partition_index,
                    error=Error(code=partition.error_code),
                    offset=partition.committed_offset,
                    leader_epoch=None if epoch == _NO_EPOCH else epoch,
                    metadata=partition.metadata or "",
                    topic_id=topic_id,
                )
        return found

    def _topics(self, kind: Any, version: int) -> list[Any]:
        if version >= _IDS_FROM:
            return [kind(topic_id=self._ids[name], partition_indexes=each) for name, each in self._numbers.items()]
        return [kind(name=name, partition_indexes=each) for name, each in self._numbers.items()]
