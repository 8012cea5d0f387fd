"""ListTransactions (key 66), versions 0 to 2: the transactions of those shards for which this broker speaks (KIP-664).

v1 adds a filter by duration (KIP-994); v2 one by a pattern of the transactional id (KIP-1152).
"""

from __future__ import annotations

import asyncio
from typing import Final

from kafka.protocol.admin import ListTransactionsResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.coordinator_calls import CALL_S
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.kafka.group_calls import code_of
from ottla_broker.kafka.handlers.find_coordinator import spokesman
from ottla_broker.kafka.handlers.list_groups import INCOMPLETE
from ottla_core.errors import OttlaError
from ottla_core.routing import TXN
from ottla_proto import txn_pb2 as pb
from ottla_proto.contracts import Txn

_State: Final = ListTransactionsResponse.TransactionState


async def handle(backend: Backend, request: Message, context: KafkaContext) -> Message:
    version = context.version
    forwarded = pb.ListTransactionsRequest(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        longer_than_ms=max(0, getattr(request, "duration_filter", 0)),
        pattern=getattr(request, "transactional_id_pattern", None) or "",
    )
    coordinators = backend.coordinators.all_of(TXN)
    responses = await asyncio.gather(
        *(backend.coordinators.ask(c, Txn.LIST_TRANSACTIONS, forwarded, CALL_S) for c in coordinators),
        return_exceptions=True,
    )
    code, unknown, listed = 0, list[str](), list[pb.ListedTransaction]()
    for response in responses:
        if isinstance(response, OttlaError):
            code = code or code_of(response)
        elif isinstance(response, BaseException):
            raise response
        else:
            code = code or INCOMPLETE.get(response.error.code, code_of(response.error))
            unknown = list(response.unknown_states)
            listed += [t for t in response.transactions if spokesman(backend, TXN, t.shard) == backend.node_id]
    return ListTransactionsResponse(
        version=version,
        error_code=code,
        unknown_state_filters=unknown,
        transaction_states=[
            _State(
                version=version,
                transactional_id=entry.transactional_id,
                producer_id=entry.producer_id,
                transaction_state=entry.state,
            )
            for entry in listed
        ],
    )
