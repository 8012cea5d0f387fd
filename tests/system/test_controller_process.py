"""Controllers as processes on a real etcd: killed, frozen, stopped."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from uuid import uuid4

import pytest
from children import stop
from controllers import World
from waiting import LIMIT_S, until, wait_until

from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.aio import AioPeer
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_stack.embedded_etcd import EmbeddedEtcd
from ottla_stack.ports import free_port_base

FAILOVER_LIMIT_S = 5.0


@dataclass
class Pair:
    """Two controller processes; `active` and `standby` by what etcd says."""

    follower: MetadataFollower
    processes: list[subprocess.Popen[bytes]]
    peers: list[AioPeer]
    admin_ports: list[int]

    @property
    def active(self) -> int:
        controller = self.follower.image.controller
        assert controller is not None
        return controller.id

    async def create(self, node_id: int, name: str) -> None:
        new = pb.NewTopic(name=name, partitions=1, replication_factor=1)
        response = await self.peers[node_id].call(
            Controller.CREATE_TOPICS, pb.CreateTopicsRequest(topics=[new]), timeout=5
        )
        if response.topics[0].error.code:
            raise OttlaError(response.topics[0].error.code, response.topics[0].error.message)

    async def create_within(self, node_id: int, name: str, limit_s: float) -> None:
        """Ask again while the error is retriable, as a client does."""
        async with asyncio.timeout(limit_s):
            while True:
                try:
                    return await self.create(node_id, name)
                except OttlaError as error:
                    if not error.retriable:
                        raise
                    await asyncio.sleep(0.05)


@pytest.fixture
async def pair(etcd: EmbeddedEtcd, tmp_path: Path) -> AsyncIterator[Pair]:
    store = EtcdStore([etcd.endpoint])
    world = World(f"test-{uuid4().hex[:8]}", store, lambda: store)
    await world.register(0)
    follower = MetadataFollower(store, world.cluster_id)
    follower.start()
    base = free_port_base()
    processes = [start(n, base, world.cluster_id, etcd.endpoint, tmp_path) for n in range(2)]
    peers = [AioPeer(f"127.0.0.1:{base + n}") for n in range(2)]
    pair = Pair(follower, processes, peers, [base + 100, base + 101])
    try:
        await asyncio.to_thread(wait_until, lambda: all(ready(port) for port in pair.admin_ports))
        await until(lambda: follower.image.controller)
        yield pair
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for peer in peers:
            await peer.close()
        await follower.stop()
        await store.close()


def start(node_id: int, base: int, cluster_id: str, etcd: str, logs: Path) -> subprocess.Popen[bytes]:
    settings = {
        "node-id": node_id,
        "cluster-id": cluster_id,
        "port": base + node_id,
        "admin-port": base + 100 + node_id,
        "etcd": etcd,
    }
    command = [sys.executable, "-m", "ottla_controller", *(f"--{name}={value}" for name, value in settings.items())]
    with (logs / f"controller-{node_id}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def metrics(admin_port: int) -> str:
    connection = HTTPConnection("127.0.0.1", admin_port, timeout=2)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def ready(admin_port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", admin_port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@pytest.mark.feature(116)
@pytest.mark.feature(124)
async def test_the_active_one_is_killed_and_a_topic_is_created_within_five_seconds(pair: Pair) -> None:
    await pair.create_within(pair.active, "before", FAILOVER_LIMIT_S)
    dead, heir = pair.active, 1 - pair.active
    with pytest.raises(OttlaError, match="NOT_CONTROLLER"):
        await pair.create(heir, "refused")
    pair.processes[dead].kill()
    began_at = time.monotonic()
    await pair.create_within(heir, "after", FAILOVER_LIMIT_S)
    print(f"a topic {time.monotonic() - began_at:.2f} s after the kill")
    await until(lambda: "after" in pair.follower.image.topics)
    assert pair.active == heir


@pytest.mark.feature(116)
async def test_a_killed_controller_is_replaced_before_its_lease_is_over(pair: Pair) -> None:
    dead, heir = pair.active, 1 - pair.active
    watching = "ottla_controller_health_streams 1.0"
    await asyncio.to_thread(wait_until, lambda: watching in metrics(pair.admin_ports[heir]))
    pair.processes[dead].kill()
    began_at = time.monotonic()
    await until(lambda: pair.follower.image.controller is not None and pair.active == heir)
    seconds = time.monotonic() - began_at
    print(f"another controller {seconds:.2f} s after the kill")
    assert seconds < 2.0  # of the lease of 3 s at least so much was left


@pytest.mark.feature(121)
async def test_a_controller_that_was_frozen_wakes_up_as_a_standby(pair: Pair) -> None:
    frozen, heir = pair.active, 1 - pair.active
    await pair.create_within(frozen, "before", FAILOVER_LIMIT_S)
    stop(pair.processes[frozen].pid)
    await pair.create_within(heir, "meanwhile", FAILOVER_LIMIT_S)
    pair.processes[frozen].send_signal(signal.SIGCONT)
    with pytest.raises(OttlaError) as refused:
        await pair.create(frozen, "too-late")
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    await pair.create(heir, "after")
    await until(lambda: pair.follower.image.topics.keys() == {"before", "meanwhile", "after"})


async def test_sigterm_hands_over_at_once_and_ends_the_process(pair: Pair) -> None:
    ending, heir = pair.active, 1 - pair.active
    pair.processes[ending].terminate()
    began_at = time.monotonic()
    await pair.create_within(heir, "orders", FAILOVER_LIMIT_S)
    assert time.monotonic() - began_at < 2.0  # the lease of 3 s is given back, not waited for
    assert await asyncio.to_thread(pair.processes[ending].wait, 10) == 0


async def test_a_controller_in_front_of_no_etcd_says_so_and_waits(tmp_path: Path) -> None:
    base = free_port_base()
    process = start(0, base, "test", f"127.0.0.1:{base + 199}", tmp_path)
    log = tmp_path / "controller-0.log"
    try:
        await asyncio.to_thread(wait_until, answers(base + 100))
        await asyncio.to_thread(wait_until, lambda: "the metadata store is unavailable" in log.read_text())
        assert not ready(base + 100)
        assert process.poll() is None
    finally:
        process.terminate()
        assert process.wait(LIMIT_S) == 0
    assert "Traceback" not in log.read_text()


def answers(admin_port: int) -> Callable[[], bool]:
    def answers_now() -> bool:
        connection = HTTPConnection("127.0.0.1", admin_port, timeout=2)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    return answers_now
