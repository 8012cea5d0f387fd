"""WriteTxnMarkers (key 27), versions 1 to 2: an operator ends a transaction that hangs (KIP-664).

In partitions that this broker leads. Coordinators write theirs by a contract of their own, `Broker.WriteTxnMarkers`.

v2 adds the version of transactions (KIP-1228).
"""

from __future__ import annotations

from functools import partial
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.codec import has_more_elements
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.machines.transactions import TransactionEnd
from ottla_broker.partition_requests.transaction_markers import (
    MOST_MARKERS,
    MarkersToWrite,
    check_markers,
    write_markers,
)
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ottla_core.kafka_formats.primitives import MalformedError
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.control import EndTransactionMarker
from ottla_core.security.resource import ResourceType
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_proto.operation import Operation

_Marker: TypeAlias = WriteTxnMarkersResponse.WritableTxnMarkerResult
_Topic: TypeAlias = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
_Partition: TypeAlias = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

_LIMIT_S: Final = 30.0
"""Kafka's request.timeout.ms, because requests have no time limit of their own."""
_NO_TOPIC: Final = TopicId(bytes(16))


async def handle(backend: Backend, request: WriteTxnMarkersRequest, context: KafkaContext) -> WriteTxnMarkersResponse:
    if has_more_elements(request, context.version, MOST_MARKERS):  # the response has no error of the whole
        raise MalformedError(f"the request has more than {MOST_MARKERS} markers, topics and partitions in all")
    requested = await sliced(partial(_to_write, backend), request.markers)
    leading = partial(backend.replicas.table.leading, known_epoch=None)
    errors: list[list[OttlaError | None]]
    try:
        if not context.access.allows(Operation.ALTER):
            context.access.check(Operation.CLUSTER_ACTION)
        check_markers(requested)
        errors = await write_markers(leading, requested, timeout_s=_LIMIT_S)
    except OttlaError as error:
        errors = [[error] * len(markers.partitions) for markers in requested]
    results = [_result(marker, of_marker) for marker, of_marker in zip(request.markers, errors, strict=True)]
    return WriteTxnMarkersResponse(markers=results)


def _to_write(backend: Backend, marker: WriteTxnMarkersRequest.WritableTxnMarker) -> MarkersToWrite:
    decided = EndTransactionMarker(marker.transaction_result, marker.coordinator_epoch)
    raises_epochs = marker.transaction_version >= TRANSACTIONS_V2
    return MarkersToWrite(
        TransactionEnd(marker.producer_id, marker.producer_epoch, decided, raises_epochs),
        [
            backend.id_of(topic.name, number) or PartitionId(_NO_TOPIC, number)
            for topic in marker.topics
            for number in topic.partition_indexes
        ],
    )


def _result(marker: WriteTxnMarkersRequest.WritableTxnMarker, errors: list[OttlaError | None]) -> _Marker:
    """Return a marker's result. `errors` are those of its partitions, in their order."""
    codes = iter([0 if error is None else error.code for error in errors])
    topics = [
        _Topic(
            name=topic.name,
            partitions=[
                _Partition(partition_index=number, error_code=next(codes)) for number in topic.partition_indexes
            ],
        )
        for topic in marker.topics
    ]
    return _Marker(producer_id=marker.producer_id, topics=topics)


API: Final = control(
    WriteTxnMarkersRequest,
    (1, 2),
    handle,
    # Either right is enough.
    needs=needs((Operation.ALTER, ResourceType.CLUSTER), (Operation.CLUSTER_ACTION, ResourceType.CLUSTER)),
    errors=error_codes.Errors(
        "WriteTxnMarkersResponse; KIP-1228",
        error_codes.TOPIC
        | {
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.RECORD_LIST_TOO_LARGE,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.INVALID_REQUIRED_ACKS,
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.KAFKA_STORAGE_ERROR,
        },
        instead={**error_codes.BY_NAME, ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER},
    ),
    most_elements=MOST_MARKERS,
)
