"""gRPC peers by address, with one connection each for all callers."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import Final

from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.internal_tls import InternalTls


class Peers:
    """The peers, each of which is connected at the first use of its address."""

    def __init__(self, *, client_id: str = "", tls: InternalTls | None = None) -> None:
        self._client_id: Final = client_id
        self._tls: Final = tls
        self._connected: Final[dict[str, AioPeer]] = {}
        self._closing: Final[dict[asyncio.Task[None], None]] = {}

    def at(self, address: str) -> AioPeer:
        peer = self._connected.get(address)
        if peer is None:
            peer = self._connected[address] = AioPeer(address, client_id=self._client_id, tls=self._tls)
        return peer

    def retain(self, addresses: Container[str]) -> None:
        """Close the connections to all other addresses, in the background, because their processes are gone."""
        for address in [address for address in self._connected if address not in addresses]:
            task = asyncio.create_task(self._connected.pop(address).close())
            self._closing[task] = None
            task.add_done_callback(self._closing.pop)

    async def close(self) -> None:
        connected = list(self._connected.values())
        self._connected.clear()
        await asyncio.gather(*(peer.close() for peer in connected), *self._closing)
