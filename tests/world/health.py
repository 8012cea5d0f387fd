"""How a controller of the world hears that a process is dead: its connections end and its port refuses.

It hears neither from a host whose packets are dropped.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tests.world.grpc_calls import SimulatedServer
from tests.world.network import Network


def server_at(network: Network, address: str) -> SimulatedServer | None:
    host, _, port = address.rpartition(":")
    found = network.servers.get((host, int(port)))
    return found if isinstance(found, SimulatedServer) else None


class SimulatedHealthWatch:
    """In the place of `ottla_controller.health.HealthWatch`."""

    def __init__(self, network: Network, process: Any, address: str) -> None:
        self.held = False
        self._network: Final = network
        self._process: Final = process
        self._address: Final = address

    async def until_dead(self) -> None:
        while True:
            await self._network.until_heard(self._process.name, self._address.rpartition(":")[0])
            server = server_at(self._network, self._address)
            is_reached = server is not None and self._is_open(server)
            if self.held and server is None:
                return
            self.held = self.held or is_reached
            await asyncio.sleep(self._network.look_s + self._network.delay_s())

    def _is_open(self, server: SimulatedServer) -> bool:
        return self._network.cut_until(self._process.name, server.process.name) <= self._network.world.now


async def responds(network: Network, process: Any, address: str) -> bool:
    """In the place of `ottla_controller.health.responds`."""
    await asyncio.sleep(network.delay_s() * 2)
    server = server_at(network, address)
    return server is not None and network.cut_until(process.name, server.process.name) <= network.world.now
