"""The brokers' way to the controller, while the controller changes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from rpc_stack import Stack, listing
from waiting import LIMIT_S

from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.cluster.image import Controller
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.aio import AioPeer
from ottla_proto import contracts


@pytest.mark.rule(13)
async def test_a_call_that_hangs_at_a_former_controller_fails_and_ends_nobodys_task(stack: Stack) -> None:
    """Somebody else finds the new controller and closes the connection to the old one. gRPC tells the one who waits
    there by a cancellation, which is not that of its own task."""
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    former = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    metadata: Any = SimpleNamespace(image=SimpleNamespace(controller=Controller(1, former, 5)))
    peer = ControllerPeer(metadata)
    hanging = asyncio.create_task(peer.call(contracts.Broker.LIST_OFFSETS, listing(), timeout=60))
    await asyncio.sleep(0)
    metadata.image.controller = Controller(2, stack.address, 9)
    await peer.call(contracts.Broker.LIST_OFFSETS, listing(), timeout=LIMIT_S)
    with pytest.raises(OttlaError) as told:
        await asyncio.wait_for(hanging, 10)
    assert told.value.code == ErrorCode.NETWORK_EXCEPTION
    await peer.stop()
    silent.close()


async def test_who_is_cancelled_itself_is_cancelled() -> None:
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    peer = AioPeer(f"127.0.0.1:{silent.sockets[0].getsockname()[1]}")
    hanging = asyncio.create_task(peer.call(contracts.Broker.LIST_OFFSETS, listing(), timeout=60))
    await asyncio.sleep(0)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    await peer.close()
    silent.close()
