"""Broker.InitProducerId is Kafka's InitProducerId without a transactional id."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import INIT_PRODUCER_ID, AnyApi
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import InitProducerIdRequest, InitProducerIdResponse
from ottla_proto import client_pb2 as pb
from ottla_proto.common_pb2 import Error


class ProducerIdTranslation:
    """Translates an idempotent producer's request for a producer id."""

    api: Final[AnyApi] = INIT_PRODUCER_ID

    def request(self, request: pb.InitProducerIdRequest, terms: Terms) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=terms.timeout_ms)

    def response(self, response: InitProducerIdResponse, terms: Terms) -> pb.InitProducerIdResponse:
        error = Error(code=response.error_code)
        return pb.InitProducerIdResponse(error=error, producer_id=max(0, response.producer_id))
