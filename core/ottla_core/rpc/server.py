"""The generic gRPC server serves any object whose async methods are a contract's RPCs in snake_case.

Each service would otherwise repeat deadlines, authorization, error mapping, metrics and memory bounds, and each would
forget one of them somewhere. So they exist once, here, and a service is a plain object that a test may call without a
network. The server compares object, contract and proto when it is built: a method that is missing is found before the
first call.

Errors travel in band. An OttlaError that a method raises becomes the response's `error`, because a gRPC status has no
room for a code of Kafka's, a hint and results of other partitions. Anything else that a method raises is a bug: it is
logged under an id that the caller sees, and nothing of it crosses the wire.

Where certificates are configured, each call is checked against the roles that may call its method
(`ottla_core.rpc.service_access`). The caller is read once for each call or stream.

Every call has a deadline (I12), and what open calls hold is bounded in bytes (I13, modules `calls` and `budget`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as grpc_health_aio

from ottla_core.errors import OttlaError
from ottla_core.host_port import HostPort
from ottla_core.rpc import transport
from ottla_core.rpc.call_frames import carried_methods
from ottla_core.rpc.calls import Calls, OpenCall, TooMuchError
from ottla_core.rpc.context import RequestContext, context_of
from ottla_core.rpc.frames import is_stream, snake_case
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.served_calls import CallStreams
from ottla_core.rpc.service_access import CALLERS, Roles
from ottla_core.rpc.status import error_message, log_bug
from ottla_core.rpc.streams import EndStreamError, Streams
from ottla_core.telemetry import Counter, Histogram, Metrics
from ottla_proto.contracts import GatheredCalls, Method

_log = logging.getLogger(__name__)
_LOG_INTERVAL_S: Final = 1.0

READY_SERVICE: Final = "ottla.ready"
"""The health service's name for readiness; "" is liveness."""

RpcHandler = Callable[[Any, RequestContext], Awaitable[Any]]


Around = Callable[[Method[Any, Any], RpcHandler], RpcHandler]
"""Wraps every method that is served. `ottla.testing` injects its faults this way. It must await the response, or
raise."""


def as_it_is(method: Method[Any, Any], handler: RpcHandler) -> RpcHandler:
    return handler


class ContractError(Exception):
    """A service and its contract differ, which is a mistake in the code that is found before the first call."""


class Endpoint:
    """One method of a service object, wrapped in what every method needs."""

    def __init__(
        self, method: Method[Any, Any], handler: RpcHandler, callers: Roles, refusals: Refusals, metrics: Metrics
    ) -> None:
        self.method: Final = method
        self._handler = handler
        self._callers: Final = callers
        self._refusals: Final = refusals
        self._seconds: Histogram = metrics.histogram(
            "ottla_rpc_seconds", "Time from a call or a frame to its response.", method=method.name
        )
        self._errors: Counter = metrics.counter(
            "ottla_rpc_errors_total", "Calls and frames that were answered with an error.", method=method.name
        )

    async def call(self, request: Message, context: RequestContext) -> Message:
        """Return the response, with `error` set if the method raised OttlaError."""
        began_at = time.perf_counter()
        try:
            if context.caller is not None:
                self._check_caller(context)
            responding = self._handler(request, context)
            # The method alone holds the request now, and may drop it while it waits. With a reference here, a
            # shard's append that waits for its replicas would keep records that are in the log already.
            del request
            response: Message = await responding
        except OttlaError as error:
            self._errors.value += 1
            response = self.failed(error)
        self._seconds.observe(time.perf_counter() - began_at)
        return response

    def failed(self, error: OttlaError) -> Message:
        response: Message = self.method.response(error=error_message(error))
        return response

    def _check_caller(self, context: RequestContext) -> None:
        assert context.caller is not None
        try:
            context.caller.check(self.method, self._callers)
        except OttlaError as refusal:
            self._refusals.report(refusal, context.client_host)
            raise


class Refusals:
    """Counts the calls that were refused because of the caller's role. It logs at most one a second, with the number of
    the others."""

    def __init__(self, metrics: Metrics) -> None:
        self._count: Counter = metrics.counter(
            "ottla_rpc_refused_total", "Calls and frames that were refused, because of the caller's certificate."
        )
        self._logged_at = -_LOG_INTERVAL_S
        self._unlogged = 0

    def report(self, refusal: OttlaError, host: str) -> None:
        self._count.value += 1
        self._unlogged += 1
        now = time.monotonic()
        if now - self._logged_at >= _LOG_INTERVAL_S:
            _log.warning("refused calls: %d; the last one came from %s: %s", self._unlogged, host, refusal)
            self._logged_at, self._unlogged = now, 0


class RpcServer:
    """A component: `start` binds and serves, `stop` drains. Add services before the start.

    `ready` returns None, or the reason why the service is not ready, for the health service's `ottla.ready`. `on_drain`
    is called when the drain begins: no frame starts any more, and delayed responses may leave now. With `tls`, callers
    need a certificate whose role may call the method. Anyone with a certificate may ask for the service's health.
    """

    def __init__(
        self,
        host: str,
        port: int,
        metrics: Metrics,
        *,
        ready: Callable[[], str | None] = lambda: None,
        tls: InternalTls | None = None,
        around: Around = as_it_is,
        on_drain: Callable[[], None] = lambda: None,
    ) -> None:
        self._host, self._requested_port = host, port
        self._metrics, self._tls, self._around = metrics, tls, around
        self._context_of = _context_of if tls is None else _proven_context_of
        self._refusals: Final = Refusals(metrics)
        self._server: Final = transport.new_server()
        self._calls = Calls()
        self._health = _Health(ready)
        metrics.gauge("ottla_rpc_calls", "Open unary and gathered calls.", lambda: float(self._calls.open))
        metrics.gauge(
            "ottla_rpc_calls_bytes", "Memory held by open unary and gathered calls.", lambda: float(self._calls.bytes)
        )
        if tls is not None:
            metrics.gauge(
                "ottla_internal_tls_expires_at_seconds",
                "End of the certificate for calls between services, in seconds since 1970.",
                lambda: tls.expires_at.timestamp(),
            )
        self._on_drain = on_drain
        self._draining = asyncio.Event()
        self.port = port

    def add(self, contract: type, service: object) -> None:
        """Serve `service` as `contract` (a class of ottla_proto.contracts). Raises ContractError if they differ."""
        endpoints = self._endpoints(contract, service)
        handlers = {name: self._handler(endpoint) for name, endpoint in endpoints.items()}
        for gathered in _gathered(contract):
            handlers[gathered.name] = self._gathered_handler(gathered, endpoints)
        name = contract.SERVICE.full_name  # type: ignore[attr-defined]  # every contract has one
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))

    async def start(self) -> None:
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        try:
            self.port = transport.add_port(self._server, str(HostPort(self._host, self._requested_port)), self._tls)
        except RuntimeError:
            self.port = 0
        if self.port == 0:
            # gRPC has two ways to say that it can't bind the port: it raises, or it returns 0.
            raise PortInUseError(HostPort(self._host, self._requested_port))
        await self._server.start()

    def address(self, advertised_host: str) -> str:
        """Return where others reach the server: at `advertised_host`, or at its own host if that is empty."""
        return str(HostPort(advertised_host or self._host, self.port))

    async def kill(self) -> None:
        """Cut every connection at once, as the end of the process would."""
        await self._server.stop(None)

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """Reject new calls, let open frames and calls end for `grace_s`, then abort them."""
        # The order matters. First no stream takes another frame. Then delayed fetches respond, which completes the
        # produces that wait for them. Then load balancers hear of it, and only then does gRPC wait for calls that are
        # still open.
        self._draining.set()
        self._on_drain()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    def _endpoints(self, contract: type, service: object) -> dict[str, Endpoint]:
        methods = {m.name: m for m in vars(contract).values() if isinstance(m, Method)}
        described = {m.name for m in contract.SERVICE.methods}  # type: ignore[attr-defined]  # every contract has one
        described -= {gathered.name for gathered in _gathered(contract)}
        # The generated proto and the typed contracts are two files. A method in only one of them would have no types,
        # or would not be served.
        if methods.keys() != described:
            raise ContractError(
                f"{contract.__name__}: contracts.py and the proto differ in {sorted(methods.keys() ^ described)}"
            )
        # The endpoint awaits what a method returns, so each method must be a coroutine function.
        missing = [n for n in methods if not asyncio.iscoroutinefunction(getattr(service, snake_case(n), None))]
        if missing:
            raise ContractError(f"{type(service).__name__} lacks async methods for {', '.join(missing)}")
        open_to_nobody = [n for n, m in methods.items() if m.path not in CALLERS]
        if open_to_nobody:
            raise ContractError(f"rpc.service_access has no entry for {contract.__name__}.{open_to_nobody[0]}")
        # The faults of a test go around the method but within the endpoint, so an injected error is counted and mapped
        # like a real one.
        handlers = {n: self._around(m, getattr(service, snake_case(n))) for n, m in methods.items()}
        return {n: Endpoint(m, handlers[n], CALLERS[m.path], self._refusals, self._metrics) for n, m in methods.items()}

    def _gathered_handler(self, gathered: GatheredCalls, endpoints: Mapping[str, Endpoint]) -> Any:
        try:
            carried = carried_methods(gathered)
        except ValueError as error:
            raise ContractError(str(error)) from None
        by_field = {field: endpoints[method.name] for field, method in carried.items()}
        streams = CallStreams(gathered, by_field, self._calls, self._draining)
        self._metrics.gauge("ottla_rpc_streams", "Open streams.", lambda: float(streams.open), method=gathered.name)

        async def stream(_: Any, context: Any) -> None:
            await streams.serve(context, self._context_of(context))

        return grpc.stream_stream_rpc_method_handler(stream)

    def _handler(self, endpoint: Endpoint) -> Any:
        if is_stream(endpoint.method):
            streams = Streams(endpoint, self._draining)
            name, budget = endpoint.method.name, streams.budget
            self._metrics.gauge("ottla_rpc_streams", "Open streams.", lambda: float(streams.open), method=name)
            self._metrics.gauge(
                "ottla_rpc_in_flight_bytes",
                "Memory held by a method's frames and responses.",
                lambda: float(budget.bytes),
                method=name,
            )

            async def stream(_: Any, context: Any) -> None:
                await streams.serve(context, self._context_of(context))

            return grpc.stream_stream_rpc_method_handler(stream)

        # The request arrives as bytes, so that its size is known before it is decoded: `calls` rejects requests for
        # which there is no room.
        async def unary(data: bytes, context: Any) -> bytes:
            try:
                with self._calls.counted(data, context.peer()) as call:
                    return await _serve_unary(endpoint, data, context, self._context_of(context), call)
            except TooMuchError as error:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
                raise AssertionError("abort raises") from None

        return grpc.unary_unary_rpc_method_handler(unary)


class _Health(grpc_health_aio.HealthServicer):  # type: ignore[misc, no-any-unimported]  # untyped base
    """gRPC's health service: "" is liveness, and READY_SERVICE asks the service itself."""

    def __init__(self, ready: Callable[[], str | None]) -> None:
        super().__init__()
        self._ready = ready

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        if request.service == READY_SERVICE:
            statuses = health_pb2.HealthCheckResponse
            return statuses(status=statuses.NOT_SERVING if self._ready() else statuses.SERVING)
        return await super().Check(request, context)


class PortInUseError(OSError):
    def __init__(self, address: HostPort) -> None:
        super().__init__(f"{address} can't be bound: another process holds the port, or the host is not this machine's")


def _gathered(contract: type) -> list[GatheredCalls]:
    return [each for each in vars(contract).values() if isinstance(each, GatheredCalls)]


def _context_of(context: Any) -> RequestContext:
    return context_of(context.invocation_metadata() or (), context.peer())


def _proven_context_of(context: Any) -> RequestContext:
    return context_of(context.invocation_metadata() or (), context.peer(), context.auth_context())


async def _serve_unary(
    endpoint: Endpoint, data: bytes, grpc_context: Any, context: RequestContext, call: OpenCall
) -> bytes:
    # Without a deadline a call to a server that hangs would wait for ever (I12). The server can't choose one for the
    # client, because it does not know how long the client waits.
    if grpc_context.time_remaining() is None:
        await grpc_context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a unary call needs a deadline")
    try:
        request = endpoint.method.request.FromString(data)
        response = await endpoint.call(request, context)
        # The response counts until gRPC has taken it, beside the request.
        return call.holding(response.SerializeToString())
    except DecodeError:
        await grpc_context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"this is not a {endpoint.method.name} request")
    # A method that could only end a stream was called without one.
    except EndStreamError as end:
        await grpc_context.abort(grpc.StatusCode.UNAVAILABLE, str(end))
    except Exception as error:
        await grpc_context.abort(grpc.StatusCode.INTERNAL, log_bug(endpoint.method.name, context.request_id, error))
    raise AssertionError("abort raises")
