"""The fault plan of a test: which calls should fail, how, and how often.

    cluster.faults.error("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER).times(3)
    cluster.faults.delay("Fetch", 0.2).once()
    cluster.faults.drop("Produce", broker=1).once()

A fault meets calls in the order of their arrival, before the service does. So a call that fails was not carried out,
except with `lose_response`. There it was, and the client can't know. Each fault counts the calls that it has met.

The calls of clients are requests of Kafka's protocol, by the names of their APIs. Services call each other by the
methods of their contracts, and a broker forwards many requests so. Some have one name in both, such as Fetch.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Self

from google.protobuf.message import Message

from ottla_broker.kafka.api import Handler
from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.dispatch import AroundApi
from ottla_broker.kafka.network.connection import CloseConnectionError, HandlerResult
from ottla_broker.kafka.wire.frames import KafkaContext, Parts
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.server import Around, RpcHandler
from ottla_core.rpc.status import error_message
from ottla_core.rpc.streams import EndStreamError
from ottla_proto import contracts
from ottla_proto.contracts import Method
from ottla_stack.failed_response import failed_response

Called = Method[Any, Any] | str
"""A method of a contract, or the name of an API of Kafka's."""

Act = Callable[[Called, Any, Callable[[], Awaitable[Any]]], Awaitable[Any]]
_CONTRACTS = (contracts.Broker, contracts.Controller, contracts.Group, contracts.Txn)
_METHODS = {m.name for contract in _CONTRACTS for m in vars(contract).values() if isinstance(m, Method)}
_KAFKA_APIS = {api.name for api in APIS.values()}


@dataclass(eq=False)
class Fault:
    """Meets every call until a number is set. `met` counts the calls."""

    method: str
    instance: str | None
    act: Act
    client_id: str | None = None
    left: int | None = None
    met: int = field(default=0, init=False)

    def of(self, client_id: str) -> Self:
        """Meet only calls of that client. Brokers call each other as `replica-<id>`."""
        self.client_id = client_id
        return self

    def times(self, count: int) -> Self:
        self.left = count
        return self

    def once(self) -> Self:
        return self.times(1)

    async def meet(self, called: Called, request: Any, handle: Callable[[], Awaitable[Any]]) -> Any:
        """Apply it to one call."""
        self.met += 1
        if self.left is not None:
            self.left -= 1
        return await self.act(called, request, handle)

    def matches(self, method: str, instance: str, client_id: str) -> bool:
        where = self.instance in (None, instance) and self.client_id in (None, client_id)
        return self.left != 0 and method == self.method and where


class _Gate:
    """The gate of an instance. While it is shut, calls wait; then they continue in order, before later ones."""

    def __init__(self) -> None:
        self._queue: Final = asyncio.Lock()  # it is fair, and held while the gate is shut
        self._entered = 0

    @property
    def is_clear(self) -> bool:
        """It tells whether a call that comes now overtakes no other."""
        return not (self._queue.locked() or self._entered)

    async def shut(self) -> None:
        if not self._queue.locked():
            await self._queue.acquire()

    def open(self) -> None:
        if self._queue.locked():
            self._queue.release()

    def enter(self) -> None:
        """Register a call, behind which later ones wait. Await its `turn` then."""
        self._entered += 1

    async def turn(self) -> None:
        try:
            async with self._queue:
                pass
        finally:
            self._entered -= 1


class Faults:
    """The plan of faults. Any thread may add and clear faults. The newest fault that matches a call meets it."""

    def __init__(self) -> None:
        self._plan: list[Fault] = []
        self._gates: Final = defaultdict[str, _Gate](_Gate)

    def error(self, method: str, code: ErrorCode, *, broker: int | None = None) -> Fault:
        """Respond with an error: for each requested partition, or for the whole request if it has none."""

        async def act(called: Called, request: Any, handle: Callable[[], Awaitable[Any]]) -> Any:
            return _failed(called, request, OttlaError(code, "an injected fault"))

        return self._add(method, broker, act)

    def delay(self, method: str, seconds: float, *, broker: int | None = None) -> Fault:
        """Respond that much later."""

        async def act(called: Called, request: Any, handle: Callable[[], Awaitable[Any]]) -> Any:
            await asyncio.sleep(seconds)
            return await handle()

        return self._add(method, broker, act)

    def drop(self, method: str, *, broker: int | None = None) -> Fault:
        """Cut the call instead of carrying it out. A stream goes down with all of its open frames."""

        async def act(called: Called, request: Any, handle: Callable[[], Awaitable[Any]]) -> Any:
            raise EndStreamError("an injected fault: the connection is dropped")

        return self._add(method, broker, act)

    def lose_response(self, method: str, *, broker: int | None = None) -> Fault:
        """Carry the call out, then cut it, so that the client sees an indefinite failure."""

        async def act(called: Called, request: Any, handle: Callable[[], Awaitable[Any]]) -> Any:
            await handle()
            raise EndStreamError("an injected fault: the response is lost")

        return self._add(method, broker, act)

    def clear(self) -> None:
        """Let everything through again."""
        self._plan = []

    async def pause(self, instance: str) -> None:
        """Make every call of the instance wait. Call it on the cluster's loop."""
        await self._gates[instance].shut()

    async def resume(self, instance: str) -> None:
        """Let the calls continue, in their order. Call it on the cluster's loop."""
        self._gates[instance].open()

    def around(self, instance: str) -> Around:
        """Return the function that wraps the methods of this instance, such as "broker-0", in `RpcServer`."""

        gate = self._gates[instance]

        def around(method: Method[Any, Any], handler: RpcHandler) -> RpcHandler:
            async def handle_or_fail(request: Any, context: RequestContext) -> Any:
                if not gate.is_clear:
                    gate.enter()
                    await gate.turn()
                fault = self._find(method.name, instance, context.client_id)
                if fault is None:
                    return await handler(request, context)
                return await fault.meet(method, request, lambda: handler(request, context))

            return handle_or_fail

        return around

    def around_kafka(self, instance: str) -> AroundApi:
        """Return the function that wraps the APIs of its Kafka listener."""

        gate = self._gates[instance]

        def around(name: str, handler: Handler) -> Handler:
            def handle_or_fail(backend: Backend, request: KafkaContext) -> HandlerResult:
                if gate.is_clear and self._find(name, instance, request.client_id) is None:
                    return handler(backend, request)
                kept = request.kept()
                gate.enter()
                return self._later(name, instance, kept, lambda: handler(backend, kept))

            return handle_or_fail

        return around

    async def _later(
        self, name: str, instance: str, request: KafkaContext, begin: Callable[[], HandlerResult]
    ) -> Parts | None:
        async def handle() -> Parts | None:
            result = begin()
            return await result if asyncio.iscoroutine(result) else result

        await self._gates[instance].turn()
        fault = self._find(name, instance, request.client_id)
        if fault is None:
            return await handle()
        try:
            return await fault.meet(name, request, handle)  # type: ignore[no-any-return]  # answers have no type here
        except EndStreamError as error:
            raise CloseConnectionError(str(error)) from None

    def _find(self, method: str, instance: str, client_id: str) -> Fault | None:
        """Return the newest fault that meets such a call."""
        return next((f for f in reversed(self._plan) if f.matches(method, instance, client_id)), None)

    def _add(self, method: str, broker: int | None, act: Act) -> Fault:
        known = _METHODS | _KAFKA_APIS
        if method not in known:
            raise ValueError(f"no contract has a method {method!r}; the methods are {', '.join(sorted(known))}")
        fault = Fault(method, None if broker is None else f"broker-{broker}", act)
        self._plan = [*self._plan, fault]
        return fault


def _failed(method: Called, request: Any, error: OttlaError) -> Message | Parts:
    """Return the response with the error where a broker puts it: at each partition, else at the request."""
    if isinstance(method, str):
        body = failed_response(method, request.version, bytes(request.body.data[request.body.at :]), error)
        if body is None:
            raise EndStreamError("an injected fault: no response can have the error, so the connection is dropped")
        return [body]
    response: Any = method.response()
    if "partitions" not in method.request.DESCRIPTOR.fields_by_name:
        response.error.CopyFrom(error_message(error))
        return response  # type: ignore[no-any-return]  # made from a descriptor
    for partition in request.partitions:
        failed = response.partitions.add(topic_id=partition.topic_id, partition=partition.partition)
        failed.error.CopyFrom(error_message(error))
    return response  # type: ignore[no-any-return]  # made from a descriptor
