"""How a served stream ends: without a frame that begins too late, and never in the middle of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from waiting import until

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.status import error_message
from ottla_core.rpc.streams import EndStreamError, Streams
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker


class AbortedError(Exception):
    """What gRPC raises through whoever aborts."""


class Call:
    """gRPC's side of one stream: what it reads, and whether a write gets through."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[Any] = asyncio.Queue()
        self.taking = asyncio.Event()
        self.taking.set()
        self.written: list[int] = []
        self.codes: dict[int, int] = {}
        self.status: tuple[grpc.StatusCode, str] | None = None

    async def read(self) -> Any:
        return await self.inbox.get()

    async def write(self, response: bytes) -> None:
        await self.taking.wait()
        frame = pb.FetchResponseFrame.FromString(response)
        self.written.append(frame.correlation_id)
        self.codes[frame.correlation_id] = frame.body.error.code

    async def abort(self, code: grpc.StatusCode, words: str) -> None:
        self.status = (code, words)
        raise AbortedError

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"


class Stream:
    """A fetch stream whose method is `answer`, by correlation id."""

    method = Broker.FETCH

    def __init__(self, answer: Callable[[int], Awaitable[Any]]) -> None:
        self.call_of_grpc = Call()
        self.begun: list[int] = []
        self.draining = asyncio.Event()
        self._answer = answer
        self.streams = Streams(self, self.draining)
        self.serving = asyncio.create_task(self.streams.serve(self.call_of_grpc, RequestContext(request_id="r-1")))

    async def call(self, request: Message, context: RequestContext) -> Message:
        number: int = request.max_wait_ms  # type: ignore[attr-defined]  # a fetch
        self.begun.append(number)
        answer: Message = await self._answer(number)
        return answer

    def failed(self, error: OttlaError) -> Message:
        return pb.FetchResponse(error=error_message(error))

    def send(self, number: int) -> None:
        frame = pb.FetchFrame(correlation_id=number, body=pb.FetchRequest(max_wait_ms=number))
        self.call_of_grpc.inbox.put_nowait(frame.SerializeToString())

    async def until_ended(self) -> tuple[grpc.StatusCode, str] | None:
        await asyncio.wait({self.serving}, timeout=10)
        assert self.serving.done()
        assert isinstance(self.serving.exception(), AbortedError | None)
        await until(lambda: (self.streams.open, self.streams.budget.bytes) == (0, 0))
        return self.call_of_grpc.status


async def at_once(number: int) -> pb.FetchResponse:
    return pb.FetchResponse()


async def test_who_ends_its_stream_is_answered_first() -> None:
    stream = Stream(at_once)
    stream.send(1)
    stream.send(2)
    stream.call_of_grpc.inbox.put_nowait(grpc.aio.EOF)
    assert await stream.until_ended() is None
    assert stream.call_of_grpc.written == [1, 2]


async def test_no_frame_begins_once_the_drain_has() -> None:
    """It would be parked after the owner has woken what was parked, and hold up the drain."""
    stream = Stream(at_once)
    stream.send(1)
    await until(lambda: stream.call_of_grpc.written == [1])
    stream.draining.set()
    stream.send(2)
    assert await stream.until_ended() == (
        grpc.StatusCode.UNAVAILABLE,
        "the server is shutting down; try another server",
    )
    assert stream.begun == [1]


async def test_a_stream_does_not_end_in_the_middle_of_an_answer() -> None:
    """gRPC takes one write at a time; a status beside it would fail, and the stream would stay open for ever."""

    async def answer(number: int) -> pb.FetchResponse:
        if number == 2:
            raise EndStreamError("it has no other answer")
        return pb.FetchResponse()

    stream = Stream(answer)
    stream.call_of_grpc.taking.clear()
    stream.send(1)
    await until(lambda: stream.begun == [1])
    stream.send(2)
    await until(lambda: stream.begun == [1, 2])
    for _ in range(10):
        await asyncio.sleep(0)
    assert stream.call_of_grpc.status is None
    stream.call_of_grpc.taking.set()
    assert await stream.until_ended() == (grpc.StatusCode.ABORTED, "it has no other answer")
    assert stream.call_of_grpc.written == [1]


async def test_the_frames_that_are_open_end_with_their_stream() -> None:
    cancelled: list[int] = []

    async def answer(number: int) -> pb.FetchResponse:
        if number == 2:
            raise EndStreamError("it has no other answer")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(number)
        return pb.FetchResponse()

    stream = Stream(answer)
    stream.send(1)
    stream.send(2)
    await stream.until_ended()
    await until(lambda: cancelled == [1])


@pytest.mark.story("frames-that-never-began-held-their-bytes")
async def test_a_frame_that_is_read_as_its_client_goes_holds_nothing() -> None:
    """It is cancelled before it has begun. Its bytes would be missing from what all streams share, for ever."""
    stream = Stream(at_once)
    await asyncio.sleep(0.01)  # it reads
    stream.send(1)
    stream.serving.cancel()  # as gRPC does, in the same turn of the loop
    await asyncio.wait({stream.serving}, timeout=10)
    assert stream.serving.cancelled()
    await until(lambda: stream.streams.budget.bytes == 0, limit_s=5.0)
    assert stream.begun == []


@pytest.mark.story("bad-response-ends-the-calls-of-others")
@pytest.mark.parametrize("wrong", ["no message", pb.ListOffsetsResponse(), asyncio.CancelledError()])
async def test_a_frame_whose_answer_is_wrong_fails_alone(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def answer(number: int) -> Any:
        if number == 2:
            await asyncio.Event().wait()
        if isinstance(wrong, BaseException):
            raise wrong
        return wrong

    stream = Stream(answer)
    stream.send(2)
    stream.send(1)
    await until(lambda: stream.call_of_grpc.codes == {1: ErrorCode.UNKNOWN_SERVER_ERROR})
    assert "Fetch failed for request r-1" in caplog.text
    assert not stream.serving.done()
    stream.serving.cancel()


async def test_a_frame_that_can_not_even_be_refused_ends_the_stream() -> None:
    """Its client would wait for ever."""

    async def answer(number: int) -> Any:
        return "no message"

    stream = Stream(answer)
    stream.failed = lambda error: pb.ListOffsetsResponse()
    stream.send(1)
    assert await stream.until_ended() == (grpc.StatusCode.ABORTED, "internal error, in the log as request r-1")
