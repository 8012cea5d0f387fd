"""InitProducerId (key 22), versions 0 to 5: an id for an idempotent producer, from this broker's block (KIP-98).

v3 adds the producer's id and epoch to the request (KIP-360), which only transactions need.
"""

from __future__ import annotations

from kafka.protocol.producer import InitProducerIdResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.errors import no_transactions
from ottla_broker.kafka.frames import KafkaContext
from ottla_core.errors import OttlaError


async def handle(backend: Backend, request: Message, context: KafkaContext) -> Message:
    version = context.version
    if request.transactional_id is not None:
        return _failed(version, no_transactions().code)
    try:
        producer_id = await backend.producer_ids.next()
    except OttlaError as error:
        return _failed(version, error.code)
    return InitProducerIdResponse(version=version, error_code=0, producer_id=producer_id, producer_epoch=0)


def _failed(version: int, code: int) -> Message:
    return InitProducerIdResponse(version=version, error_code=int(code), producer_id=-1, producer_epoch=-1)
