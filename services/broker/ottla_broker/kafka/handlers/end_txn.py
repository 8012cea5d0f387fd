"""EndTxn (key 26), versions 0 to 5: commit or abort (KIP-98).

v2 adds PRODUCER_FENCED (KIP-588); v4 TRANSACTION_ABORTABLE; v5 raises the epoch, and has the next producer in its
response (KIP-890).
"""

from __future__ import annotations

from typing import Final

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import error_fields
from ottla_broker.kafka.forwarding.transaction_calls import call, producer_of
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import OttlaError
from ottla_core.kafka.messages import EndTxnRequest, EndTxnResponse
from ottla_core.security.resource import ResourceType
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_proto import txn_pb2 as pb
from ottla_proto.contracts import Txn
from ottla_proto.operation import Operation

_RAISES_FROM: Final = 5


async def handle(backend: Backend, request: EndTxnRequest, context: KafkaContext) -> EndTxnResponse:
    version = context.version
    forwarded = pb.EndTxnRequest(
        transactional_id=request.transactional_id,
        producer=producer_of(request),
        committed=request.committed,
        transaction_version=TRANSACTIONS_V2 if version >= _RAISES_FROM else TRANSACTIONS_V1,
        client_id=context.client_id,
        client_host=context.caller.client_host,
    )
    try:
        context.access.check(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        producer = (await call(backend, request.transactional_id, Txn.END_TXN, forwarded)).producer
    except OttlaError as error:
        return EndTxnResponse(**error_fields(error))
    return EndTxnResponse(error_code=0, producer_id=producer.id, producer_epoch=producer.epoch)


API: Final = control(
    EndTxnRequest,
    (0, 5),
    handle,
    needs=needs((Operation.WRITE, ResourceType.TRANSACTIONAL_ID)),
    errors=error_codes.Errors(
        "schema (v2, v4); TransactionCoordinator, endTransaction; KIP-588, KIP-890",
        error_codes.TRANSACTION,
        {**error_codes.fenced(2), **error_codes.abortable(4)},
        error_codes.COORDINATORS_LOG,
    ),
    forwards=Txn.END_TXN,
)
