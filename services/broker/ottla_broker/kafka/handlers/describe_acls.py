"""DescribeAcls (key 29), versions 1 to 3: the ACLs that match a filter (KIP-140, patterns by KIP-290).

There are none, since no request is checked against any: the response is that of a Kafka without an authorizer.
MirrorMaker 2 then leaves ACLs alone. Versions differ in encoding only.
"""

from __future__ import annotations

from typing import Final

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding import error_fields
from ottla_broker.kafka.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import DescribeAclsRequest, DescribeAclsResponse

_DISABLED: Final = OttlaError(ErrorCode.SECURITY_DISABLED, "this cluster has no ACLs: no authorizer is configured")


def handle(backend: Backend, request: DescribeAclsRequest, context: KafkaContext) -> DescribeAclsResponse:
    return DescribeAclsResponse(**error_fields(_DISABLED), resources=[])
