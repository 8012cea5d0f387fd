"""InitProducerId (key 22), versions 0 to 5: the id and epoch of an idempotent or transactional producer (KIP-98).

v3 adds the producer's id and epoch to the request (KIP-360); v4 PRODUCER_FENCED (KIP-588); v5 TRANSACTION_ABORTABLE.
One more, of two-phase commit (KIP-939), is served where unstable versions are; to keep what is prepared is
UNSUPPORTED_VERSION, as in Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from kafka.protocol.producer import InitProducerIdResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.kafka.transaction_calls import call, code_for, producer_of
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import txn_pb2 as pb
from ottla_proto.contracts import Txn

_FENCED_FROM: Final = 4
_ABORTABLE_FROM: Final = 5
_PRODUCER_FROM: Final = 3
_TWO_PHASES_FROM: Final = 6


async def handle(backend: Backend, request: Message, context: KafkaContext) -> Message:
    version = context.version
    if version >= _TWO_PHASES_FROM and request.keep_prepared_txn:
        return _response(version, ErrorCode.UNSUPPORTED_VERSION)
    try:
        if request.transactional_id is None:
            return _response(version, producer_id=await backend.producer_ids.next(), producer_epoch=0)
        response = await call(backend, request.transactional_id, Txn.INIT_PRODUCER, _forwarded(request, version))
        error = response.error
    except OttlaError as failure:
        return _response(version, code_for(failure, version, fenced_from=_FENCED_FROM, abortable_from=_ABORTABLE_FROM))
    if error.code:
        return _response(version, code_for(error, version, fenced_from=_FENCED_FROM, abortable_from=_ABORTABLE_FROM))
    return _response(version, producer_id=response.producer.id, producer_epoch=response.producer.epoch)


def _forwarded(request: Message, version: int) -> pb.InitProducerRequest:
    has_producer = version >= _PRODUCER_FROM and request.producer_id >= 0
    return pb.InitProducerRequest(
        transactional_id=request.transactional_id,
        timeout_ms=max(0, request.transaction_timeout_ms),
        producer=producer_of(request) if has_producer else None,
        two_phase_commit=version >= _TWO_PHASES_FROM and request.enable2_pc,
    )


def _response(version: int, code: int = 0, *, producer_id: int = -1, producer_epoch: int = -1) -> Message:
    return InitProducerIdResponse(
        version=version, error_code=code, producer_id=producer_id, producer_epoch=producer_epoch
    )
