"""What a server lets its clients have: bytes in flight, open streams, time to take an answer, silence, a drain."""

from __future__ import annotations

import asyncio
import time

import grpc
import grpc.aio
import pytest
from rpc_stack import Client, Stack, answer_of, listing
from waiting import LIMIT_S, until

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import MAX_BATCH_BYTES
from ottla_core.rpc import budget, calls, streams
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.connection_shutdown import shut_down_connection
from ottla_core.rpc.status import CHANNEL_OPTIONS, MAX_MESSAGE_BYTES, TransportError
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker

MIB = 1 << 20
_LONGER_THAN_GRPC_S = 31.0
"""gRPC's own limit for a call that no event loop has taken is 30 seconds."""


async def round_trip(stack: Stack) -> None:
    """What the server was to read before is read now."""
    peer = AioPeer(stack.address)
    await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    await peer.close()


# ---- bytes and streams ---------------------------------------------------------------------------------------------


async def test_all_streams_of_a_method_share_a_budget(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_METHOD_BYTES_IN_FLIGHT", 4 * MIB)
    large = "x" * (2 * MIB)
    first, second, third = Client(stack), Client(stack), Client(stack)
    await third.send(3)
    await until(lambda: stack.service.seen == [3])
    await first.send(1, rack=large)
    await second.send(2, rack=large)
    await until(lambda: sorted(stack.service.seen) == [1, 2, 3])
    for number in (5, 6, 7):
        await third.send(number)  # the first of them was being read when the budget was used up
    await until(lambda: 5 in stack.service.seen)
    await round_trip(stack)
    assert stack.service.seen[3:] == [5]
    assert stack.gauge("ottla_rpc_in_flight_bytes", "Fetch") > 4 * MIB

    stack.service.open_gate(3)
    assert answer_of((await third.response())[1]) == 3, "what is open is answered all the while"
    stack.service.open_gate(1)
    await until(lambda: stack.service.seen[3:] == [5, 6, 7])


async def test_one_method_s_budget_is_not_the_other_s(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches of followers are read though all of the budget of other fetches is used up."""
    monkeypatch.setattr(budget, "MAX_METHOD_BYTES_IN_FLIGHT", MIB)
    reader = Client(stack)
    await reader.send(1, rack="x" * (2 * MIB))
    await until(lambda: stack.service.seen == [1])
    peer = AioPeer(stack.address)
    follower = peer.open_stream(Broker.REPLICA_FETCH)
    for _ in range(3):
        await follower.exchange(pb.FetchRequest(max_bytes=10), timeout_ms=1000, timeout=LIMIT_S)
    assert reader.responses.empty()
    await peer.close()
    await reader.close()


async def test_readers_that_take_no_responses_hold_up_no_follower(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "MAX_METHOD_BYTES_IN_FLIGHT", 8 * MIB)
    frames = [
        pb.FetchFrame(correlation_id=number, body=pb.FetchRequest(max_bytes=4 * MIB, rack="large")).SerializeToString()
        for number in range(8)
    ]
    async with (
        grpc.aio.insecure_channel(stack.address, options=CHANNEL_OPTIONS) as reader,
        grpc.aio.insecure_channel(stack.address, options=CHANNEL_OPTIONS) as follower,
    ):
        stalled = reader.stream_stream(Broker.FETCH.path)()
        for frame in frames:
            await stalled.write(frame)
        await until(lambda: stack.gauge("ottla_rpc_in_flight_bytes", "Fetch") > 8 * MIB)
        call = follower.stream_stream(Broker.REPLICA_FETCH.path)()
        for frame in frames:
            await call.write(frame)
            await asyncio.wait_for(call.read(), LIMIT_S)
        assert stack.gauge("ottla_rpc_in_flight_bytes", "Fetch") > 8 * MIB
        stalled.cancel()


async def test_one_stream_too_many_is_refused_and_may_come_again(
    stack: Stack, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_OPEN_STREAMS", 1)
    await client.send(1)
    await until(lambda: stack.service.seen == [1])
    # Nothing is sent: if a write meets the refusal, gRPC reports the write's failure in its place.
    refused = Client(stack)
    error = await refused.until_broken()
    assert "1 streams are open for Fetch, and this server takes no more" in error.message
    assert error.code == ErrorCode.NETWORK_EXCEPTION
    assert error.retriable
    assert stack.service.seen == [1]

    await client.close()
    await until(lambda: stack.gauge("ottla_rpc_streams", "Fetch") == 0)
    again = Client(stack)
    await again.send(3)
    await until(lambda: stack.service.seen == [1, 3])


async def test_a_message_that_is_too_large_is_not_worth_a_second_try(stack: Stack) -> None:
    peer = AioPeer(stack.address)
    with pytest.raises(TransportError) as raised:
        await peer.call(Broker.LIST_OFFSETS, listing(padding=MAX_MESSAGE_BYTES), timeout=LIMIT_S)
    assert (raised.value.code, raised.value.retriable) == (ErrorCode.MESSAGE_TOO_LARGE, False)
    await peer.close()


@pytest.mark.story("unsendable-batch-ends-a-session")
async def test_an_answer_that_is_too_large_is_the_error_of_its_call(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_RESPONSE_BYTES", MIB)
    peer = AioPeer(stack.address)
    stream = peer.open_stream(Broker.REPLICA_FETCH)
    with pytest.raises(OttlaError, match="request less data at a time") as raised:
        await stream.exchange(pb.FetchRequest(max_bytes=MIB), timeout_ms=1000, timeout=LIMIT_S)
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE
    response = await stream.exchange(pb.FetchRequest(max_bytes=MIB // 2), timeout_ms=1000, timeout=LIMIT_S)
    assert len(response.partitions[0].records) == MIB // 2, "the stream goes on"
    await peer.close()


async def test_a_response_may_be_larger_than_a_request(stack: Stack) -> None:
    """A fetch is answered with one batch of any size that a log may hold."""
    peer = AioPeer(stack.address)
    stream = peer.open_stream(Broker.REPLICA_FETCH)
    response = await stream.exchange(pb.FetchRequest(max_bytes=MAX_BATCH_BYTES), timeout_ms=9000, timeout=LIMIT_S)
    assert len(response.partitions[0].records) == MAX_BATCH_BYTES
    await peer.close()


async def test_calls_hold_so_much_together_and_small_ones_have_a_part_of_their_own(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """1. Calls that wait hold all there is. 2. Another large one is refused, a small one is answered."""
    monkeypatch.setattr(calls, "MAX_BYTES", 4 * MIB)
    monkeypatch.setattr(calls, "MAX_BYTES_OF_SMALL", 4 * MIB + 1000)
    peer = AioPeer(stack.address)
    waiting = [
        asyncio.create_task(peer.call(Broker.LIST_OFFSETS, listing(b"slow", padding=MIB), timeout=LIMIT_S))
        for _ in range(3)
    ]
    await until(lambda: stack.gauge("ottla_rpc_calls_bytes") > 3 * MIB)
    with pytest.raises(
        TransportError, match=r"3 calls are open and hold 31.* bytes, and this server takes no more"
    ) as raised:
        await peer.call(Broker.LIST_OFFSETS, listing(padding=MIB), timeout=LIMIT_S)
    assert raised.value.retriable
    assert "rejected calls: 1; the last one came from ipv4:127.0.0.1" in caplog.text
    await round_trip(stack)
    for call in waiting:
        call.cancel()
    await until(lambda: stack.gauge("ottla_rpc_calls_bytes") == 0)
    await peer.call(Broker.LIST_OFFSETS, listing(padding=MIB), timeout=LIMIT_S)
    await peer.close()


@pytest.mark.story("calls-begun-at-once-are-cancelled")
async def test_five_thousand_calls_that_begin_at_once_are_all_answered(stack: Stack) -> None:
    peer = AioPeer(stack.address)
    calls_at_once = (peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S) for _ in range(5_000))
    responses = await asyncio.gather(*calls_at_once)
    assert {response.partitions[0].offset for response in responses} == {7}
    await peer.close()


@pytest.mark.story("calls-to-a-stopped-server-are-cancelled")
async def test_a_call_waits_for_a_server_that_was_stopped_for_longer_than_grpc_s_own_limit(stack: Stack) -> None:
    method = Broker.LIST_OFFSETS
    request = listing().SerializeToString()
    with grpc.insecure_channel(stack.address, options=CHANNEL_OPTIONS) as channel:  # it needs no event loop
        call = channel.unary_unary(method.path, response_deserializer=method.response.FromString)
        await asyncio.to_thread(call, request, timeout=LIMIT_S)
        pending = [call.future(request, timeout=LIMIT_S + _LONGER_THAN_GRPC_S) for _ in range(100)]
        time.sleep(_LONGER_THAN_GRPC_S)  # the server's event loop does not run
        responses = [await asyncio.to_thread(each.result) for each in pending]
    assert {response.partitions[0].offset for response in responses} == {7}


@pytest.mark.story("unary-calls-without-a-bound")
async def test_so_many_calls_are_open_and_no_more(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_CALLS", 1)
    peer = AioPeer(stack.address)
    slow = asyncio.create_task(peer.call(Broker.LIST_OFFSETS, listing(b"slow"), timeout=LIMIT_S))
    await until(lambda: stack.gauge("ottla_rpc_calls") == 1)
    with pytest.raises(TransportError, match="1 calls are open"):
        await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    slow.cancel()
    await until(lambda: stack.gauge("ottla_rpc_calls") == 0)
    await round_trip(stack)
    await peer.close()


# ---- clients that do not read --------------------------------------------------------------------------------------


async def test_who_does_not_take_its_answers_is_cut_off_and_nobody_else(
    stack: Stack, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """1. It asks for 8 answers of 4 MiB. 2. It reads none. 3. Its connection is cut, and all that it held is free."""
    monkeypatch.setattr(streams, "WRITE_LIMIT_S", 1.0)
    await client.send(1)
    await until(lambda: stack.service.seen == [1])
    async with grpc.aio.insecure_channel(stack.address, options=CHANNEL_OPTIONS) as channel:
        stalled = channel.stream_stream(Broker.REPLICA_FETCH.path)()
        for number in range(8):
            frame = pb.FetchFrame(correlation_id=number, body=pb.FetchRequest(max_bytes=4 * MIB))
            await stalled.write(frame.SerializeToString())
        await until(lambda: stack.gauge("ottla_rpc_in_flight_bytes", "ReplicaFetch") > 16 * MIB)
        await until(lambda: stack.gauge("ottla_rpc_streams", "ReplicaFetch") == 0)
        await until(lambda: stack.gauge("ottla_rpc_in_flight_bytes", "ReplicaFetch") == 0)
        assert "has not read a response within 1 s; closing its connection" in caplog.text
        assert await asyncio.wait_for(stalled.code(), 30) == grpc.StatusCode.UNAVAILABLE
    stack.service.open_gate(1)
    await client.response()


async def test_a_connection_is_cut_by_the_name_that_grpc_has_for_its_peer() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(await reader.read())
        writer.close()

    ends: list[bytes] = []
    for host, peer in (("127.0.0.1", "ipv4:127.0.0.1:{}"), ("::1", "ipv6:%5B::1%5D:{}")):
        async with await asyncio.start_server(serve, host, 0) as server:
            reader, writer = await asyncio.open_connection(host, server.sockets[0].getsockname()[1])
            own_port = writer.get_extra_info("sockname")[1]
            assert not await asyncio.to_thread(shut_down_connection, peer.format(1))
            assert await asyncio.to_thread(shut_down_connection, peer.format(own_port))
            assert await asyncio.wait_for(reader.read(), 30) == b"", "the other end sees it closed"
            writer.close()
    await until(lambda: ends == [b"", b""])


# ---- the drain -----------------------------------------------------------------------------------------------------


async def test_a_drain_lets_the_owner_wake_what_is_parked(stack: Stack, client: Client) -> None:
    """The grace and the frame's own time are longer than the test may take: only the hook can end it."""
    open_id = await client.send(1, timeout_ms=100_000)
    await until(lambda: stack.service.seen == [1])
    stack.on_drain = lambda: stack.service.open_gate(1)
    await asyncio.wait_for(stack.server.stop(grace_s=100), 20)
    assert (await client.response())[0] == open_id
    assert "shutting down" in (await client.until_broken()).message
