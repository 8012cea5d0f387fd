"""The generic adapter over real sockets: unary calls, framed streams, errors, limits, draining."""

from __future__ import annotations

import asyncio
import socket
from itertools import chain
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rpc_stack import Client, Stack, answer_of, listing
from waiting import LIMIT_S, until

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc import budget
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.client import Peer
from ottla_core.rpc.server import ContractError, PortInUseError, RpcServer
from ottla_core.rpc.status import CHANNEL_OPTIONS, TransportError
from ottla_core.telemetry import Metrics
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker


async def test_a_unary_call_carries_its_context_and_its_errors(stack: Stack) -> None:
    peer = AioPeer(stack.address, client_id="tester")
    assert (await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)).partitions[0].offset == 7
    context = stack.service.contexts[0]
    assert (context.client_id, context.client_host, context.principal) == ("tester", "127.0.0.1", "User:ANONYMOUS")

    with pytest.raises(OttlaError, match="not here; ask there") as raised:
        await peer.call(Broker.CHECK_FENCE, pb.CheckFenceRequest(), timeout=LIMIT_S)
    assert raised.value.code == ErrorCode.NOT_CONTROLLER

    with pytest.raises(TransportError, match="internal error, in the log as request") as bug:
        await peer.call(Broker.LIST_OFFSETS, listing(b"bug"), timeout=LIMIT_S)
    assert "secret" not in str(bug.value)

    with pytest.raises(TransportError) as late:
        await peer.call(Broker.LIST_OFFSETS, listing(b"slow"), timeout=0.1)
    assert late.value.code == ErrorCode.REQUEST_TIMED_OUT
    await peer.close()


@pytest.mark.story("busy-server-seems-silent")
async def test_a_server_whose_first_frame_is_late_is_waited_for(stack: Stack) -> None:
    """A process on a busy machine answers a new connection when its turn comes, not within a tenth of a second."""
    host, _, port = stack.address.rpartition(":")

    async def forward_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.5)
        from_server, to_server = await asyncio.open_connection(host, int(port))
        await asyncio.gather(_copy(reader, to_server), _copy(from_server, writer))

    async with await asyncio.start_server(forward_late, "127.0.0.1", 0) as late:
        _, late_port = late.sockets[0].getsockname()
        peer = AioPeer(f"127.0.0.1:{late_port}")
        assert (await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)).partitions[0].offset == 7
        await peer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


async def test_what_is_not_the_contract_is_refused_as_transport(stack: Stack) -> None:
    async with grpc.aio.insecure_channel(stack.address, options=CHANNEL_OPTIONS) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="needs a deadline"):
            await channel.unary_unary(Broker.LIST_OFFSETS.path)(b"")
        with pytest.raises(grpc.aio.AioRpcError, match="not a ListOffsets request"):
            await channel.unary_unary(Broker.LIST_OFFSETS.path)(b"\xff\xff", timeout=5)
        call = channel.stream_stream(Broker.FETCH.path)()
        await call.write(b"\xff\xff")
        with pytest.raises(grpc.aio.AioRpcError, match="not a Fetch frame"):
            await call.read()


async def test_frames_start_in_order_and_are_answered_in_any(stack: Stack, client: Client) -> None:
    ids = [await client.send(n) for n in (1, 2, 3)]
    await until(lambda: len(stack.service.seen) == 3)
    assert stack.service.seen == [1, 2, 3]
    for n in (3, 1, 2):
        stack.service.open_gate(n)
        correlation_id, response = await client.response()
        assert (correlation_id, answer_of(response)) == (ids[n - 1], n)


async def test_errors_of_a_frame_are_in_band_and_harm_no_other(stack: Stack, client: Client) -> None:
    refused, buggy = await client.send(2, rack="refused"), await client.send(3, rack="bug")
    late, good = await client.send(5, timeout_ms=50), await client.send(1)
    stack.service.open_gate(1)
    responses = dict([await client.response() for _ in range(4)])
    assert responses[refused].error.code == ErrorCode.INVALID_REQUEST
    assert responses[buggy].error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "secret" not in responses[buggy].error.message
    assert responses[late].error.code == ErrorCode.REQUEST_TIMED_OUT
    assert answer_of(responses[good]) == 1
    assert stack.service.seen == [2, 3, 5, 1]
    assert stack.metrics.counter("ottla_rpc_errors_total", "", method="Fetch").value == 1


async def test_reading_stops_at_the_limit_of_frames_in_flight(stack: Stack, client: Client) -> None:
    for n in range(1, budget.MAX_FRAMES_IN_FLIGHT + 6):
        await client.send(n)
    await until(lambda: len(stack.service.seen) >= budget.MAX_FRAMES_IN_FLIGHT)
    peer = AioPeer(stack.address)
    await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)  # a round trip: more would have come by now
    assert len(stack.service.seen) == budget.MAX_FRAMES_IN_FLIGHT
    stack.service.open_gate(1)
    await until(lambda: len(stack.service.seen) == budget.MAX_FRAMES_IN_FLIGHT + 1)
    await peer.close()


async def test_reading_stops_at_the_limit_of_bytes_in_flight(stack: Stack, client: Client) -> None:
    large = "x" * (budget.MAX_BYTES_IN_FLIGHT // 4)

    async def send_all() -> None:  # a write waits until the server reads
        for n in range(1, 8):
            await client.send(n, rack=large)

    sending = asyncio.create_task(send_all())
    await until(lambda: len(stack.service.seen) >= 4)
    peer = AioPeer(stack.address)
    await peer.call(Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    assert len(stack.service.seen) == 4
    for n in range(1, 8):
        stack.service.open_gate(n)
    await until(lambda: len(stack.service.seen) == 7)
    await sending
    await peer.close()


async def test_a_client_that_goes_cancels_what_is_parked(stack: Stack, client: Client) -> None:
    await client.send(1)
    await until(lambda: stack.service.seen == [1])
    await client.close()
    await until(lambda: stack.service.cancelled == [1])


async def test_what_a_method_keeps_of_its_stream_ends_with_it_and_no_other_stream_has_it(
    stack: Stack, client: Client
) -> None:
    ended: list[int] = []

    class Session:
        def __init__(self, number: int) -> None:
            self.number = number

        def end(self) -> None:
            ended.append(self.number)

    other = Client(stack)
    for number, each in ((1, client), (2, other), (3, client)):
        await each.send(number)
        await until(lambda number=number: number in stack.service.seen)
    first, second, third = (context.stream for context in stack.service.contexts)
    assert first is third is not second
    first.begin(Session(1))
    second.begin(Session(2))
    third.begin(Session(3))
    assert ended == [1], "one at a time"
    await client.close()
    await until(lambda: ended == [1, 3])
    await other.close()
    await until(lambda: ended == [1, 3, 2])


async def test_a_method_may_end_its_stream_and_no_other(stack: Stack, client: Client) -> None:
    other = Client(stack)
    await client.send(1)
    await client.send(2, rack="end")
    assert "has no other answer" in str(await client.until_broken())
    await other.send(3)
    stack.service.open_gate(3)
    assert answer_of((await other.response())[1]) == 3


async def refused(stack: Stack) -> None:
    """Return once the server takes no new calls."""
    async with asyncio.timeout(10):
        while True:
            async with grpc.aio.insecure_channel(stack.address, options=CHANNEL_OPTIONS) as channel:
                try:
                    await channel.unary_unary(Broker.LIST_OFFSETS.path)(b"", timeout=1)
                except grpc.aio.AioRpcError:
                    return


def connections_to(port: int) -> int:
    """That are established, as their clients have them."""
    tables = (Path(f"/proc/net/{table}").read_text().splitlines()[1:] for table in ("tcp", "tcp6"))
    columns = (line.split() for line in chain.from_iterable(tables))
    return sum(remote.endswith(f":{port:04X}") and state == "01" for _, _, remote, state, *_ in columns)


async def test_unary_calls_of_one_process_share_a_connection_and_end_with_their_own_peer(stack: Stack) -> None:
    peers = [Peer(stack.address, client_id=f"member-{number}") for number in range(50)]

    def call(peer: Peer, script: bytes = b"") -> int:
        return peer.call(Broker.LIST_OFFSETS, listing(script), timeout=LIMIT_S).partitions[0].offset

    assert [await asyncio.to_thread(call, peer) for peer in peers] == 50 * [7]
    assert {context.client_id for context in stack.service.contexts} == {f"member-{number}" for number in range(50)}
    assert connections_to(stack.server.port) == 1
    slow = asyncio.create_task(asyncio.to_thread(call, peers[0], b"slow"))
    await until(lambda: len(stack.service.contexts) == 51)
    peers[0].close()
    with pytest.raises(TransportError):
        await slow
    assert await asyncio.to_thread(call, peers[1]) == 7
    for peer in peers:
        peer.close()
    await until(lambda: connections_to(stack.server.port) == 0)


async def test_draining_answers_open_frames_and_ends_the_stream(stack: Stack, client: Client) -> None:
    open_id = await client.send(1)
    await until(lambda: stack.service.seen == [1])
    stopping = asyncio.create_task(stack.server.stop(grace_s=10))
    await refused(stack)
    assert client.broken.empty(), "what is open is answered before the stream ends"
    stack.service.open_gate(1)
    correlation_id, _ = await client.response()
    assert correlation_id == open_id
    assert "shutting down" in str(await client.until_broken())
    await stopping


async def test_the_health_service_tells_liveness_and_readiness(stack: Stack) -> None:
    async with grpc.aio.insecure_channel(stack.address, options=CHANNEL_OPTIONS) as channel:
        health = health_pb2_grpc.HealthStub(channel)

        async def status(service: str) -> str:
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
            return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))

        assert [await status(""), await status("ottla.ready")] == ["SERVING", "SERVING"]
        stack.why_not = "not registered yet"
        assert [await status(""), await status("ottla.ready")] == ["SERVING", "NOT_SERVING"]


async def test_a_port_in_use_and_a_service_that_lacks_a_method_are_named(stack: Stack) -> None:
    taken = RpcServer("127.0.0.1", stack.server.port, Metrics())
    with pytest.raises(PortInUseError, match=f"{stack.server.port} can't be bound"):
        await taken.start()
    with pytest.raises(ContractError, match="lacks async methods for Fetch, ReplicaFetch"):
        taken.add(Broker, object())


async def test_a_peer_that_is_not_there_fails_within_its_deadline() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        peer = Peer(f"127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(TransportError) as raised:
            await asyncio.to_thread(peer.call, Broker.LIST_OFFSETS, listing(), timeout=2)
        assert raised.value.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
        peer.close()
