"""Connects a client to scripted brokers (`ottla.fakes.scripted`), in place of sockets.

The line of a stream has a thread of its own. So its responses come as they come from the network: later, on another
thread, and in the order of the requests. Single calls are answered on the caller's thread, and do not wait for each
other. Requests and responses are encoded and decoded as on the wire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Condition, Thread
from time import monotonic
from typing import Any, Final, Protocol

from ottla.client.kafka.apis import AnyApi
from ottla.client.kafka.call import Answered, Call, Ended, Failed, Written
from ottla.client.kafka.frames import LENGTH_BYTES
from ottla.client.kafka.lines import Waiter
from ottla.client.kafka.peer import KafkaPeer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import ResponseHeader
from ottla_core.kafka.runtime import UnencodableError


@dataclass(frozen=True, slots=True)
class Reject:
    """Answer with this code, for every partition of a request, or for the request as a whole if it has no
    partitions."""

    code: int
    message: str = "scripted"
    leader: tuple[int, int] | None = None
    """The (broker id, leader epoch) that the response names."""


@dataclass(frozen=True, slots=True)
class Break:
    """Break the connection, before or (`applied`) after the request is carried out."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answer."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Answer as usual once `release()` has been called on the cluster."""


Step = Reject | Break | Hang | Hold


class Brokers(Protocol):
    """The scripted cluster, as far as a line needs it. `changed` guards the fields, and the methods acquire it."""

    changed: Condition
    addresses: list[str]
    released: int
    stopped: set[str]

    @property
    def features(self) -> Mapping[str, int]: ...
    def version(self, api: AnyApi) -> int: ...
    def take_step(self, address: str, api: AnyApi, request: Message) -> Step | None: ...
    def respond(
        self, address: str, api: AnyApi, version: int, request: Message, is_over: Callable[[], bool]
    ) -> Message: ...
    def rejection(self, address: str, api: AnyApi, request: Message, step: Reject) -> Message: ...


class ScriptedTransport:
    """The transport of one client."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster: Final = cluster

    def __call__(self, address: str) -> KafkaPeer:
        return KafkaPeer(ScriptedAddress(self._cluster, address))


class ScriptedAddress:
    """The lines to one scripted broker. Single calls are answered on the caller's thread."""

    def __init__(self, cluster: Brokers, address: str) -> None:
        self.address: Final = address
        self._cluster: Final = cluster
        self._lines: Final[list[ScriptedLine]] = []
        self._is_closed = False

    @property
    def now(self) -> float:
        return monotonic()

    def open(self, on_ended: Callable[[OttlaError], None]) -> ScriptedLine:
        if self.address not in self._cluster.addresses:
            raise OttlaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address}: no broker listens there")
        line = ScriptedLine(self._cluster, self.address, on_ended)
        self._lines.append(line)
        return line

    def ask(
        self, api: AnyApi, request: Callable[[int], Message], *, timeout: float, size_bytes: int = 0
    ) -> tuple[Message, Answered[Any]]:
        cluster = self._cluster
        call: Call[Waiter] = Call(api, request, _ignore, self.now + timeout, size_bytes)
        release = cluster.released + 1
        version, asked = arrived(cluster, call)
        step = cluster.take_step(self.address, api, asked)
        if isinstance(step, Hold):
            with cluster.changed:
                cluster.changed.wait_for(lambda: self._is_closed or cluster.released >= release, timeout)
            if cluster.released < release:
                code = ErrorCode.NETWORK_EXCEPTION if self._is_closed else ErrorCode.REQUEST_TIMED_OUT
                raise OttlaError(code, f"{api.name} at {self.address}: scripted")
        is_stopped = self.address in cluster.stopped
        if isinstance(step, Break) and step.applied:
            cluster.respond(self.address, api, version, asked, _goes_on)
        if is_stopped or self.address not in cluster.addresses or isinstance(step, Break | Hang):
            is_silent = is_stopped or isinstance(step, Hang)
            code = ErrorCode.REQUEST_TIMED_OUT if is_silent else ErrorCode.NETWORK_EXCEPTION
            raise OttlaError(code, f"{api.name} at {self.address}: scripted")
        if isinstance(step, Reject):
            response = cluster.rejection(self.address, api, asked, step)
        else:
            response = cluster.respond(self.address, api, version, asked, _goes_on)
        answered = Answered(call, version, frame_of(api, version, response), self.address, cluster.features)
        return answered.message(), answered

    def on_response(self) -> None:
        """Do nothing: a scripted broker takes any number of connections."""

    def close(self) -> None:
        with self._cluster.changed:
            self._is_closed = True
            self._cluster.changed.notify_all()
        for line in self._lines:
            line.close("the connection was closed")


class ScriptedLine:
    """One connection to a scripted broker, which answers its calls one after another."""

    def __init__(self, cluster: Brokers, address: str, on_ended: Callable[[OttlaError], None]) -> None:
        self.ended: OttlaError | None = None
        self._cluster: Final = cluster
        self._address: Final = address
        self._on_ended: Final = on_ended
        self._inbox: Final[deque[Call[Waiter]]] = deque()
        self._is_busy = False
        self._ends_by = float("inf")
        Thread(target=self._run, name=f"scripted-{address}", daemon=True).start()

    def begin(self, call: Call[Waiter]) -> None:
        with self._cluster.changed:
            if self.ended is not None:
                raise OttlaError(ErrorCode.NETWORK_EXCEPTION, f"{call.api.name} at {self._address}: the line is over")
            self._inbox.append(call)
            self._cluster.changed.notify_all()

    def message(self, answered: Answered[Any]) -> Message:
        return answered.message()

    def leave(self, timeout: float) -> None:
        with self._cluster.changed:
            self._ends_by = monotonic() + timeout
            self._cluster.changed.notify_all()

    def close(self, reason: str, *, timeout: float = 0.0) -> None:
        with self._cluster.changed:
            self._cluster.changed.wait_for(lambda: self.ended is not None or self._is_idle, timeout)
        self.end(reason)

    def end(self, reason: str) -> None:
        with self._cluster.changed:
            self.ended = self.ended or OttlaError(ErrorCode.NETWORK_EXCEPTION, reason)
            self._cluster.changed.notify_all()

    @property
    def _is_idle(self) -> bool:
        return not (self._is_busy or self._inbox)

    def _is_over(self) -> bool:
        return self.ended is not None or monotonic() >= self._ends_by

    @property
    def _is_stopped(self) -> bool:
        return self._address in self._cluster.stopped

    def _run(self) -> None:
        try:
            while (call := self._next()) is not None:
                self._take_in(call)
        finally:
            self.end("the connection was closed")
            assert self.ended is not None
            self._on_ended(self.ended)

    def _next(self) -> Call[Waiter] | None:
        """Return the next call, or None once the line is over."""
        with self._cluster.changed:
            self._is_busy = False
            self._cluster.changed.notify_all()
            self._wait(lambda: bool(self._inbox) and not self._is_stopped)
            if self._is_over():
                return None
            self._is_busy = True
            return self._inbox.popleft()

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, or the line is over. The cluster's lock is held."""
        while not (condition() or self._is_over()):
            self._cluster.changed.wait(min(60.0, max(0.0, self._ends_by - monotonic())))

    def _take_in(self, call: Call[Waiter]) -> None:
        cluster, api = self._cluster, call.api
        try:
            version, request = arrived(cluster, call)
        except OttlaError as error:
            call.waiter(Failed(call, error, was_sent=False))
            return
        release = cluster.released + 1
        step = cluster.take_step(self._address, api, request)
        if isinstance(step, Break):
            if step.applied:
                cluster.respond(self._address, api, version, request, self._is_over)
            self.end("the line broke")
            return
        with cluster.changed:
            if isinstance(step, Hang):
                self._wait(lambda: False)
            if isinstance(step, Hold):
                self._wait(lambda: cluster.released >= release)
        if self._is_over():
            return
        if isinstance(step, Reject):
            response = cluster.rejection(self._address, api, request, step)
        else:
            response = cluster.respond(self._address, api, version, request, self._is_over)
        with cluster.changed:
            self._wait(lambda: not self._is_stopped)
            is_over = self._is_over()
        if is_over:
            return
        if call.answered:
            frame = frame_of(api, version, response)
            call.waiter(Answered(call, version, frame, self._address, cluster.features))
        elif has_error(response):
            self.end("the broker has closed the connection")  # the only response that there is (rule 66)
        else:
            call.waiter(Written(call))


def _ignore(outcome: Ended[Any]) -> None:
    """Ignore the outcome of a call, which its caller gets at once."""


def _goes_on() -> bool:
    return False


def arrived(cluster: Brokers, call: Call[Any]) -> tuple[int, Message]:
    """Return the version of a request, and the request as it comes to a broker. Raises OttlaError."""
    version = min(call.api.versions[-1], cluster.version(call.api))
    if version not in call.api.versions:
        reason = f"this client can't call {call.api.name}: the broker serves no version that it knows"
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, reason, hint=call.api.hint)
    try:
        body = codec.encode(call.request(version), version)
    except UnencodableError as error:
        raise OttlaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    return version, codec.decode(call.api.request, body, version)


def frame_of(api: AnyApi, version: int, response: Message) -> bytes:
    """Return the frame of a response. Its length and its correlation id are not read."""
    header = codec.encode(ResponseHeader(correlation_id=0), api.response_header(version))
    return bytes(LENGTH_BYTES) + header + codec.encode(response, version, private=True)


def has_error(response: Any) -> bool:
    """Return whether a response to Produce has an error for any partition."""
    return any(part.error_code for topic in response.responses for part in topic.partition_responses)
