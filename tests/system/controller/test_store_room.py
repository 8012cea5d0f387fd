"""etcd comes near its quota: what makes it grow is refused while elections can still be written."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from controllers import World, topic
from waiting import LIMIT_S, until

from ottla_controller import store_room
from ottla_controller.app import build
from ottla_controller.config import ControllerConfig
from ottla_controller.store_room import StoreRoom
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.store import Put, StoreUnavailableError
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.tasks import end_task
from ottla_core.rpc.aio import AioPeer
from ottla_core.telemetry import Metrics
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller, Method
from ottla_stack.embedded_etcd import EmbeddedEtcd, plan_etcd

QUOTA = 16 << 20
NO_JOURNAL: Any = None


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_room, "LOOK_S", 0.02)


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EtcdStore]:
    """The store of an etcd with a small quota."""
    monkeypatch.setenv("ETCD_QUOTA_BACKEND_BYTES", str(QUOTA))
    etcd = EmbeddedEtcd(plan_etcd(tmp_path))
    etcd.start()
    store = EtcdStore([etcd.endpoint])
    yield store
    await store.close()
    etcd.stop()


async def test_no_partitions_are_added_to_an_etcd_that_is_nearly_full(
    store: EtcdStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_room, "LOOK_S", 0.5)  # its call's deadline too
    config = ControllerConfig(cluster_id="full", port=0, admin_port=0, etcd_quota_bytes=QUOTA)
    app = build(config, store=store)
    world = World("full", store, lambda: store)
    await app.start()
    await world.register(0)
    peer = AioPeer(app.address(), client_id="test")

    async def fill(share: float) -> None:
        while await store.size_bytes(timeout=5) < share * QUOTA:
            await store.txn([], [Put("/other", bytes(200_000))], timeout=LIMIT_S)
            await asyncio.sleep(0.11)  # etcd counts what its batches have written, every 0.1 s

    async def until_returned(code: int, method: Method[Any, Any], requests: Iterator[Any]) -> Any:
        """Send requests until one ends with this code, and return it. On a slow disk of etcd's, some time out."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                request = next(requests)
                response = await peer.call(method, request, timeout=LIMIT_S)
                returned = response.topics[0].error.code
                if returned == code:
                    return request
                assert returned in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
                await asyncio.sleep(0.05)

    creations = (pb.CreateTopicsRequest(topics=[topic(f"topic-{number}")]) for number in itertools.count())
    await until(lambda: app.ready() is None)
    for _ in range(40):
        await store.txn([], [Put("/other", bytes(200_000))], timeout=LIMIT_S)
    with caplog.at_level(logging.WARNING, "ottla_controller.store_room"):
        await fill(store_room.WARNED_FROM)
        await until(lambda: "compact and defragment etcd" in caplog.text)
        created = (await until_returned(ErrorCode.NONE, Controller.CREATE_TOPICS, creations)).topics[0].name
        await fill(store_room.REFUSED_FROM)
        await until_returned(ErrorCode.POLICY_VIOLATION, Controller.CREATE_TOPICS, creations)
    increase = pb.CreatePartitionsRequest(topics=[pb.PartitionIncrease(name=created, total_count=2)])
    await until_returned(ErrorCode.POLICY_VIOLATION, Controller.CREATE_PARTITIONS, itertools.repeat(increase))
    # What makes room, and what keeps partitions led, is still written.
    deletion = pb.DeleteTopicsRequest(names=[created])
    await until_returned(ErrorCode.NONE, Controller.DELETE_TOPICS, itertools.repeat(deletion))
    await peer.close()
    await app.stop()


class Sized:
    """A store as large as a test wants it."""

    def __init__(self) -> None:
        self.size: int | None = 80 << 20
        self.rejects = False

    async def size_bytes(self, *, timeout: float) -> int:
        if self.rejects:
            self.rejects = False
            raise ValueError("etcd rejected the request: no status for you")
        if self.size is None:
            raise StoreUnavailableError("away", indefinite=False)
        return self.size


async def test_what_is_refused_is_taken_again_once_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    sized: Any = Sized()
    metrics = Metrics()
    room = StoreRoom(sized, 100 << 20, metrics)
    (used,) = metrics.samples["ottla_controller_store_used_ratio"].values()
    assert callable(used)
    running = asyncio.create_task(room.run(NO_JOURNAL))
    sizes = ((80, False, 1), (79, False, 1), (81, False, 2), (95, True, 2), (40, False, 2), (96, True, 3))
    for megabytes, refused, warnings in sizes:
        sized.size = megabytes << 20
        await until(lambda megabytes=megabytes: used() == megabytes / 100)
        await asyncio.sleep(0)
        assert caplog.text.count("its quota of 100 MiB") == warnings
        if refused:
            with pytest.raises(OttlaError, match=f"{megabytes} MiB of its quota of 100 MiB") as caught:
                room.check()
            assert caught.value.code == ErrorCode.POLICY_VIOLATION
        else:
            room.check()
    sized.size = None
    await asyncio.sleep(0.1)
    with pytest.raises(OttlaError):
        room.check()  # as far as is known
    await end_task(running)


async def test_a_look_that_is_rejected_is_not_the_last_of_the_term(caplog: pytest.LogCaptureFixture) -> None:
    sized: Any = Sized()
    sized.size, sized.rejects = 96 << 20, True
    room = StoreRoom(sized, 100 << 20, Metrics())
    running = asyncio.create_task(room.run(NO_JOURNAL))
    await until(lambda: "its quota of 100 MiB" in caplog.text or running.done())
    await end_task(running)
    assert caplog.text.count("no status for you") >= 1


async def test_a_quota_of_zero_is_etcds_default_as_it_is_for_etcd() -> None:
    sized: Any = Sized()
    metrics = Metrics()
    room = StoreRoom(sized, 0, metrics)
    (used,) = metrics.samples["ottla_controller_store_used_ratio"].values()
    assert callable(used)
    running = asyncio.create_task(room.run(NO_JOURNAL))
    await until(lambda: used() == 80 / 2048)
    room.check()
    await end_task(running)
