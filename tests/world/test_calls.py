"""One suite tests the calls of gRPC and those of the world: a message that is too large ends its call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio
import pytest
from tests.world import substitutes
from tests.world.disk import Disks
from tests.world.fibers import World
from tests.world.forked import in_a_fork
from tests.world.grpc_calls import Limits, SimulatedChannel, SimulatedServer
from tests.world.network import Network
from tests.world.process import Process

SERVER: Final = (("grpc.max_receive_message_length", 1000), ("grpc.max_send_message_length", 1500))
CHANNEL: Final = (("grpc.max_receive_message_length", 1200), ("grpc.max_send_message_length", 1100))
SIZES: Final = ((10, 10), (1000, 1200), (1001, 10), (1101, 10), (10, 1201), (10, 1501))
"""Bytes of a request and of its response."""


class Methods(grpc.GenericRpcHandler):
    """These two methods respond with as many bytes as the request says."""

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method == "/unary":
            return grpc.unary_unary_rpc_method_handler(self.unary)
        return grpc.stream_stream_rpc_method_handler(self.stream)

    async def unary(self, request: bytes, _: Any) -> bytes:
        return bytes(int(request.split()[0]))

    async def stream(self, _: Any, context: Any) -> None:
        while (request := await context.read()) is not grpc.aio.EOF:
            try:
                await context.write(bytes(int(request.split()[0])))
            except grpc.aio.BaseError:
                return


async def results(channel: Any) -> list[tuple[str, str]]:
    """Return what became of a call and of a stream, for each of SIZES."""
    found = []
    for request_bytes, response_bytes in SIZES:
        request = b"%d" % response_bytes
        request += b" " * (request_bytes - len(request))
        found.append((await result(unary(channel, request)), await result(streamed(channel, request))))
    return found


async def unary(channel: Any, request: bytes) -> bytes:
    response: bytes = await channel.unary_unary("/unary")(request, timeout=5)
    return response


async def streamed(channel: Any, request: bytes) -> bytes:
    stream = channel.stream_stream("/stream")()
    try:
        await stream.write(b"1")
        await stream.read()
        await stream.write(request)
        response: bytes = await stream.read()
        return response
    finally:
        stream.cancel()


async def result(response: Any) -> str:
    try:
        return f"{len(await response)} bytes"
    except grpc.aio.AioRpcError as error:
        _, _, sizes = (error.details() or "").partition("message larger than max ")
        return f"{error.code().name} {sizes.rstrip(')')}"


def of_grpc() -> list[tuple[str, str]]:
    async def run() -> list[tuple[str, str]]:
        server = grpc.aio.server(options=SERVER)
        server.add_generic_rpc_handlers((Methods(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL) as channel:
                return await results(channel)
        finally:
            await server.stop(None)

    return asyncio.run(run())


def of_the_world() -> list[tuple[str, str]]:
    def run() -> list[tuple[str, str]]:
        world = World(1)
        network = Network(world)
        substitutes.put_in_place(world, network, Disks(world))
        found: list[tuple[str, str]] = []

        async def serve(process: Process) -> None:
            server = SimulatedServer(network, process, Limits.of(SERVER))
            server.add_generic_rpc_handlers((Methods(),))
            server.add_insecure_port("server:1")
            await asyncio.Event().wait()

        async def call(process: Process) -> None:
            found.extend(await results(SimulatedChannel(network, process, "server:1", Limits.of(CHANNEL))))

        Process(world, network, "server", serve)
        world.run_for(1.0)
        Process(world, network, "client", call)
        world.run_for(60.0)
        assert world.failures == []
        return found

    return [(unary, stream) for unary, stream in in_a_fork(run)]


@pytest.mark.parametrize("made", [of_grpc, of_the_world])
def test_a_message_that_is_too_large_ends_its_call(made: Callable[[], list[tuple[str, str]]]) -> None:
    assert made() == [
        ("10 bytes", "10 bytes"),
        ("1200 bytes", "1200 bytes"),
        ("RESOURCE_EXHAUSTED (1001 vs. 1000", "RESOURCE_EXHAUSTED (1001 vs. 1000"),
        ("RESOURCE_EXHAUSTED (1101 vs. 1100", "INTERNAL "),
        ("RESOURCE_EXHAUSTED (1201 vs. 1200", "RESOURCE_EXHAUSTED (1201 vs. 1200"),
        ("RESOURCE_EXHAUSTED (1501 vs. 1500", "RESOURCE_EXHAUSTED (1501 vs. 1500"),
    ]
