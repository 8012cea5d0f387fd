"""Forwards requests for a transaction to the txn-coordinator that owns it, in the form of its contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

from google.protobuf.message import Message

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.coordinator_calls import CALL_S, call_owner
from ottla_core.event_loop.slices import sliced
from ottla_core.model import TopicPartition
from ottla_core.routing import TXN
from ottla_core.rpc.status import raise_error
from ottla_proto.common_pb2 import TxnProducer
from ottla_proto.contracts import Method

RequestT = TypeVar("RequestT", bound=Message)
Response = TypeVar("Response", bound=Message)
T = TypeVar("T")
Outcome = TypeVar("Outcome")


class OfProducer(Protocol):
    """A request of a transactional producer."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...


IDS_AT_ONCE: Final = 16
"""How many ids of one request are looked up at once."""


async def call(
    backend: Backend, transactional_id: str, method: Method[RequestT, Response], request: RequestT
) -> Response:
    """Return the response of the id's coordinator. Raises the error that it carries, or why there is none."""
    response = await call_owner(backend, TXN, transactional_id, method, request, CALL_S)
    raise_error(response.error)  # type: ignore[attr-defined]  # every response has one: tests/architecture
    return response


def producer_of(request: OfProducer) -> TxnProducer:
    return TxnProducer(id=request.producer_id, epoch=request.producer_epoch)


async def results_by_topic(
    outcomes: Mapping[TopicPartition, Outcome], result: Callable[[int, Outcome], T]
) -> dict[str, list[T]]:
    """Return the `result` of each partition's number and outcome, by topic."""
    by_topic: dict[str, list[T]] = {}

    def report(each: tuple[TopicPartition, Outcome]) -> None:
        partition, outcome = each
        by_topic.setdefault(partition.topic, []).append(result(partition.partition, outcome))

    await sliced(report, outcomes.items())
    return by_topic
