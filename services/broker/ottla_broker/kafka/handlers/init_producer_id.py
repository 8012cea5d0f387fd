"""InitProducerId (key 22), versions 0 to 5: the id and epoch of an idempotent or transactional producer (KIP-98).

v3 adds the producer's id and epoch to the request (KIP-360); v4 PRODUCER_FENCED (KIP-588); v5 TRANSACTION_ABORTABLE.
One more, of two-phase commit (KIP-939), is served where unstable versions are; to keep what is prepared is in it, which
Kafka 4.3 refuses.
"""

from __future__ import annotations

from typing import Final

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.access import Access
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import error_fields
from ottla_broker.kafka.forwarding.transaction_calls import call, producer_of
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import InitProducerIdRequest, InitProducerIdResponse
from ottla_core.security.resource import ResourceType
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import TxnProducer
from ottla_proto.contracts import Txn
from ottla_proto.operation import Operation

_PRODUCER_FROM: Final = 3
_TWO_PHASES_FROM: Final = 6
_NONE: Final = TxnProducer(id=-1, epoch=-1)


async def handle(backend: Backend, request: InitProducerIdRequest, context: KafkaContext) -> InitProducerIdResponse:
    version = context.version
    try:
        _check(context.access, request, version)
        if request.transactional_id is None:
            return _response(producer=TxnProducer(id=await backend.producer_ids.next()))
        response = await call(backend, request.transactional_id, Txn.INIT_PRODUCER, _forwarded(request, context))
    except OttlaError as error:
        return InitProducerIdResponse(**error_fields(error), producer_epoch=_NONE.epoch)
    has_kept = version >= _TWO_PHASES_FROM and response.HasField("kept")
    return _response(producer=response.producer, kept=response.kept if has_kept else _NONE)


def _check(access: Access, request: InitProducerIdRequest, version: int) -> None:
    """Raise Kafka's authorization error. To write to any topic is enough for an idempotent producer (KIP-679)."""
    if request.transactional_id is not None:
        access.check(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        if version >= _TWO_PHASES_FROM and request.enable2_pc:
            access.check(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    elif not access.allows_any(Operation.WRITE, ResourceType.TOPIC):
        access.check(Operation.IDEMPOTENT_WRITE)


def _forwarded(request: InitProducerIdRequest, context: KafkaContext) -> pb.InitProducerRequest:
    version = context.version
    has_producer = version >= _PRODUCER_FROM and request.producer_id >= 0
    return pb.InitProducerRequest(
        transactional_id=request.transactional_id,
        timeout_ms=max(0, request.transaction_timeout_ms),
        producer=producer_of(request) if has_producer else None,
        two_phase_commit=version >= _TWO_PHASES_FROM and request.enable2_pc,
        keep_prepared=version >= _TWO_PHASES_FROM and request.keep_prepared_txn,
        client_id=context.client_id,
        client_host=context.caller.client_host,
    )


def _response(*, producer: TxnProducer = _NONE, kept: TxnProducer = _NONE) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        ongoing_txn_producer_id=kept.id,
        ongoing_txn_producer_epoch=kept.epoch,
    )


API: Final = control(
    InitProducerIdRequest,
    (0, 5),
    handle,
    needs=needs(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID),
        (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),  # or WRITE on any topic (KIP-679)
        (Operation.WRITE, ResourceType.TOPIC),
    ),
    errors=error_codes.Errors(
        "schema (v4, v5); TransactionCoordinator, handleInitProducerId; KIP-588, KIP-890",
        error_codes.TRANSACTION - {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        | {ErrorCode.INVALID_TRANSACTION_TIMEOUT, ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE},
        {**error_codes.fenced(4), **error_codes.abortable(5)},
        # If a producer names an id that is not that of the transactional id, another producer has replaced it.
        {**error_codes.COORDINATORS_LOG, ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorCode.PRODUCER_FENCED},
    ),
    unstable=6,
    forwards=Txn.INIT_PRODUCER,
)
