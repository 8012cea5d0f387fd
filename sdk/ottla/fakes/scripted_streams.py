"""Connections and streams to scripted brokers, and the steps that a test can script (ottla.fakes.scripted).

Each stream is served by a thread of its own, so answers come as they come from the network: later, on another thread.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from time import monotonic
from typing import Any, Protocol

from google.protobuf.message import Message

from ottla.client.kafka.apis import Api
from ottla.fakes.scripted_session import ScriptedSession, ends_request
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message as KafkaMessage
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Method


@dataclass(frozen=True, slots=True)
class Reject:
    """Answer with this code: every partition of a request, or the whole of one that has none."""

    code: int
    message: str = "scripted"
    leader: tuple[int, int] | None = None  # (broker id, leader epoch) that the response names


@dataclass(frozen=True, slots=True)
class Break:
    """Break the stream, or the call, before or (`applied`) after doing what was asked."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answer."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Answer as usual once `release()` was called on the cluster."""


Step = Reject | Break | Hang | Hold


class Brokers(Protocol):
    """What a stream needs of the scripted cluster; everything under `changed`."""

    changed: Condition
    addresses: list[str]
    released: int
    stopped: set[str]

    def until(self, condition: Callable[[], bool], timeout: float) -> None: ...
    def take_step(self, address: str, method: Method[Any, Any], body: Message) -> Step | None: ...
    def respond(self, address: str, body: Message) -> Any: ...
    def broker_error(self, body: Any, step: Reject) -> Any: ...
    def exchange(self, api: Api, request: KafkaMessage) -> KafkaMessage: ...


class ScriptedConnection:
    """transport.Connection, without sockets."""

    def __init__(self, cluster: Brokers, address: str) -> None:
        self._cluster = cluster
        self._address = address
        self._streams: list[ScriptedStream] = []

    def call(self, method: Method[Any, Any], request: Any, *, timeout: float) -> Any:
        response = self.ask(method, request, timeout=timeout)
        if response.error.code:
            raise OttlaError(response.error.code, response.error.message)
        return response

    def ask(self, method: Method[Any, Any], request: Any, *, timeout: float) -> Any:
        cluster = self._cluster
        release = cluster.released + 1
        step = cluster.take_step(self._address, method, request)
        if isinstance(step, Hold):
            cluster.until(lambda: cluster.released >= release, timeout)
        stopped = self._address in cluster.stopped
        if isinstance(step, Break) and step.applied:
            cluster.respond(self._address, request)
        if stopped or self._address not in cluster.addresses or isinstance(step, Break | Hang):
            code = ErrorCode.REQUEST_TIMED_OUT if stopped or isinstance(step, Hang) else ErrorCode.NETWORK_EXCEPTION
            raise OttlaError(code, f"{method.name} at {self._address}: scripted")
        if isinstance(step, Reject):
            return cluster.broker_error(request, step)
        return cluster.respond(self._address, request)

    def exchange(self, api: Api, request: Callable[[int], KafkaMessage], *, timeout: float) -> KafkaMessage:
        cluster = self._cluster
        if self._address in cluster.stopped or self._address not in cluster.addresses:
            raise OttlaError(ErrorCode.NETWORK_EXCEPTION, f"{api.name} at {self._address}: scripted")
        return cluster.exchange(api, request(api.versions[-1]))

    def open_stream(
        self,
        method: Method[Any, Any],
        on_response: Callable[[int, Any], None],
        on_broken: Callable[[OttlaError, list[int]], None],
    ) -> ScriptedStream:
        stream = ScriptedStream(self._cluster, self._address, method, on_response, on_broken)
        self._streams.append(stream)
        return stream

    def close(self) -> None:
        for stream in self._streams:
            stream.close()


def _in_session(body: Any) -> bool:
    return isinstance(body, pb.FetchRequest) and body.HasField("session")


@dataclass(slots=True)
class _Parked:
    """A frame that is not answered yet: on hold, or a fetch until there is data or its time is up."""

    frame: int
    body: Any
    answered: bool
    release: int
    due_at: float


class ScriptedStream:
    """One stream, served by a thread of its own."""

    def __init__(
        self,
        cluster: Brokers,
        address: str,
        method: Method[Any, Any],
        on_response: Callable[[int, Any], None],
        on_broken: Callable[[OttlaError, list[int]], None],
    ) -> None:
        self._cluster = cluster
        self._address = address
        self._method = method
        self._on_response = on_response
        self._on_broken = on_broken
        self._ids = itertools.count(1)
        self._inbox: deque[tuple[int, Any, bool]] = deque()
        self._parked: list[_Parked] = []
        self._open: dict[int, None] = {}
        self._session = ScriptedSession()
        self._broken = address not in cluster.addresses
        self._busy = False
        Thread(target=self._run, name=f"scripted-{address}", daemon=True).start()

    def send(self, body: Any, *, timeout_ms: int, answered: bool = True) -> int:
        with self._cluster.changed:
            if self._broken:
                raise OttlaError(ErrorCode.NETWORK_EXCEPTION, "the stream is broken")
            frame = next(self._ids)
            if answered:
                self._open[frame] = None
            self._inbox.append((frame, body, answered))
            self._cluster.changed.notify_all()
            return frame

    def close(self, *, timeout: float = 0.0) -> None:
        with self._cluster.changed:
            if timeout > 0:
                self._cluster.changed.wait_for(lambda: self._broken or self._is_idle(), timeout)
            self._broken = True
            self._cluster.changed.notify_all()

    def _is_idle(self) -> bool:
        return not (self._busy or self._inbox or self._parked)

    def _is_stopped(self) -> bool:
        return self._address in self._cluster.stopped

    def _run(self) -> None:
        changed = self._cluster.changed
        while True:
            with changed:
                if self._busy:
                    self._busy = False
                    changed.notify_all()
                if not self._broken and (self._is_stopped() or not (self._inbox or self._due())):
                    ripe = (p.due_at for p in self._parked if p.release <= self._cluster.released)
                    earliest = monotonic() + 60 if self._is_stopped() else min(ripe, default=monotonic() + 60)
                    changed.wait(max(0.0, earliest - monotonic()))
                if self._broken:
                    left = list(self._open)
                    break
                if self._is_stopped():
                    continue
                self._busy = True
                arrived = self._inbox.popleft() if self._inbox else None
                due = self._due()
            if arrived is not None:
                self._arrive(*arrived)
            for parked in due:
                is_superseded = self._is_superseded(parked)
                self._parked.remove(parked)
                self._response(parked.frame, self._respond(parked, is_superseded=is_superseded), parked.answered)
        self._on_broken(OttlaError(ErrorCode.NETWORK_EXCEPTION, "the stream broke"), left)

    def _due(self) -> list[_Parked]:
        due, in_turn = [], True
        for parked in self._parked:
            is_due = parked.release <= self._cluster.released and (
                parked.due_at <= monotonic() or self._has_something(parked)
            )
            if is_due and (in_turn or not _in_session(parked.body)):
                due.append(parked)
            elif _in_session(parked.body):
                in_turn = False
        return due

    def _has_something(self, parked: _Parked) -> bool:
        if not isinstance(parked.body, pb.FetchRequest) or self._is_superseded(parked):
            return True
        return any(map(ends_request, self._cluster.respond(self._address, self._session.whole(parked.body)).partitions))

    def _is_superseded(self, parked: _Parked) -> bool:
        """A newer fetch of the session ends one that is parked."""
        return _in_session(parked.body) and parked is not self._parked[-1]

    def _respond(self, parked: _Parked, *, is_superseded: bool) -> Any:
        if not isinstance(parked.body, pb.FetchRequest):
            return self._cluster.respond(self._address, parked.body)
        whole = self._session.whole(parked.body)
        response = pb.FetchResponse() if is_superseded else self._cluster.respond(self._address, whole)
        return self._session.answered(whole, response)

    def _arrive(self, frame: int, body: Any, answered: bool) -> None:
        step = self._cluster.take_step(self._address, self._method, body)
        if isinstance(step, Reject):
            whole = self._session.whole(body) if isinstance(body, pb.FetchRequest) else body
            response = self._cluster.broker_error(whole, step)
            self._response(frame, self._session.answered(whole, response) if whole is not body else response, answered)
        elif isinstance(step, Break):
            if step.applied:
                self._cluster.respond(self._address, body)
            self.close()
        elif step is None or isinstance(step, Hold):
            wait_s = body.max_wait_ms / 1000 if isinstance(body, pb.FetchRequest) else 0.0
            release = self._cluster.released + isinstance(step, Hold)
            self._parked.append(_Parked(frame, body, answered, release, monotonic() + wait_s))

    def _response(self, frame: int, body: Any, answered: bool) -> None:
        if not answered and any(part.error.code for part in body.partitions):
            self.close()  # the only response that there is (rule 66)
        elif answered:
            with self._cluster.changed:
                self._open.pop(frame, None)
            self._on_response(frame, body)
