"""DescribeTransactions (key 65), version 0: transactions as their coordinators describe them (KIP-664)."""

from __future__ import annotations

from functools import partial
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.access import Access
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import shortened
from ottla_broker.kafka.forwarding.transaction_calls import IDS_AT_ONCE, call
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import few_at_once
from ottla_core.kafka.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla_core.rpc.status import error_message
from ottla_core.security.resource import ResourceType
from ottla_proto import txn_pb2 as pb
from ottla_proto.contracts import Txn
from ottla_proto.operation import Operation

_State: TypeAlias = DescribeTransactionsResponse.TransactionState
_Event: TypeAlias = DescribeTransactionsResponse.TransactionEvent
_Topic: TypeAlias = DescribeTransactionsResponse.TopicData


async def handle(
    backend: Backend, request: DescribeTransactionsRequest, context: KafkaContext
) -> DescribeTransactionsResponse:
    requested = list(dict.fromkeys(request.transactional_ids))  # each once, however often it is named
    states = await few_at_once(partial(_described, backend, context.access), requested, at_once=IDS_AT_ONCE)
    return DescribeTransactionsResponse(transaction_states=states)


async def _described(backend: Backend, access: Access, transactional_id: str) -> _State:
    request = pb.DescribeTransactionsRequest(transactional_ids=[transactional_id])
    try:
        access.check(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        found = (await call(backend, transactional_id, Txn.DESCRIBE_TRANSACTIONS, request)).transactions[0]
    except OttlaError as error:
        found = pb.TransactionDescription(transactional_id=transactional_id, error=error_message(error))
    return _reported(found, access)


def _reported(found: pb.TransactionDescription, access: Access) -> _State:
    """Report a transaction, without the topics that the client may not describe."""
    by_topic: dict[str, list[int]] = {}
    for partition in found.partitions:
        if access.allows(Operation.DESCRIBE, ResourceType.TOPIC, partition.topic):
            by_topic.setdefault(partition.topic, []).append(partition.partition)
    return _State(
        error_code=found.error.code,
        transactional_id=found.transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_at_ms,
        producer_id=found.producer.id,
        producer_epoch=found.producer.epoch,
        topics=[_Topic(topic=name, partitions=numbers) for name, numbers in by_topic.items()],
        error_message=shortened(found.error.message),
        updated_at_ms=found.updated_at_ms,
        prepared=found.prepared,
        transaction_version=found.transaction_version,
        events=[_event(event) for event in found.events],
        shard=found.shard,
        coordinator=found.coordinator,
    )


def _event(event: pb.TransactionEvent) -> _Event:
    return _Event(
        at_ms=event.at_ms,
        kind=event.kind,
        producer_id=event.producer.id,
        producer_epoch=event.producer.epoch,
        client_id=event.client_id,
        client_host=event.client_host,
        cause=event.cause,
    )


API: Final = control(
    DescribeTransactionsRequest,
    (0, 0),
    handle,
    needs=needs((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID), (Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "DescribeTransactionsResponse; KIP-664",
        error_codes.COORDINATOR
        | {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED},
        instead=error_codes.COORDINATORS_LOG,
    ),
    forwards=Txn.DESCRIBE_TRANSACTIONS,
)
