"""Group.CommitOffsets is Kafka's OffsetCommit.

Kafka has no error for a whole request, and repeats an error about the group for each partition. Here that becomes the
error of the response, where clients look to see whether the coordinator has moved.
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import OFFSET_COMMIT, OFFSET_COMMIT_BY_NAME, AnyApi
from ottla.client.kafka.translations.committed_offsets import OffsetsByTopic
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.groups import instance_id_of
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode
from ottla_core.kafka.messages import OffsetCommitRequest, OffsetCommitResponse
from ottla_proto import group_pb2 as pb

_IDS_FROM: Final = 10
"""From this version on topics are named by their ids (KIP-848)."""
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


class OffsetCommitTranslation:
    """Translates a commit of offsets, with an outcome for each.

    The request names topics by their ids if all of these are known. A coordinator can then tell a topic from a later
    one of the same name. Otherwise the request has names, as in older versions.
    """

    def __init__(self, request: pb.CommitOffsetsRequest) -> None:
        self.api: Final[AnyApi] = OFFSET_COMMIT if all(o.topic_id for o in request.offsets) else OFFSET_COMMIT_BY_NAME
        self._offsets: Final = OffsetsByTopic(request.offsets)

    def request(self, request: pb.CommitOffsetsRequest, terms: Terms) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=request.group,
            generation_id_or_member_epoch=request.generation,
            member_id=request.member.member_id,
            group_instance_id=instance_id_of(request.member),
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(**named, partitions=partitions)
                for named, partitions in self._offsets.topics(
                    OffsetCommitRequest.OffsetCommitRequestPartition, terms.names, by_id=terms.version >= _IDS_FROM
                )
            ],
        )

    def response(self, response: OffsetCommitResponse, terms: Terms) -> pb.CommitOffsetsResponse:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code in _OF_THE_GROUP:
                    error = error_of(partition.error_code, partition.error_message)
                    return pb.CommitOffsetsResponse(error=error)
        return self._offsets.outcomes(response, by_id=terms.version >= _IDS_FROM)
