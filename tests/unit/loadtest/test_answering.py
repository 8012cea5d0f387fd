"""The server that only answers is a whole broker to a client: what it lacks would end every comparison."""

from __future__ import annotations

from loadtest.rows.answering import AnsweringBroker

from ottla_core.rpc.server import RpcServer
from ottla_core.telemetry import Metrics
from ottla_proto.contracts import Broker


async def test_it_has_every_method_of_the_contract() -> None:
    RpcServer("127.0.0.1", 0, Metrics()).add(Broker, AnsweringBroker(1, b""))
