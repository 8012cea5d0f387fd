"""ListTransactions (key 66), versions 0 to 2: the transactions of those shards for which this broker speaks (KIP-664).

v1 adds a filter by duration (KIP-994); v2 one by a pattern of the transactional id (KIP-1152).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.coordinator_calls import list_all
from ottla_broker.kafka.handlers.find_coordinator import spoken_for
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import ListTransactionsRequest, ListTransactionsResponse
from ottla_core.routing import TXN
from ottla_core.security.resource import ResourceType
from ottla_proto import txn_pb2 as pb
from ottla_proto.contracts import Txn
from ottla_proto.operation import Operation

_State: TypeAlias = ListTransactionsResponse.TransactionState


async def handle(backend: Backend, request: ListTransactionsRequest, context: KafkaContext) -> ListTransactionsResponse:
    shards = spoken_for(backend, TXN)
    forwarded = pb.ListTransactionsRequest(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        longer_than_ms=max(0, request.duration_filter),
        pattern=request.transactional_id_pattern or "",
        shards=shards,
    )
    code, responses = await list_all(backend, TXN, Txn.LIST_TRANSACTIONS, forwarded)
    unknown = set[str]().union(*(response.unknown_states for response in responses))

    def state(entry: pb.ListedTransaction) -> _State:
        return _State(
            transactional_id=entry.transactional_id,
            producer_id=entry.producer_id,
            transaction_state=entry.state,
            shard=entry.shard,
            coordinator=entry.coordinator,
        )

    listed = [entry for response in responses for entry in response.transactions]
    ids = (entry.transactional_id for entry in listed)
    hidden = await context.access.hidden(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids)
    return ListTransactionsResponse(
        error_code=code,
        transaction_states=await sliced(state, (entry for entry in listed if entry.transactional_id not in hidden)),
        unknown_state_filters=sorted(unknown),
        shards=shards.numbers,
        shard_count=shards.total,
    )


API: Final = control(
    ListTransactionsRequest,
    (0, 2),
    handle,
    needs=needs((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)),
    errors=error_codes.Errors(
        "ListTransactionsResponse; KIP-664, KIP-1152: a moving shard is reported as loading",
        error_codes.COORDINATOR - {ErrorCode.NOT_COORDINATOR},
        {ErrorCode.INVALID_REGULAR_EXPRESSION: error_codes.Since(2, ErrorCode.INVALID_REQUEST)},
        {
            **error_codes.COORDINATORS_LOG,
            ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        },
    ),
    forwards=Txn.LIST_TRANSACTIONS,
)
