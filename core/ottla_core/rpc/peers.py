"""gRPC peers by address: one connection each, for all callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from typing import Final, Generic, NamedTuple, TypeVar

from ottla_core.rpc.aio import AioPeer

G = TypeVar("G")


class Connected(NamedTuple, Generic[G]):
    """A peer, and what gathers calls to it."""

    peer: AioPeer
    gathered: G


class Peers(Generic[G]):
    """Connected at the first use of an address. `gather(peer)` is kept with each peer."""

    def __init__(self, gather: Callable[[AioPeer], G], *, client_id: str = "") -> None:
        self._gather: Final = gather
        self._client_id: Final = client_id
        self._connected: Final[dict[str, Connected[G]]] = {}
        self._closing: Final[set[asyncio.Task[None]]] = set()

    def at(self, address: str) -> Connected[G]:
        connected = self._connected.get(address)
        if connected is None:
            peer = AioPeer(address, client_id=self._client_id)
            connected = self._connected[address] = Connected(peer, self._gather(peer))
        return connected

    def retain(self, addresses: Container[str]) -> None:
        """Close the connections to all others, in the background: their processes are gone."""
        for address in [address for address in self._connected if address not in addresses]:
            task = asyncio.create_task(self._connected.pop(address).peer.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        connected = list(self._connected.values())
        self._connected.clear()
        await asyncio.gather(*(one.peer.close() for one in connected), *self._closing)
