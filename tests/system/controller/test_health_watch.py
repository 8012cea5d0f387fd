"""A broken stream and a port that refuses prove that a process is dead; silence does not (rule C7)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from children import stop
from waiting import until

from ottla_controller.health import HealthWatch, responds
from ottla_core.event_loop.tasks import end_task
from ottla_core.rpc.server import RpcServer
from ottla_core.telemetry import Metrics
from ottla_stack.ports import free_port_base

SERVER = """
import asyncio, sys
from ottla_core.rpc.server import RpcServer
from ottla_core.telemetry import Metrics

async def main():
    server = RpcServer("127.0.0.1", 0, Metrics())
    await server.start()
    print(server.port, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def address_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return f"localhost:{int(process.stdout.readline())}"  # a name that stands for two addresses


@asynccontextmanager
async def watching(address: str) -> AsyncIterator[tuple[HealthWatch, asyncio.Task[None]]]:
    watch = HealthWatch(address)
    task = asyncio.create_task(watch.until_dead())
    try:
        yield watch, task
    finally:
        await end_task(task)


async def ended(task: asyncio.Task[None]) -> bool:
    """Whether it ends although it should not: given several times what a proof takes."""
    return bool((await asyncio.wait({task}, timeout=1.0))[0])


async def served(port: int = 0) -> RpcServer:
    server = RpcServer("127.0.0.1", port, Metrics())
    await server.start()
    return server


@pytest.mark.feature(119)
async def test_a_killed_process_is_proven_dead_and_a_stopped_one_is_not(process: subprocess.Popen[bytes]) -> None:
    address = address_of(process)
    async with watching(address) as (watch, task):
        await until(lambda: watch.held)
        assert await responds(address, timeout=5)
        stop(process.pid)
        assert not await responds(address, timeout=0.3)
        assert not task.done()
        assert watch.held  # nothing was heard to the contrary
        os.kill(process.pid, signal.SIGKILL)
        await until(task.done)
        assert not watch.held


async def test_who_says_that_it_goes_is_not_dead_and_is_watched_again_when_it_is_back() -> None:
    server = await served()
    async with watching(f"127.0.0.1:{server.port}") as (watch, task):
        await until(lambda: watch.held)
        async with asyncio.timeout(4.0):
            await server.stop()  # and the stream does not keep it from going
        assert not watch.held
        assert not await ended(task)  # although the port refuses
        again = await served(server.port)
        await until(lambda: watch.held)
        assert not task.done()
        await again.kill()
        await until(task.done)


async def test_who_was_never_reached_is_not_proven_dead() -> None:
    """1. Nobody is there, and the port refuses. 2. Somebody comes. 3. It dies."""
    port = free_port_base()
    async with watching(f"127.0.0.1:{port}") as (watch, task):
        assert not await responds(f"127.0.0.1:{port}", timeout=5)
        assert not await ended(task)
        server = await served(port)
        await until(lambda: watch.held)
        assert not task.done()
        await server.kill()
        await until(task.done)


async def test_a_process_that_is_back_at_once_is_alive() -> None:
    server = await served()
    async with watching(f"127.0.0.1:{server.port}") as (watch, task):
        for _ in range(3):
            await until(lambda: watch.held)
            await server.kill()
            server = await served(server.port)
        await until(lambda: watch.held)
        assert not task.done()
        await server.kill()
        await until(task.done)
