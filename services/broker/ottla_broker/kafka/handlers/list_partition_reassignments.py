"""ListPartitionReassignments (key 46), version 0: none is ongoing (KIP-455).

ottla does not move replicas to other brokers yet. kafka-topics asks for ongoing reassignments when it describes topics,
and kafka-reassign-partitions lists them.
"""

from __future__ import annotations

from typing import Final

from ottla_broker.kafka.authorization.needs import DESCRIBE_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.error_codes import Errors
from ottla_broker.kafka.forwarding.controller_calls import error_fields
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.kafka.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from ottla_proto.operation import Operation


async def handle(
    backend: Backend, request: ListPartitionReassignmentsRequest, context: KafkaContext
) -> ListPartitionReassignmentsResponse:
    if (refused := context.access.refused(Operation.DESCRIBE)) is not None:
        return ListPartitionReassignmentsResponse(**error_fields(refused))
    return ListPartitionReassignmentsResponse(error_message=None)


API: Final = control(
    ListPartitionReassignmentsRequest,
    (0, 0),
    handle,
    needs=DESCRIBE_CLUSTER,
    errors=Errors("ListPartitionReassignmentsResponse; KIP-455"),
)
