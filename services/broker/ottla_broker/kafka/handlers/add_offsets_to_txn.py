"""AddOffsetsToTxn (key 25), versions 0 to 4: the offsets of a group become part of a transaction (KIP-98).

v2 adds PRODUCER_FENCED (KIP-588); v4 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import Final

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.transaction_calls import call, producer_of
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla_core.security.resource import ResourceType
from ottla_core.transactions import TRANSACTIONS_V1
from ottla_proto import txn_pb2 as pb
from ottla_proto.contracts import Txn
from ottla_proto.operation import Operation


async def handle(backend: Backend, request: AddOffsetsToTxnRequest, context: KafkaContext) -> AddOffsetsToTxnResponse:
    forwarded = pb.AddOffsetsRequest(
        transactional_id=request.transactional_id,
        producer=producer_of(request),
        group=request.group_id,
        transaction_version=TRANSACTIONS_V1,
    )
    code = 0
    try:
        context.access.check(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        context.access.check(Operation.READ, ResourceType.GROUP, request.group_id)
        await call(backend, request.transactional_id, Txn.ADD_OFFSETS, forwarded)
    except OttlaError as error:
        code = error.code
    return AddOffsetsToTxnResponse(error_code=code)


API: Final = control(
    AddOffsetsToTxnRequest,
    (0, 4),
    handle,
    needs=needs((Operation.WRITE, ResourceType.TRANSACTIONAL_ID), (Operation.READ, ResourceType.GROUP)),
    errors=error_codes.Errors(
        "schema (v2, v4); AddOffsetsToTxnResponse; KIP-588, KIP-890",
        error_codes.TRANSACTION | {ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED},
        {**error_codes.fenced(2), **error_codes.abortable(4)},
        error_codes.COORDINATORS_LOG,
    ),
    forwards=Txn.ADD_OFFSETS,
)
