"""Gathered calls over a real connection: what each caller hears, whatever happens to the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from group_server import GroupServer
from waiting import until

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc import call_stream as module
from ottla_core.rpc import outgoing_calls, served_calls
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.call_frames import join_calls
from ottla_core.rpc.call_stream import CallStream
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.status import TransportError
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group

LIMIT_S = 10.0
LARGE = "x" * (7 << 20)
"""Several of it are more than gRPC takes for a peer that does not read."""


class ScriptedCoordinator(GroupServer):
    """Heartbeats of group "slow" wait for the gate; the response's code is the generation."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.cancelled: list[int] = []
        self.gate = asyncio.Event()
        super().__init__()

    async def heartbeat(self, request: pb.HeartbeatRequest, context: RequestContext) -> pb.HeartbeatResponse:
        self.seen.append(request.generation)
        if request.group == "slow":
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.append(request.generation)
                raise
        if request.generation:
            raise OttlaError(request.generation, "x" * len(request.member.member_id))
        return pb.HeartbeatResponse()


@pytest.fixture
async def coordinator() -> AsyncIterator[ScriptedCoordinator]:
    coordinator = ScriptedCoordinator()
    await coordinator.start()
    yield coordinator
    await coordinator.server.kill()


@pytest.fixture
async def peer(coordinator: ScriptedCoordinator) -> AsyncIterator[AioPeer]:
    peer = AioPeer(coordinator.address, client_id="b-1")
    yield peer
    await peer.close()


@pytest.fixture
async def stream(peer: AioPeer) -> CallStream:
    return peer.gathered(Group.CALLS)


async def beat(
    stream: CallStream,
    generation: int = 0,
    group: str = "g",
    *,
    timeout: float = LIMIT_S,
    linger_s: float = 0.0,
    member_id: str = "",
) -> int:
    asked = pb.HeartbeatRequest(group=group, generation=generation, member=pb.Member(member_id=member_id))
    return (await stream.ask(Group.HEARTBEAT, asked, timeout=timeout, linger_s=linger_s)).error.code


def slow(stream: CallStream, generation: int = 0, **more: Any) -> asyncio.Task[int]:
    return asyncio.create_task(beat(stream, generation, "slow", **more))


async def failure(call: Awaitable[Any]) -> TransportError:
    with pytest.raises(TransportError) as raised:
        await asyncio.wait_for(call, LIMIT_S)
    return raised.value


async def test_calls_go_together_and_each_has_its_own_answer(
    stream: CallStream, coordinator: ScriptedCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[int] = []
    join = join_calls

    def counted(frames: list[bytes], cancelled: list[int]) -> bytes:
        messages.append(len(frames))
        return join(frames, cancelled)

    monkeypatch.setattr(module, "join_calls", counted)
    codes = list(range(100))
    assert [*await asyncio.gather(*(beat(stream, code) for code in codes))] == codes
    assert (coordinator.seen, messages) == (codes, [100])
    assert coordinator.streams == 1
    with pytest.raises(OttlaError) as raised:
        await stream.call(Group.HEARTBEAT, pb.HeartbeatRequest(group="g", generation=25), timeout=LIMIT_S)
    assert raised.value.code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_slow_call_holds_up_no_other_and_ends_by_its_own_deadline(
    stream: CallStream, coordinator: ScriptedCoordinator
) -> None:
    waits, patient = slow(stream, 1, timeout=0.2), slow(stream, 2)
    assert await asyncio.gather(*(beat(stream) for _ in range(50))) == [0] * 50
    error = await failure(waits)
    assert (error.code, error.indefinite) == (ErrorCode.REQUEST_TIMED_OUT, True)
    assert error.message == f"Heartbeat at {coordinator.address}: no response within 0.2 s"
    await until(lambda: coordinator.cancelled == [1], limit_s=LIMIT_S)
    assert not patient.done()
    coordinator.gate.set()
    assert await patient == 2


@pytest.mark.story("alarm-asks-a-timer-for-its-time")
async def test_a_call_whose_deadline_has_passed_ends_alone(
    stream: CallStream, coordinator: ScriptedCoordinator
) -> None:
    patient = slow(stream, 2)
    await until(lambda: coordinator.seen == [2])
    late = [asyncio.create_task(beat(stream, timeout=-1.0)) for _ in range(3)]
    assert await beat(stream) == 0
    assert {(await failure(each)).code for each in late} == {ErrorCode.REQUEST_TIMED_OUT}
    coordinator.gate.set()
    assert await patient == 2
    assert coordinator.streams == 1


async def test_a_cancellation_reaches_the_method(stream: CallStream, coordinator: ScriptedCoordinator) -> None:
    given_up, stays = slow(stream, 1), slow(stream, 2)
    await until(lambda: coordinator.seen == [1, 2])
    given_up.cancel()
    await until(lambda: coordinator.cancelled == [1], limit_s=LIMIT_S)
    assert given_up.cancelled()
    coordinator.gate.set()
    assert await stays == 2


async def test_a_call_that_is_given_up_before_it_is_sent_is_not_sent(
    stream: CallStream, coordinator: ScriptedCoordinator
) -> None:
    given_up = slow(stream, 1)
    await asyncio.sleep(0)
    given_up.cancel()
    assert await beat(stream, 2) == 2
    assert coordinator.seen == [2]


async def test_a_stream_that_dies_ends_its_calls_and_the_next_call_opens_another(
    stream: CallStream, coordinator: ScriptedCoordinator
) -> None:
    lost = [slow(stream, number) for number in (1, 2, 3)]
    await until(lambda: coordinator.seen == [1, 2, 3])
    port = coordinator.server.port
    await coordinator.server.kill()
    errors = [await failure(call) for call in lost]
    assert [(error.code, error.indefinite) for error in errors] == [(ErrorCode.NETWORK_EXCEPTION, True)] * 3
    error = await failure(beat(stream))
    assert (error.code, error.indefinite) == (ErrorCode.NETWORK_EXCEPTION, False)
    await coordinator.start(port)
    failures: list[TransportError] = []
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                assert await beat(stream, 4) == 4
                break
            except TransportError as failed:
                failures.append(failed)
                await asyncio.sleep(0.02)
    assert not any(failed.indefinite for failed in failures)
    assert coordinator.seen == [1, 2, 3, 4], "nothing was sent twice"


async def test_a_peer_that_is_not_there_is_told_at_once_and_definitely() -> None:
    peer = AioPeer("127.0.0.1:1")
    errors = await asyncio.gather(*(failure(beat(peer.gathered(Group.CALLS))) for _ in range(3)))
    again = await failure(beat(peer.gathered(Group.CALLS)))
    assert {(error.code, error.indefinite) for error in [*errors, again]} == {(ErrorCode.NETWORK_EXCEPTION, False)}
    assert "Heartbeat at 127.0.0.1:1" in again.message
    await peer.close()


async def test_a_peer_that_ends_every_stream_is_not_asked_without_a_pause(
    stream: CallStream, coordinator: ScriptedCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_calls, "MAX_OPEN_STREAMS", 0)
    opened = 0
    run = stream._run

    def counted() -> Any:
        nonlocal opened
        opened += 1
        return run()

    monkeypatch.setattr(stream, "_run", counted)
    ends_at = asyncio.get_running_loop().time() + 0.4
    while asyncio.get_running_loop().time() < ends_at:
        await failure(beat(stream))
        await asyncio.sleep(0.001)
    assert opened <= 10


async def test_a_drain_finishes_what_was_started_and_tells_what_was_not(
    stream: CallStream, coordinator: ScriptedCoordinator
) -> None:
    started = slow(stream, 1)
    await until(lambda: coordinator.seen == [1])
    stopping = asyncio.create_task(coordinator.server.stop())
    await asyncio.sleep(0.05)
    late = await failure(beat(stream, 2, timeout=0.5))
    assert not late.indefinite or late.code == ErrorCode.REQUEST_TIMED_OUT
    coordinator.gate.set()
    assert await started == 1
    await stopping
    assert coordinator.seen == [1]


async def test_who_closes_the_peer_ends_its_calls(
    stream: CallStream, peer: AioPeer, coordinator: ScriptedCoordinator
) -> None:
    sent = slow(stream, 1)
    await until(lambda: coordinator.seen == [1])
    queued = slow(stream, 2, linger_s=60.0)
    await asyncio.sleep(0)
    await peer.close()
    errors = [await failure(call) for call in (sent, queued)]
    assert [error.indefinite for error in errors] == [True, False]
    assert errors[0].message == f"Heartbeat at {coordinator.address}: the connection was closed"
    assert not (await failure(beat(stream))).indefinite
    await until(lambda: coordinator.cancelled == [1], limit_s=LIMIT_S)


async def test_a_call_that_comes_as_its_peer_is_closed_ends(stream: CallStream, peer: AioPeer) -> None:
    """The stream's task is cancelled before it begins."""
    call = slow(stream)
    await asyncio.sleep(0)
    await peer.close()
    error = await failure(call)
    assert (error.code, error.indefinite) == (ErrorCode.NETWORK_EXCEPTION, False)


@pytest.mark.story("stream-that-never-opened-is-never-over")
async def test_a_stream_that_can_not_be_opened_ends_its_calls_and_the_next_one_opens(
    stream: CallStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise RuntimeError("no such channel")

    with monkeypatch.context() as patched:
        patched.setattr(stream, "_channel", broken)
        errors = await asyncio.gather(*(failure(beat(stream)) for _ in range(2)))
    assert [(error.code, error.indefinite) for error in errors] == [(ErrorCode.UNKNOWN_SERVER_ERROR, False)] * 2
    await until(lambda: stream._loop.time() >= stream._rests_until)
    assert await beat(stream) == 0


async def test_a_channel_that_is_closed_under_the_stream_cancels_nobody(
    stream: CallStream, peer: AioPeer, coordinator: ScriptedCoordinator
) -> None:
    sent = slow(stream, 1)
    await until(lambda: coordinator.seen == [1])
    await peer._channel.close()
    assert (await failure(sent)).indefinite


async def test_a_call_that_is_too_large_is_not_sent(stream: CallStream, coordinator: ScriptedCoordinator) -> None:
    error = await failure(beat(stream, member_id="x" * (32 << 20)))
    assert (error.code, error.indefinite) == (ErrorCode.MESSAGE_TOO_LARGE, False)
    assert await beat(stream) == 0


async def test_a_large_call_and_a_large_response_go_through(
    stream: CallStream, coordinator: ScriptedCoordinator
) -> None:
    assert await beat(stream, 25, member_id="x" * (5 << 20)) == 25


# ---- other releases, and peers that do not do their part -------------------------------------------------------------


class Raw:
    """A server whose stream of calls is scripted."""

    def __init__(self, serve: Callable[[Any], Awaitable[None]]) -> None:
        self.server = grpc.aio.server()

        async def serve_stream(_: Any, context: Any) -> None:
            await serve(context)

        handler = grpc.stream_stream_rpc_method_handler(serve_stream)
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("ottla.v1.Group", {"Calls": handler}),)
        )
        self.port = self.server.add_insecure_port("127.0.0.1:0")

    async def __aenter__(self) -> CallStream:
        await self.server.start()
        self.peer = AioPeer(f"127.0.0.1:{self.port}")
        return self.peer.gathered(Group.CALLS)

    async def __aexit__(self, *_: object) -> None:
        await self.peer.close()
        await self.server.stop(None)


def answering(*responses: bytes) -> Raw:
    """Respond to the first message with these frames."""

    async def serve(context: Any) -> None:
        await context.read()
        await context.write(b"".join(b"\x0a" + bytes((len(frame),)) + frame for frame in responses))
        await asyncio.Event().wait()

    return Raw(serve)


async def test_a_response_that_this_release_does_not_know_is_indefinite() -> None:
    unknown = pb.GroupResponse(correlation_id=1).SerializeToString() + b"\xfa\x3e\x02hi"
    async with answering(unknown) as stream:
        error = await failure(beat(stream))
        assert (error.code, error.indefinite) == (ErrorCode.UNSUPPORTED_VERSION, True)


async def test_a_response_to_nobody_is_dropped() -> None:
    stray = pb.GroupResponse(correlation_id=9, heartbeat=pb.HeartbeatResponse()).SerializeToString()
    own = pb.GroupResponse(correlation_id=1, heartbeat=pb.HeartbeatResponse()).SerializeToString()
    async with answering(stray, own, own) as stream:
        assert await beat(stream) == 0


async def test_what_is_no_response_ends_the_stream() -> None:
    async with answering(b"\xff") as stream:
        error = await failure(beat(stream))
        assert (error.code, error.indefinite) == (ErrorCode.UNKNOWN_SERVER_ERROR, True)


async def test_a_stream_that_grpc_ends_as_an_internal_error_is_one_that_broke() -> None:
    """It says so of a write that meets the end of the connection. Callers look for the peer again."""

    async def serve(context: Any) -> None:
        await context.read()
        await context.abort(grpc.StatusCode.INTERNAL, "Internal error from Core")

    async with Raw(serve) as stream:
        error = await failure(beat(stream))
    assert (error.code, error.indefinite) == (ErrorCode.NETWORK_EXCEPTION, True)


async def test_a_server_of_an_older_release_has_no_such_stream() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    peer = AioPeer(f"127.0.0.1:{port}")
    error = await failure(beat(peer.gathered(Group.CALLS)))
    assert error.code == ErrorCode.UNSUPPORTED_VERSION
    await peer.close()
    await server.stop(None)


async def test_a_peer_that_stops_reading_makes_nothing_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls end by their deadlines, those that were not sent definitely; further ones are refused."""
    monkeypatch.setattr(outgoing_calls, "QUEUE_BYTES", 100_000)
    monkeypatch.setattr(outgoing_calls, "WINDOW_BYTES", 100_000)

    async def serve(context: Any) -> None:
        await asyncio.Event().wait()

    async with Raw(serve) as stream:
        sent = [asyncio.create_task(beat(stream, member_id="x" * 60_000, timeout=1.0)) for _ in range(2)]
        await until(lambda: stream._calls.sent_bytes > 100_000)
        waiting = [asyncio.create_task(beat(stream, member_id="x" * 60_000, timeout=0.1)) for _ in range(20)]
        outcomes = await asyncio.gather(*map(failure, [*sent, *waiting]))
        calls = stream._calls
        assert (calls.open, calls.queued_bytes, calls.sent_bytes) == (0, 0, 0)
    late, refused = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION
    assert [(error.code, error.indefinite) for error in outcomes] == [
        *[(late, True)] * 2,
        *[(late, False)] * 2,
        *[(refused, False)] * 18,
    ]


async def test_a_message_that_nobody_takes_for_long_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_LIMIT_S", 0.3)
    for limit in ("QUEUE_BYTES", "WINDOW_BYTES"):
        monkeypatch.setattr(outgoing_calls, limit, 1 << 30)

    async def serve(context: Any) -> None:
        await asyncio.Event().wait()

    async with Raw(serve) as stream:
        calls = [asyncio.create_task(beat(stream, member_id=LARGE)) for _ in range(6)]
        errors = await asyncio.gather(*map(failure, calls))
    assert {error.code for error in errors} == {ErrorCode.REQUEST_TIMED_OUT}
    assert {error.indefinite for error in errors} == {True, False}
    assert any("has not read a message within 0.3 s" in error.message for error in errors)
