"""Brokers with a Kafka listener for each side, as in containers: what clients are told, and what doctor says."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka_clients import Confluent, KafkaPython, Rec
from tests.fuzz.kafka_wire import KafkaWire
from waiting import LIMIT_S, until

import ottla
import ottla_broker.app
import ottla_controller.app
from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.cluster.memory import MemoryStore
from ottla_core.process.lifecycle import ServiceApp
from ottla_stack.ports import free_port_base


@asynccontextmanager
async def cluster_of(folder: Path, *brokers: dict[str, Any]) -> AsyncIterator[list[ServiceApp]]:
    """Brokers with these settings."""
    store = MemoryStore()
    apps = [ottla_controller.app.build(ControllerConfig(port=0, admin_port=0), store=store)]
    for n, settings in enumerate(brokers):
        given = {"port": 0, "admin_port": 0, **settings}
        config = BrokerConfig(node_id=n, data_dir=folder / str(n), **given)
        apps.append(ottla_broker.app.build(config, store=store))
    try:
        for app in apps:
            await app.start()
        await until(lambda: all(app.ready() is None for app in apps))
        yield apps[1:]
    finally:
        for app in reversed(apps):
            await app.stop()
        await store.close()


class Ports:
    """Free ports of two brokers: for clients here, and for clients of a network whose names are not known here."""

    def __init__(self) -> None:
        base = free_port_base()
        self.external, self.internal = [base, base + 1], [base + 2, base + 3]

    def listeners(self, n: int, *, host: str = "localhost") -> dict[str, Any]:
        external, internal = self.external[n], self.internal[n]
        return {
            "kafka_listeners": (f"EXTERNAL://127.0.0.1:{external}", f"INTERNAL://127.0.0.1:{internal}"),
            "kafka_advertised": (f"EXTERNAL://{host}:{external}", f"INTERNAL://broker-{n}.invalid:{internal}"),
        }


def told_at(port: int) -> tuple[list[Any], list[Any]]:
    """The brokers by Metadata and by DescribeCluster."""
    with KafkaWire(f"127.0.0.1:{port}") as kafka:
        by_metadata = kafka.ask(MetadataRequest(topics=[]), 9, MetadataResponse).brokers
        described = kafka.ask(DescribeClusterRequest(endpoint_type=1), 1, DescribeClusterResponse).brokers
    return (
        sorted((b.node_id, b.host, b.port) for b in by_metadata),
        sorted((b.broker_id, b.host, b.port) for b in described),
    )


def doctor(*arguments: str) -> tuple[int, dict[tuple[int | None, str | None], str], str]:
    """`ottla doctor`: its exit code, the state of each broker and listener, and what it says."""
    command = [sys.executable, "-m", "ottla", "doctor", *arguments, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    items = json.loads(done.stdout)["items"] if done.stdout else []
    return done.returncode, {(i["broker"], i["listener"]): i["state"] for i in items}, done.stderr


@pytest.mark.feature(135)
async def test_clients_are_told_the_addresses_of_the_listener_that_they_came_by(tmp_path: Path) -> None:
    ports = Ports()
    async with cluster_of(tmp_path, ports.listeners(0), ports.listeners(1)) as brokers:
        outside = [(n, "localhost", ports.external[n]) for n in range(2)]
        inside = [(n, f"broker-{n}.invalid", ports.internal[n]) for n in range(2)]
        for n in range(2):
            assert await asyncio.to_thread(told_at, ports.external[n]) == (outside, outside)
            assert await asyncio.to_thread(told_at, ports.internal[n]) == (inside, inside)
        await asyncio.to_thread(_use, f"127.0.0.1:{ports.external[0]}")
        await asyncio.to_thread(_examine, ports, brokers[0].address())


def _use(bootstrap: str) -> None:
    """Whoever leads, real clients reach it by what they are told."""
    with ottla.Admin(bootstrap) as admin:
        for topic in ("one", "two", "three", "four"):
            admin.topics.create(topic, partitions=1)
        led = {p.leader for topic in admin.topics.describe() for p in topic.partitions}
        assert led == {0, 1}
        registered = admin.cluster.describe().brokers[1].kafka_listeners
        assert registered["EXTERNAL"].startswith("localhost:")
        assert registered["INTERNAL"].startswith("broker-1.invalid:")
        described = admin.configs.get(broker=1)["advertised.listeners"].value
        assert described == f"EXTERNAL://{registered['EXTERNAL']},INTERNAL://{registered['INTERNAL']}"
    for topic in ("one", "two", "three", "four"):
        assert Confluent().produce(bootstrap, topic, [Rec(None, b"v")]) == [0]
        assert [r.value for r in KafkaPython().consume(bootstrap, topic, 1)] == [b"v"]


def _examine(ports: Ports, grpc: str) -> None:
    code, states, said = doctor("-b", f"localhost:{ports.external[1]}")
    assert (code, states) == (
        0,
        {(n, name): state for name, state in (("EXTERNAL", "ok"), ("INTERNAL", "elsewhere")) for n in range(2)},
    ), said
    assert doctor(f"localhost:{ports.external[1]}")[:2] == (0, {(0, None): "ok", (1, None): "ok"})

    code, states, said = doctor(f"localhost:{ports.internal[1]}")
    assert (code, states) == (1, {(0, None): "unresolved", (1, None): "unresolved"})
    assert "the name broker-0.invalid can't be resolved here; advertise" in said
    assert f"kafka_advertised=localhost:{ports.internal[0]}" in said

    code, states, said = doctor(grpc)
    assert (code, states) == (1, {(None, None): "grpc"})
    assert f"{grpc} is a gRPC port, not a Kafka port" in said
    code, _, said = doctor("-b", grpc)
    assert code == 1
    assert f"{grpc} is a gRPC port, not a broker's Kafka port" in said


async def test_mistakes_of_a_real_cluster_are_named(tmp_path: Path) -> None:
    """Broker 0 advertises its gRPC port; broker 1 advertises broker 2's address, as broker 2 does."""
    base = free_port_base()
    grpc, first, second, third = range(base, base + 4)
    async with cluster_of(
        tmp_path,
        {"port": grpc, "kafka_port": first, "kafka_advertised": (f"localhost:{grpc}",)},
        {"kafka_port": second, "kafka_advertised": (f"localhost:{third}",)},
        {"kafka_port": third, "kafka_advertised": (f"localhost:{third}",)},
    ):
        code, states, said = await asyncio.to_thread(doctor, "-b", f"localhost:{first},localhost:{second}")
        assert code == 1
        assert states == {(0, "PLAINTEXT"): "grpc", (1, "PLAINTEXT"): "other-broker", (2, "PLAINTEXT"): "ok"}
        assert f"broker 0, listener PLAINTEXT: localhost:{grpc} is a gRPC port" in said
        assert f"broker 1 and broker 2 are both advertised as localhost:{third}" in said


async def test_brokers_with_one_listener_and_with_two_in_one_cluster(tmp_path: Path) -> None:
    """While listeners are added broker by broker, those that lack one are left out for its clients."""
    ports = Ports()
    internal_only = {"kafka_listeners": (f"INTERNAL://127.0.0.1:{ports.internal[1]}",)}
    async with cluster_of(tmp_path, ports.listeners(0), internal_only):
        outside = [(0, "localhost", ports.external[0])]
        assert await asyncio.to_thread(told_at, ports.external[0]) == (outside, outside)
        told, _ = await asyncio.to_thread(told_at, ports.internal[0])
        assert told == [(0, "broker-0.invalid", ports.internal[0]), (1, "127.0.0.1", ports.internal[1])]
        code, states, said = await asyncio.to_thread(doctor, "-b", f"127.0.0.1:{ports.internal[0]}")
        assert code == 1
        assert states[1, "EXTERNAL"] == "missing"
        assert "broker 1, listener EXTERNAL: it has no listener EXTERNAL" in said


@pytest.mark.story("doctor-in-plaintext")
async def test_doctor_enters_each_listener_by_its_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With the profile it enters both listeners. Without it, it finds out that one has TLS."""
    ports, authority = Ports(), Authority(tmp_path / "authority")
    settings = ports.listeners(0) | {
        "kafka_listeners": (f"INTERNAL://127.0.0.1:{ports.internal[0]}", f"EXTERNAL://127.0.0.1:{ports.external[0]}"),
        "kafka_advertised": (),
        "kafka_listener_protocols": ("EXTERNAL:SSL", "INTERNAL:PLAINTEXT"),
        "ssl_keystore_location": str(authority.issue("broker", "IP:127.0.0.1").both),
    }
    profile = f"[profiles.tls.ssl]\ntruststore.location = '{authority.certificate}'\n"
    config = tmp_path / "config.toml"
    config.write_text(f"{profile}[profiles.tls.security]\nprotocol = 'SSL'\n")
    monkeypatch.setenv("OTTLA_CONFIG", str(config))
    internal, external = (f"127.0.0.1:{numbers[0]}" for numbers in (ports.internal, ports.external))
    async with cluster_of(tmp_path, settings):
        code, states, said = await asyncio.to_thread(doctor, "-b", external, "--profile", "tls")
        assert (code, states) == (0, {(0, "EXTERNAL"): "ok", (0, "INTERNAL"): "ok"}), said
        code, states, said = await asyncio.to_thread(doctor, "-b", internal)
        assert (code, states) == (1, {(0, "EXTERNAL"): "tls", (0, "INTERNAL"): "ok"})
        assert "requires TLS; use a --profile with TLS" in said
    assert "closing a Kafka connection" not in caplog.text


async def test_unstable_versions_are_served_where_that_is_set(tmp_path: Path) -> None:
    def newest(address: str) -> int:
        with KafkaWire(address) as wire:
            response = wire.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        return next(int(api.max_version) for api in response.api_keys if api.api_key == 22)

    settings = [{"kafka_port": 0, "unstable_api_versions_enable": enabled} for enabled in (False, True)]
    async with cluster_of(tmp_path, *settings) as apps:
        assert [await asyncio.to_thread(newest, app.listeners["kafka"]()) for app in apps] == [5, 6]
