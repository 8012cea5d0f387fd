"""What proves that another process is dead: a port that refuses. A process that gets no processor is only silent."""

from __future__ import annotations

import asyncio
import socket

from ottla_controller import health


async def test_a_port_that_nobody_answers_at_does_not_refuse() -> None:
    """Its process is stopped or starved: the kernel takes connections for it, and drops them once it has enough."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        waiting = [socket.socket() for _ in range(4)]
        try:
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(listening.getsockname())
            await asyncio.sleep(0.05)
            assert not await health._refuses(address)
        finally:
            for each in waiting:
                each.close()
    assert await health._refuses(address), "and once it is dead, it does"
