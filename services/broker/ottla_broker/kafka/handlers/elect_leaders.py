"""ElectLeaders (key 43), versions 0 to 2: back to preferred leaders (KIP-183).

v1 adds the election type: where a partition has no leader, one at the price of records (KIP-460).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import ALTER_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import error_fields, forward, limit_s, reported_fields
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import ElectLeadersRequest, ElectLeadersResponse
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

_Topic: TypeAlias = ElectLeadersResponse.ReplicaElectionResult
_Partition: TypeAlias = ElectLeadersResponse.PartitionResult

_CODE_FROM: Final = 1

_Reported = tuple[str, int, dict[str, Any]]
"""It has the topic, the partition, and the fields of its error."""


async def handle(backend: Backend, request: ElectLeadersRequest, context: KafkaContext) -> ElectLeadersResponse:
    """Respond to a request. Version 0 has only preferred leaders, and no error of the request as a whole."""
    code = 0
    named, time_slice = dict[tuple[str, int], None](), Slice()
    for each in request.topic_partitions or ():
        named |= dict.fromkeys(await sliced(partial(_pair, each.topic), each.partitions, time_slice))
    forwarded = pb.ElectLeadersRequest(
        type=request.election_type,  # type: ignore[arg-type]  # an enum's int, which the controller checks
        all_partitions=request.topic_partitions is None,
    )
    await sliced(lambda item: forwarded.partitions.add(topic=item[0], partition=item[1]), named)
    outcomes: list[_Reported]
    try:
        context.access.check(Operation.ALTER)
        response = await forward(
            backend,
            Controller.ELECT_LEADERS,
            forwarded,
            principal=context.caller.principal,
            limit_s=limit_s(request.timeout_ms),
        )
        outcomes = await sliced(
            lambda entry: (entry.topic, entry.partition, reported_fields(entry.error)), response.partitions
        )
    except OttlaError as error:
        code = int(error.code) if context.version >= _CODE_FROM else 0
        fields = error_fields(error)
        outcomes = [(topic, number, fields) for topic, number in named]
    results = await _by_topic(outcomes)
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _pair(topic: str, partition: int) -> tuple[str, int]:
    return topic, partition


async def _by_topic(outcomes: Iterable[_Reported]) -> list[_Topic]:
    partitions: dict[str, list[_Partition]] = defaultdict(list)

    def add(entry: _Reported) -> None:
        topic, number, error = entry
        partitions[topic].append(_Partition(partition_id=number, **error))

    await sliced(add, outcomes)
    return [_Topic(topic=topic, partition_result=found) for topic, found in partitions.items()]


API: Final = control(
    ElectLeadersRequest,
    (0, 2),
    handle,
    needs=ALTER_CLUSTER,
    errors=error_codes.Errors(
        "ElectLeadersResponse; KIP-460: v0 has no unclean elections",
        error_codes.CONTROLLER
        | error_codes.TOPIC
        | {ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELECTION_NOT_NEEDED},
        {ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: error_codes.Since(1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)},
        {**error_codes.LOST_CONTROLLER, **error_codes.BY_NAME},
    ),
    forwards=Controller.ELECT_LEADERS,
)
