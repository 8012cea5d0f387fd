"""AddPartitionsToTxn (key 24), versions 0 to 3: partitions become part of a transaction (KIP-98).

v2 adds PRODUCER_FENCED (KIP-588). Later versions are of brokers among themselves, which have a contract of their own
here (`Txn.AddPartitions`); clients of transactions v2 leave it to them (KIP-890). All are added or none, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.transaction_calls import call, results_by_topic
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.machines.guards import AddedBy
from ottla_broker.replication.addition import PassingAddition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla_core.model import PartitionId, TopicPartition
from ottla_core.rpc.status import raise_error
from ottla_core.security.resource import ResourceType
from ottla_core.transactions import TRANSACTIONS_V1
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import TxnProducer
from ottla_proto.contracts import Txn
from ottla_proto.operation import Operation

_Topic: TypeAlias = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_Partition: TypeAlias = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult

_UNKNOWN: Final = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_NOT_ATTEMPTED: Final = int(ErrorCode.OPERATION_NOT_ATTEMPTED)


async def handle(
    backend: Backend, request: AddPartitionsToTxnRequest, context: KafkaContext
) -> AddPartitionsToTxnResponse:
    access, named = context.access, await _named(request)
    refused = access.refused(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    topics = (topic.name for topic in request.v3_and_below_topics)
    denied = await access.denied(Operation.WRITE, ResourceType.TOPIC, topics)
    ids = dict(zip(named, await sliced(partial(_id_of, backend), named), strict=True))
    if refused is not None:
        codes = dict.fromkeys(named, refused.code)
    elif denied or None in ids.values():
        codes = {p: _UNKNOWN if partition_id is None else _NOT_ATTEMPTED for p, partition_id in ids.items()}
        codes |= {p: denied[p.topic].code for p in named if p.topic in denied}
    else:
        codes = await _add(backend, request, ids)

    def result(number: int, code: int) -> _Partition:
        return _Partition(partition_index=number, partition_error_code=code)

    by_topic = await results_by_topic(codes, result)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            _Topic(name=name, results_by_partition=results) for name, results in by_topic.items()
        ]
    )


async def _named(request: AddPartitionsToTxnRequest) -> list[TopicPartition]:
    """Return each named partition once."""
    named: dict[TopicPartition, None] = {}
    time_slice = Slice()
    for topic in request.v3_and_below_topics:
        partitions = await sliced(partial(TopicPartition, topic.name), topic.partitions, time_slice)
        named |= dict.fromkeys(partitions)
    return list(named)


def _id_of(backend: Backend, partition: TopicPartition) -> PartitionId | None:
    """None for a partition that does not exist."""
    topic = backend.image.topics.get(partition.topic)
    if topic is None or not 0 <= partition.partition < topic.partition_count:
        return None
    return PartitionId(topic.id, partition.partition)


async def _add(
    backend: Backend, request: AddPartitionsToTxnRequest, ids: Mapping[TopicPartition, PartitionId | None]
) -> dict[TopicPartition, int]:
    added_by = AddedBy(
        request.v3_and_below_transactional_id, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
    )
    passing = PassingAddition(backend.replicas.table, added_by)
    codes: dict[TopicPartition, int] = {}
    try:
        await sliced(lambda named: passing.begin(*named), ids.items())
        codes = await _ask(backend, added_by, list(ids))
    finally:
        passing.end(codes)
    return codes


async def _ask(backend: Backend, added_by: AddedBy, named: list[TopicPartition]) -> dict[TopicPartition, int]:
    transactional_id = added_by.transactional_id
    addition = pb.PartitionsToAdd(
        transactional_id=transactional_id,
        producer=TxnProducer(id=added_by.producer_id, epoch=added_by.producer_epoch),
        partitions=[pb.TxnPartition(topic=p.topic, partition=p.partition) for p in named],
        transaction_version=TRANSACTIONS_V1,
    )
    try:
        response = await call(
            backend, transactional_id, Txn.ADD_PARTITIONS, pb.AddPartitionsRequest(transactions=[addition])
        )
        [added] = response.transactions
        raise_error(added.error)
    except OttlaError as error:
        return dict.fromkeys(named, error.code)
    return {p: error.code for p, error in zip(named, added.partitions, strict=True)}


API: Final = control(
    AddPartitionsToTxnRequest,
    (0, 3),
    handle,
    needs=needs((Operation.WRITE, ResourceType.TRANSACTIONAL_ID), (Operation.WRITE, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "schema (v2, v5); TransactionCoordinator, handleAddPartitionsToTransaction; KIP-588, KIP-890",
        error_codes.TRANSACTION | error_codes.TOPIC | {ErrorCode.OPERATION_NOT_ATTEMPTED},
        {**error_codes.fenced(2), **error_codes.abortable(5)},
        error_codes.COORDINATORS_LOG,
    ),
    forwards=Txn.ADD_PARTITIONS,
)
