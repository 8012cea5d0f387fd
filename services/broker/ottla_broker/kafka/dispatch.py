"""Takes requests to their handlers: frames are taken apart, and responses put into frames, and both are counted and
timed. Where a login is expected, nothing else is served before it is over (`logins`)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from time import perf_counter
from typing import Any, Final

from ottla_broker.kafka import logins
from ottla_broker.kafka.api import Api, Handler
from ottla_broker.kafka.apis import APIS, PRIVATE
from ottla_broker.kafka.authorization.access import EVERYTHING
from ottla_broker.kafka.authorization.current_authorizer import CurrentAuthorizer
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handlers import api_versions
from ottla_broker.kafka.network.connection import CloseConnectionError, HandlerResult
from ottla_broker.kafka.network.limits import PRODUCE_KEY
from ottla_broker.kafka.wire import frames
from ottla_broker.kafka.wire.frames import SIZE_BYTES, TOKEN_KEY, Caller, Head, Parts
from ottla_core.errors import OttlaError
from ottla_core.kafka_formats.primitives import MalformedError
from ottla_core.rpc.context import new_request_id
from ottla_core.rpc.status import log_bug
from ottla_core.security.login import Login
from ottla_core.telemetry import Counter, Histogram, Metrics

AroundApi = Callable[[str, Handler], Handler]
"""A function that wraps every API that is served, given its name. `ottla.testing` uses it for its faults."""


def unchanged(name: str, handler: Handler) -> Handler:
    return handler


class Dispatcher:
    """Takes frames apart, finds their handlers, and puts the responses into frames. `apis` are by their keys, by
    default `APIS`. Without an `authorizer` every client may do everything."""

    def __init__(
        self,
        backend: Backend,
        metrics: Metrics,
        around: AroundApi = unchanged,
        apis: Mapping[int, Api] | None = None,
        authorizer: CurrentAuthorizer | None = None,
    ) -> None:
        self._backend = backend
        self._authorizer: Final = authorizer
        self._apis: Final = APIS if apis is None else apis
        served = (*self._apis.values(), PRIVATE)
        self._handlers: Final = {api.key: around(api.name, api.handler) for api in served}
        self._requests: Final[dict[int, Counter]] = {
            api.key: metrics.counter("ottla_kafka_requests_total", "Requests from Kafka clients.", api=api.name)
            for api in served
        }
        self._metrics = metrics
        self._times: Final[dict[int, Histogram]] = {}
        """It has only APIs that were requested, because a histogram has many series."""

    def may_overlap(self, key: int) -> bool:
        return key == PRODUCE_KEY

    def handle(self, head: Head, frame: memoryview, caller: Caller) -> HandlerResult:
        """Begin a request. This call or its result may raise MalformedError or CloseConnectionError."""
        login = caller.login
        if login is not None and not login.is_over:
            if head.key == TOKEN_KEY:
                return self._exchange(login, bytes(frame[SIZE_BYTES:]))
            logins.admit(login, head.key)
        api = self._apis.get(head.key)
        if head.key == PRIVATE.key and caller.is_ottlas:
            api = PRIVATE
        if api is None:
            raise CloseConnectionError(f"API {head.key} is not supported")
        if not api.min_version <= head.version <= api.max_version:
            return _unsupported(api, head.version, frame)
        flexible = head.version in api.flexible
        access = EVERYTHING if self._authorizer is None else self._authorizer.access(caller)
        request = frames.read_request(frame, head.version, caller, flexible=flexible, access=access)
        self._requests[head.key].value += 1
        begun_at = perf_counter()
        tagged = flexible and head.key != api_versions.KEY
        try:
            response = self._handlers[head.key](self._backend, request)
        except (MalformedError, CloseConnectionError):
            raise
        except Exception as error:
            raise _bug(api, error) from None
        if response is None or isinstance(response, list):
            self._on_responded(api, begun_at)
            return None if response is None else frames.response(request.correlation_id, response, tagged=tagged)
        return self._later(api, response, request.correlation_id, begun_at, tagged=tagged)

    async def _exchange(self, login: Login, token: bytes) -> Parts:
        """Respond to a token of a login, which has no header."""
        try:
            return frames.token(await logins.respond(login, token, self._backend.threads))
        except OttlaError:
            raise CloseConnectionError(login.failure) from None  # a token can't say that a login has failed

    async def _later(
        self,
        api: Api,
        response: Coroutine[Any, Any, Parts | None],
        correlation_id: int,
        begun_at: float,
        *,
        tagged: bool,
    ) -> Parts | None:
        try:
            body = await response
        except (MalformedError, CloseConnectionError):
            raise
        except Exception as error:
            raise _bug(api, error) from None
        self._on_responded(api, begun_at)
        return None if body is None else frames.response(correlation_id, body, tagged=tagged)

    def _on_responded(self, api: Api, begun_at: float) -> None:
        times = self._times.get(api.key)
        if times is None:
            text = "Time from a Kafka client's request to its response, waits included."
            times = self._metrics.histogram("ottla_kafka_request_seconds", text, api=api.name)
            self._times[api.key] = times
        times.observe(perf_counter() - begun_at)


def _unsupported(api: Api, version: int, frame: memoryview) -> Parts:
    """Return the response to an unknown version. ApiVersions responds with its own range; for any other API the
    connection ends."""
    if api.key != api_versions.KEY:
        raise CloseConnectionError(f"version {version} of {api.name} is not supported")
    return frames.response(frames.read_correlation_id(frame), api_versions.unsupported(api), tagged=False)


def _bug(api: Api, error: Exception) -> CloseConnectionError:
    return CloseConnectionError(log_bug(f"Kafka {api.name}", new_request_id(), error))
