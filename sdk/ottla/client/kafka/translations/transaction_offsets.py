"""Group.CommitOffsets in a transaction is Kafka's TxnOffsetCommit."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import TXN_OFFSET_COMMIT, TXN_OFFSET_COMMIT_BY_NAME, AnyApi
from ottla.client.kafka.translations.committed_offsets import OffsetsByTopic
from ottla.client.kafka.translations.groups import instance_id_of
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla_proto import group_pb2 as pb

_IDS_FROM: Final = 6
"""From this version on topics are named by their ids (KIP-1319)."""


class TransactionOffsetsTranslation:
    """Translates a commit of offsets that count once their transaction is committed.

    As in `OffsetCommitTranslation`, topics are named by their ids if all of these are known.
    """

    def __init__(self, request: pb.CommitOffsetsRequest) -> None:
        by_id = all(offset.topic_id for offset in request.offsets)
        self.api: Final[AnyApi] = TXN_OFFSET_COMMIT if by_id else TXN_OFFSET_COMMIT_BY_NAME
        self._offsets: Final = OffsetsByTopic(request.offsets)

    def request(self, request: pb.CommitOffsetsRequest, terms: Terms) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id=request.transaction.transactional_id,
            group_id=request.group,
            producer_id=request.transaction.producer.id,
            producer_epoch=request.transaction.producer.epoch,
            generation_id_or_member_epoch=request.generation,
            member_id=request.member.member_id,
            group_instance_id=instance_id_of(request.member),
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(**named, partitions=partitions)
                for named, partitions in self._offsets.topics(
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition,
                    terms.names,
                    by_id=terms.version >= _IDS_FROM,
                )
            ],
        )

    def response(self, response: TxnOffsetCommitResponse, terms: Terms) -> pb.CommitOffsetsResponse:
        return self._offsets.outcomes(response, by_id=terms.version >= _IDS_FROM)
