"""The methods of the clients' contracts that Kafka's messages can express, each with its translation. All others use
the private API, which brokers serve for some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from ottla.client.kafka.translations.delete_groups import DeleteGroupsTranslation
from ottla.client.kafka.translations.describe_consumer_groups import DescribeConsumerGroupsTranslation
from ottla.client.kafka.translations.describe_groups import DescribeGroupsTranslation
from ottla.client.kafka.translations.epoch_ends import EpochEndsTranslation
from ottla.client.kafka.translations.fetch import FetchSession
from ottla.client.kafka.translations.heartbeat import HeartbeatTranslation
from ottla.client.kafka.translations.join_group import JoinGroupTranslation
from ottla.client.kafka.translations.leave_group import LeaveGroupTranslation
from ottla.client.kafka.translations.list_groups import ListGroupsTranslation
from ottla.client.kafka.translations.list_offsets import ListOffsetsTranslation
from ottla.client.kafka.translations.metadata import MetadataTranslation
from ottla.client.kafka.translations.offset_commit import OffsetCommitTranslation
from ottla.client.kafka.translations.offset_delete import OffsetDeleteTranslation
from ottla.client.kafka.translations.offset_fetch import OffsetFetchTranslation
from ottla.client.kafka.translations.private import PrivateTranslation
from ottla.client.kafka.translations.produce import ProduceTranslation
from ottla.client.kafka.translations.producer_id import ProducerIdTranslation
from ottla.client.kafka.translations.producers import DescribeProducersTranslation, WriteTxnMarkersTranslation
from ottla.client.kafka.translations.sync_group import SyncGroupTranslation
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.client.kafka.translations.transaction_listings import (
    DescribeTransactionsTranslation,
    ListTransactionsTranslation,
)
from ottla.client.kafka.translations.transaction_offsets import TransactionOffsetsTranslation
from ottla.client.kafka.translations.transactions import (
    AddOffsetsTranslation,
    AddPartitionsTranslation,
    EndTxnTranslation,
    InitProducerTranslation,
)
from ottla.client.kafka.translations.translation import Translation
from ottla_proto import group_pb2
from ottla_proto.client_calls import Client
from ottla_proto.contracts import Broker, Group, Method, Txn

_TRANSLATIONS: Final[Mapping[str, Callable[[], Translation]]] = {
    Client.METADATA.path: MetadataTranslation,
    Client.PRODUCE.path: ProduceTranslation,
    Broker.LIST_OFFSETS.path: ListOffsetsTranslation,
    Client.OFFSETS_FOR_LEADER_EPOCH.path: EpochEndsTranslation,
    Client.INIT_PRODUCER_ID.path: ProducerIdTranslation,
    Client.DESCRIBE_PRODUCERS.path: DescribeProducersTranslation,
    Broker.WRITE_TXN_MARKERS.path: WriteTxnMarkersTranslation,
    Txn.INIT_PRODUCER.path: InitProducerTranslation,
    Txn.ADD_PARTITIONS.path: AddPartitionsTranslation,
    Txn.ADD_OFFSETS.path: AddOffsetsTranslation,
    Txn.END_TXN.path: EndTxnTranslation,
    Txn.LIST_TRANSACTIONS.path: ListTransactionsTranslation,
    Txn.DESCRIBE_TRANSACTIONS.path: DescribeTransactionsTranslation,
    Group.JOIN.path: JoinGroupTranslation,
    Group.SYNC.path: SyncGroupTranslation,
    Group.HEARTBEAT.path: HeartbeatTranslation,
    Group.LEAVE.path: LeaveGroupTranslation,
    Group.LIST_GROUPS.path: ListGroupsTranslation,
    Group.DESCRIBE_GROUPS.path: DescribeGroupsTranslation,
    Client.DESCRIBE_CONSUMER_GROUPS.path: DescribeConsumerGroupsTranslation,
    Group.DELETE_GROUPS.path: DeleteGroupsTranslation,
    Group.DELETE_OFFSETS.path: OffsetDeleteTranslation,
}


def _commit(request: group_pb2.CommitOffsetsRequest, names: TopicNames) -> Translation:
    if request.HasField("transaction"):
        return TransactionOffsetsTranslation(request)
    if request.only_first:
        return PrivateTranslation(Group.COMMIT_OFFSETS)
    return OffsetCommitTranslation(request)


_BY_REQUEST: Final[Mapping[str, Callable[[Any, TopicNames], Translation]]] = {
    Group.COMMIT_OFFSETS.path: _commit,
    Group.FETCH_OFFSETS.path: OffsetFetchTranslation,
}
"""The methods whose requests decide which API, or which versions of an API, can express them."""


def translation_of(method: Method[Any, Any], request: Any, names: TopicNames) -> Translation:
    """Return a new translation for a single call of a method. Raises like `translations_of`."""
    by_request = _BY_REQUEST.get(method.path)
    return translations_of(method)() if by_request is None else by_request(request, names)


def translations_of(method: Method[Any, Any]) -> Callable[[], Translation]:
    """Return a function that makes the translation of each call of a method on one stream."""
    if method is Broker.FETCH:
        return FetchSession()
    return _TRANSLATIONS.get(method.path) or partial(PrivateTranslation, method)
