"""Services that know each other by names of their own network, and a client that comes through published ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from waiting import until
from wire import Wire, batch

import ottla_broker.app
import ottla_controller.app
from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.cluster.memory import MemoryStore
from ottla_core.errors import ErrorCode
from ottla_core.process.lifecycle import ServiceApp


def port_of(app: ServiceApp) -> str:
    return app.address().rpartition(":")[2]


@pytest.fixture
async def apps(tmp_path: Path) -> AsyncIterator[list[ServiceApp]]:
    """A controller and two brokers, registered under names that nothing here resolves."""
    store = MemoryStore()
    controller = ControllerConfig(port=0, admin_port=0, advertised_host="controller-0")
    started = [ottla_controller.app.build(controller, store=store)]
    for n in range(2):
        broker = BrokerConfig(
            node_id=n,
            data_dir=tmp_path / str(n),
            port=0,
            admin_port=0,
            kafka_port=0,
            advertised_host=f"broker-{n}",
            published_hosts=("127.0.0.1",),
        )
        started.append(ottla_broker.app.build(broker, store=store))
    for app in started:
        await app.start()
    await until(lambda: all(app.ready() is None for app in started))
    yield started
    for app in reversed(started):
        await app.stop()
    await store.close()


@pytest.mark.feature(135)
async def test_metadata_names_what_the_caller_can_reach(apps: list[ServiceApp]) -> None:
    ports = [port_of(app) for app in apps]

    def told(host: str) -> list[str]:
        with Wire(f"{host}:{ports[1]}") as wire:
            response = wire.metadata()
            return [response.controller.address, *(b.address for b in response.brokers)]

    assert await asyncio.to_thread(told, "127.0.0.1") == [f"127.0.0.1:{port}" for port in ports]
    assert await asyncio.to_thread(told, "localhost") == [app.address() for app in apps]
    assert [app.address().partition(":")[0] for app in apps] == ["controller-0", "broker-0", "broker-1"]


async def test_so_does_the_leader_in_an_error(apps: list[ServiceApp]) -> None:
    ports = [port_of(app) for app in apps[1:]]

    def produce_at_the_other() -> tuple[int, str, str]:
        with Wire(f"127.0.0.1:{ports[0]}") as first, Wire(f"127.0.0.1:{ports[1]}") as second:
            topic = first.create_topic("one", await_leaders=False)
            leader = first.metadata("one").topics[0].partitions[0].leader
            refused = (first, second)[1 - leader].produce(topic, batch(b"v"))
            return refused.error.code, refused.current_leader.address, f"127.0.0.1:{ports[leader]}"

    code, told, expected = await asyncio.to_thread(produce_at_the_other)
    assert (code, told) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, expected)
