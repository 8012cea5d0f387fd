"""How a server serves gathered calls: each for itself, in the order of their start, and in bounded memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from waiting import until

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc import calls as calls_module
from ottla_core.rpc import served_calls as module
from ottla_core.rpc.calls import Calls
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.served_calls import CallStreams
from ottla_core.rpc.status import error_message
from ottla_core.rpc.streams import EndStreamError
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group


class AbortedError(Exception):
    """What gRPC raises through whoever aborts."""


class Call:
    """gRPC's side of one stream: what it reads, and whether a write gets through."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[Any] = asyncio.Queue()
        self.taking = asyncio.Event()
        self.taking.set()
        self.written: list[pb.GroupResponses] = []
        self.status: tuple[grpc.StatusCode, str] | None = None

    async def read(self) -> Any:
        return await self.inbox.get()

    async def write(self, message: bytes) -> None:
        await self.taking.wait()
        self.written.append(pb.GroupResponses.FromString(message))

    async def abort(self, code: grpc.StatusCode, words: str) -> None:
        self.status = (code, words)
        raise AbortedError

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"


Answer = Callable[[int], Awaitable[int]]
"""Gives the code of a heartbeat's response, by the generation in the heartbeat, which is the call's number here."""


class Heartbeat:
    """The endpoint."""

    method = Group.HEARTBEAT

    def __init__(self, answer: Answer) -> None:
        self.begun: list[int] = []
        self._answer = answer

    async def call(self, request: Message, context: RequestContext) -> Message:
        number: int = request.generation  # type: ignore[attr-defined]  # a heartbeat
        self.begun.append(number)
        code = await self._answer(number)
        return pb.HeartbeatResponse(error=error_message(OttlaError(code, "x" * code if code > 100 else "")))

    def failed(self, error: OttlaError) -> Message:
        return pb.HeartbeatResponse(error=error_message(error))


class Stream:
    def __init__(self, answer: Answer) -> None:
        self.call_of_grpc = Call()
        self.endpoint = Heartbeat(answer)
        self.calls = Calls()
        self.draining = asyncio.Event()
        self.streams = CallStreams(Group.CALLS, {"heartbeat": self.endpoint}, self.calls, self.draining)
        self.serving = asyncio.create_task(self.streams.serve(self.call_of_grpc, RequestContext(request_id="r-1")))

    @property
    def begun(self) -> list[int]:
        return self.endpoint.begun

    def send(self, *numbers: int, timeout_ms: int = 60_000, cancelled: Sequence[int] = ()) -> None:
        message = pb.GroupCalls(calls=[call(number, timeout_ms) for number in numbers], cancelled=cancelled)
        self.call_of_grpc.inbox.put_nowait(message.SerializeToString())

    def responses(self) -> list[tuple[int, int]]:
        """Number and code of each response so far."""
        return [
            (each.correlation_id, each.heartbeat.error.code or each.not_started.code)
            for message in self.call_of_grpc.written
            for each in message.responses
        ]

    async def until_ended(self) -> tuple[grpc.StatusCode, str] | None:
        await asyncio.wait({self.serving}, timeout=10)
        assert self.serving.done()
        assert isinstance(self.serving.exception(), AbortedError | None)
        await until(self.holds_nothing, limit_s=10.0)
        return self.call_of_grpc.status

    def holds_nothing(self) -> bool:
        return (self.streams.open, self.calls.open, self.calls.bytes) == (0, 0, 0)

    async def gone(self) -> None:
        """The client goes, as gRPC tells it."""
        self.serving.cancel()
        await asyncio.wait({self.serving})
        await until(self.holds_nothing, limit_s=10.0)


def call(number: int, timeout_ms: int = 60_000) -> pb.GroupCall:
    return pb.GroupCall(correlation_id=number, timeout_ms=timeout_ms, heartbeat=pb.HeartbeatRequest(generation=number))


async def at_once(number: int) -> int:
    return 0


async def never(number: int) -> int:
    await asyncio.Event().wait()
    return 0


async def even_ones_never(number: int) -> int:
    return await (at_once if number % 2 else never)(number)


async def test_calls_start_in_their_order_and_one_message_brings_many_responses() -> None:
    stream = Stream(at_once)
    numbers = list(range(1, 251))
    stream.send(*numbers)
    await until(lambda: len(stream.responses()) == 250)
    assert stream.begun == numbers
    assert stream.responses() == [(number, 0) for number in numbers]
    assert len(stream.call_of_grpc.written) <= 4
    await stream.gone()


async def test_many_calls_of_a_message_take_more_than_one_turn() -> None:
    stream = Stream(at_once)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while len(stream.begun) < 1_000:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    stream.send(*range(1, 1_001))
    await asyncio.wait_for(counting, 10.0)
    assert turns >= 10
    await stream.gone()


async def test_a_slow_call_holds_up_no_other() -> None:
    stream = Stream(even_ones_never)
    stream.send(2, 3, 4, 5)
    await until(lambda: stream.responses() == [(3, 0), (5, 0)])
    stream.send(7)
    await until(lambda: stream.responses() == [(3, 0), (5, 0), (7, 0)])
    assert stream.calls.open == 2
    await stream.gone()


async def test_each_call_has_its_deadline() -> None:
    stream = Stream(even_ones_never)
    stream.send(2, timeout_ms=60_000)
    stream.send(4, timeout_ms=20)
    stream.send(5, timeout_ms=20)
    await until(lambda: stream.responses() == [(5, 0), (4, ErrorCode.REQUEST_TIMED_OUT)])
    assert stream.calls.open == 1
    assert "not done within 0.02 s" in stream.call_of_grpc.written[-1].responses[0].heartbeat.error.message
    await stream.gone()


async def test_a_cancelled_call_ends_and_has_no_response() -> None:
    ended: list[int] = []

    async def answer(number: int) -> int:
        try:
            return await even_ones_never(number)
        finally:
            ended.append(number)

    stream = Stream(answer)
    stream.send(2, 4)
    await until(lambda: stream.begun == [2, 4])
    stream.send(5, cancelled=[2, 1, 99])
    await until(lambda: ended == [5, 2])
    await until(lambda: stream.responses() == [(5, 0)])
    assert stream.calls.open == 1
    await stream.gone()
    await until(lambda: ended == [5, 2, 4])


async def test_what_a_newer_release_sends_is_refused_and_the_rest_is_served() -> None:
    """An unknown body is no error of the stream; neither is an unknown field of the message."""
    stream = Stream(at_once)
    unknown = pb.GroupCall(correlation_id=2, timeout_ms=1_000).SerializeToString() + b"\xfa\x3e\x02hi"
    frames = [call(1).SerializeToString(), unknown, call(3).SerializeToString()]
    message = b"".join(b"\x0a" + bytes((len(frame),)) + frame for frame in frames) + b"\xfa\x3e\x02hi"
    stream.call_of_grpc.inbox.put_nowait(message)
    await until(lambda: len(stream.responses()) == 3)
    assert sorted(stream.responses()) == [(1, 0), (2, ErrorCode.UNSUPPORTED_VERSION), (3, 0)]
    (refused,) = [each for m in stream.call_of_grpc.written for each in m.responses if each.correlation_id == 2]
    assert refused.not_started.message == (
        "this server does not know the method of a call by Group.Calls; update the server"
    )
    await stream.gone()


async def test_a_call_without_a_deadline_is_not_started() -> None:
    stream = Stream(at_once)
    stream.send(1, timeout_ms=0)
    await until(lambda: stream.responses() == [(1, ErrorCode.INVALID_REQUEST)])
    assert stream.begun == []
    await stream.gone()


@pytest.mark.parametrize("bad", [b"\xff", b"\x0a\x01\xff", None])
async def test_what_is_no_message_ends_the_stream_after_the_responses(bad: bytes | None) -> None:
    """So does a number that was there before: its response would be another call's."""
    stream = Stream(at_once)
    stream.send(1)
    stream.call_of_grpc.inbox.put_nowait(bad or pb.GroupCalls(calls=[call(1)]).SerializeToString())
    status = await stream.until_ended()
    assert status is not None
    assert status[0] == grpc.StatusCode.INVALID_ARGUMENT
    assert status[1].startswith("this is not a message of Group.Calls")
    assert stream.responses() == [(1, 0)]


# ---- bounds ---------------------------------------------------------------------------------------------------------


async def test_a_call_without_room_is_refused_and_the_next_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading does not wait for room: what would make room may be behind."""
    monkeypatch.setattr(calls_module, "MAX_CALLS", 2)
    stream = Stream(never)
    stream.send(1, 2, 3)
    await until(lambda: stream.responses() == [(3, ErrorCode.NETWORK_EXCEPTION)])
    stream.send(cancelled=[1])
    await until(lambda: stream.calls.open == 1)
    stream.send(4)
    await until(lambda: stream.begun == [1, 2, 4])
    await stream.gone()


async def test_a_client_that_takes_nothing_is_read_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNWRITTEN_BYTES", 500)

    async def large(number: int) -> int:
        return 300

    stream = Stream(large)
    stream.call_of_grpc.taking.clear()
    for number in range(1, 20):
        stream.send(number)
    await until(lambda: len(stream.begun) >= 2)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(stream.begun) <= 4, "those that were read before the first responses were ready"
    assert stream.calls.open == len(stream.begun), "a response counts until it is written"
    stream.call_of_grpc.taking.set()
    await until(lambda: len(stream.responses()) == 19)
    await until(lambda: stream.calls.open == 0)
    await stream.gone()


async def test_a_client_that_takes_nothing_for_long_loses_its_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cut: list[str] = []
    monkeypatch.setattr(module, "WRITE_LIMIT_S", 0.02)
    monkeypatch.setattr(module, "_SHUT_DOWN_LIMIT_S", 0.0)
    monkeypatch.setattr(module, "shut_down_connection", cut.append)
    stream = Stream(at_once)
    stream.call_of_grpc.taking.clear()
    stream.send(1, 2)
    status = await stream.until_ended()
    assert status is not None
    assert status[0] == grpc.StatusCode.ABORTED
    assert "has not read a message within 0.02 s" in status[1]
    assert cut == ["ipv4:127.0.0.1:1"]
    assert "closing its connection" in caplog.text


async def test_a_response_that_is_too_large_is_an_error_of_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RESPONSE_BYTES", 400)

    async def answer(number: int) -> int:
        return 500 if number == 1 else 0

    stream = Stream(answer)
    stream.send(1, 2)
    await until(lambda: stream.responses() == [(1, ErrorCode.MESSAGE_TOO_LARGE), (2, 0)])
    await stream.gone()


async def test_a_call_that_is_read_as_its_client_goes_holds_nothing() -> None:
    """It is cancelled before it has begun."""
    stream = Stream(at_once)
    await asyncio.sleep(0.01)  # it reads
    stream.send(1)
    await stream.gone()
    assert stream.begun == []


# ---- the end --------------------------------------------------------------------------------------------------------


async def test_a_drain_says_what_was_started_and_finishes_it() -> None:
    gate = asyncio.Event()

    async def answer(number: int) -> int:
        await gate.wait()
        return 0

    stream = Stream(answer)
    stream.send(1, 2)
    await until(lambda: stream.begun == [1, 2])
    stream.draining.set()
    stream.send(3)
    await until(lambda: stream.call_of_grpc.written)
    (first,) = stream.call_of_grpc.written
    assert (first.HasField("last_started"), first.last_started, stream.responses()) == (True, 2, [])
    assert not stream.serving.done()
    gate.set()
    status = await stream.until_ended()
    assert status == (grpc.StatusCode.UNAVAILABLE, "the server is shutting down; try another server")
    assert stream.responses() == [(1, 0), (2, 0)]
    assert stream.begun == [1, 2]


async def test_no_call_of_a_long_message_starts_after_a_drain_has_said_which_was_the_last() -> None:
    async def answer(number: int) -> int:
        if number == 150:
            stream.draining.set()
        return 0

    stream = Stream(answer)
    stream.send(*range(1, 1_001))
    await stream.until_ended()
    last = max(message.last_started for message in stream.call_of_grpc.written)
    assert stream.begun == list(range(1, last + 1))
    assert [number for number, _ in stream.responses()] == stream.begun
    assert last < 1_000


async def test_a_stream_that_comes_during_a_drain_starts_nothing() -> None:
    stream = Stream(at_once)
    stream.draining.set()
    stream.send(1)
    status = await stream.until_ended()
    assert status is not None
    assert status[0] == grpc.StatusCode.UNAVAILABLE
    assert [message.last_started for message in stream.call_of_grpc.written] == [0]
    assert stream.begun == []


async def test_who_ends_its_stream_is_answered_first() -> None:
    stream = Stream(at_once)
    stream.send(1)
    stream.call_of_grpc.inbox.put_nowait(grpc.aio.EOF)
    assert await stream.until_ended() is None
    assert stream.responses() == [(1, 0)]


async def test_a_method_that_has_no_other_answer_ends_the_stream() -> None:
    async def answer(number: int) -> int:
        if number == 6:
            raise EndStreamError("an injected fault")
        return await even_ones_never(number)

    stream = Stream(answer)
    stream.send(1, 4, 6)
    assert await stream.until_ended() == (grpc.StatusCode.ABORTED, "an injected fault")
    assert stream.responses() == [(1, 0)]


async def test_a_bug_is_its_own_call_s(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(number: int) -> int:
        return 0 // (number - 2)

    stream = Stream(answer)
    stream.send(1, 2, 3)
    await until(lambda: len(stream.responses()) == 3)
    assert sorted(stream.responses()) == [(1, 0), (2, ErrorCode.UNKNOWN_SERVER_ERROR), (3, 0)]
    assert "Heartbeat failed for request r-1" in caplog.text
    await stream.gone()


@pytest.mark.story("bad-response-ends-the-calls-of-others")
@pytest.mark.parametrize("wrong", ["no message", pb.JoinResponse(), asyncio.CancelledError()])
async def test_a_call_whose_answer_is_wrong_fails_alone(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def answer(number: int) -> Any:
        return await never(number) if number == 1 else 0

    async def call(request: Any, context: RequestContext) -> Any:
        if request.generation != 2:
            return await Heartbeat(answer).call(request, context)
        if isinstance(wrong, BaseException):
            raise wrong
        return wrong

    stream = Stream(answer)
    stream.endpoint.call = call
    stream.send(1, 2, 3)
    await until(lambda: len(stream.responses()) == 2)
    assert sorted(stream.responses()) == [(2, ErrorCode.UNKNOWN_SERVER_ERROR), (3, 0)]
    assert "Heartbeat failed for request r-1" in caplog.text
    assert not stream.serving.done()
    await stream.gone()


async def test_the_number_of_streams_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OPEN_STREAMS", 0)
    stream = Stream(at_once)
    assert await stream.until_ended() == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "0 streams are open for Group.Calls, and this server takes no more",
    )
