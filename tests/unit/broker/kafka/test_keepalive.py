"""The system probes the connections that a listener has accepted, so a client that lost its power is noticed."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

from waiting import until

from ottla_broker.kafka.network.listener import Listener
from ottla_broker.listener_settings import KafkaListener
from ottla_core.host_port import HostPort
from ottla_core.telemetry import Metrics

OPTIONS = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)


async def test_an_accepted_connection_is_probed_while_it_is_silent() -> None:
    port = KafkaListener("ONLY", HostPort("127.0.0.1", 0))
    listener = Listener([port], cast(Any, SimpleNamespace(handle=None, may_overlap=None)), Metrics())
    await listener.start()
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", listener.ports["ONLY"])
        await until(lambda: listener._connections)
        (connection,) = listener._connections
        assert connection._transport is not None
        accepted = connection._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert [accepted.getsockopt(socket.IPPROTO_TCP, option) for option in OPTIONS] == [60, 10, 3]
        writer.close()
    finally:
        await listener.kill()
