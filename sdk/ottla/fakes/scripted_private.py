"""The private calls that scripted brokers answer (docs/adr/0028), as messages of their contract."""

from __future__ import annotations

from typing import Any, Final

from ottla.fakes.scripted_txn import ScriptedTransactions
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_proto.contracts import Method, Txn

_SERVED: Final[dict[str, Method[Any, Any]]] = {Txn.PREPARE.path: Txn.PREPARE}


def is_served(method: Method[Any, Any]) -> bool:
    """Return whether scripted brokers answer this private call."""
    return method.path in _SERVED


def stated(request: Message) -> Any:
    """Return the request or, for a private call, the message of its contract."""
    if isinstance(request, OttlaCallRequest) and (method := _SERVED.get(request.method)) is not None:
        return method.request.FromString(request.body)
    return request


def respond_privately(request: OttlaCallRequest, transactions: ScriptedTransactions) -> OttlaCallResponse:
    """Return the response to a private call. Raises Kafka's errors."""
    if request.method == Txn.PREPARE.path:
        asked = Txn.PREPARE.request.FromString(request.body)
        transactions.prepare(asked.transactional_id, (asked.producer.id, asked.producer.epoch))
        return OttlaCallResponse(body=Txn.PREPARE.response().SerializeToString())
    raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"scripted brokers don't support {request.method}")
