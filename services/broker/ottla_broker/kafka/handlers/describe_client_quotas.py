"""DescribeClientQuotas (key 48), versions 0 to 1: there are none (KIP-546).

ottla has no quotas yet. Kafka's tool asks for the quotas of a user before it shows the user's SCRAM credentials, and
shows nothing if a broker does not respond to that.
"""

from __future__ import annotations

from typing import Final

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import error_fields
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation


async def handle(
    backend: Backend, request: DescribeClientQuotasRequest, context: KafkaContext
) -> DescribeClientQuotasResponse:
    if (refused := context.access.refused(Operation.DESCRIBE_CONFIGS)) is not None:
        return DescribeClientQuotasResponse(**error_fields(refused), entries=None)
    return DescribeClientQuotasResponse(error_message=None, entries=[])


API: Final = control(
    DescribeClientQuotasRequest,
    (0, 1),
    handle,
    needs=needs((Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)),
    errors=error_codes.Errors(
        "DescribeClientQuotasResponse; KIP-546", frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
    ),
)
