"""These tests show what clients of the world's etcd hear when it stops, is compacted, or is restored from a backup."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.world import substitutes
from tests.world.disk import Disks
from tests.world.etcd import Etcd
from tests.world.fibers import World
from tests.world.forked import in_a_fork
from tests.world.network import Network
from tests.world.process import Process
from tests.world.store import SimulatedStore

from ottla_core.cluster.store import CompactedError, Put, StoreUnavailableError

T = 5.0


def _with_etcd(work: Callable[[Etcd, SimulatedStore], Coroutine[Any, Any, Any]]) -> Any:
    """Return what `work` returns in a world with etcd and one client."""

    def run() -> Any:
        world = World(1)
        network, disks = Network(world), Disks(world)
        substitutes.put_in_place(world, network, disks)
        etcd = Etcd(world, network)
        found: list[Any] = []

        async def main(process: Process) -> None:
            found.append(await work(etcd, SimulatedStore(etcd, process)))

        world.run_for(0.1)
        Process(world, network, "client", main)
        world.run_until(lambda: bool(found or world.failures), limit_s=100.0)
        return found[0] if found else world.failures

    return in_a_fork(run)


def test_a_call_that_etcd_did_not_answer_before_it_stopped_may_have_been_carried_out() -> None:
    async def work(etcd: Etcd, store: SimulatedStore) -> list[object]:
        call = asyncio.ensure_future(store.txn([], [Put("/k", b"1")], timeout=T))
        while etcd.memory._revision == 1:
            await asyncio.sleep(1e-5)
        etcd.stop()
        told: list[object] = []
        for doing in (call, store.txn([], [], timeout=T)):
            try:
                await doing
            except StoreUnavailableError as error:
                told.append(error.indefinite)
        etcd.begin()
        return [*told, [entry.key for entry in (await store.snapshot("/", timeout=T)).entries]]

    assert _with_etcd(work) == [True, False, ["/k"]]


def test_leases_live_for_their_whole_time_after_a_stop() -> None:
    async def work(etcd: Etcd, store: SimulatedStore) -> list[int]:
        lease = await store.grant_lease(6, timeout=T)
        await store.txn([], [Put("/k", b"", lease)], timeout=T)
        etcd.stop()
        await asyncio.sleep(10.0)
        etcd.begin()
        counts = []
        for wait_s in (5.0, 2.0):
            await asyncio.sleep(wait_s)
            counts.append(len((await store.snapshot("/", timeout=T)).entries))
        return counts

    assert _with_etcd(work) == [1, 0]


def test_a_watch_that_comes_back_too_late_hears_that_its_revision_is_compacted() -> None:
    async def work(etcd: Etcd, store: SimulatedStore) -> str:
        for _ in range(3):
            await store.txn([], [Put("/k", b"")], timeout=T)
        etcd.compact()
        try:
            await anext(store.watch("/", from_revision=2))
        except CompactedError:
            return "compacted"
        return ""

    assert _with_etcd(work) == "compacted"


def test_a_watch_that_hears_nothing_ends() -> None:
    async def work(etcd: Etcd, store: SimulatedStore) -> str:
        watch = store.watch("/", from_revision=2)
        await anext(watch)
        etcd.process.network.cut("etcd", "client", 60.0)
        try:
            while True:
                await anext(watch)
        except StoreUnavailableError as error:
            return str(error)

    assert _with_etcd(work) == "a watch got no answer for 6 s"


def test_a_restored_etcd_has_what_the_backup_had() -> None:
    async def work(etcd: Etcd, store: SimulatedStore) -> list[object]:
        lease = await store.grant_lease(6, timeout=T)
        await store.txn([], [Put("/leased", b"", lease), Put("/k", b"old")], timeout=T)
        backup = etcd.memory.back_up()
        await store.txn([], [Put("/k", b"new"), Put("/other", b"")], timeout=T)
        found: list[object] = []
        for bump, leases_live_on in ((0, True), (1000, False)):
            etcd.stop()
            etcd.restore(backup, bump=bump, leases_live_on=leases_live_on)
            etcd.begin()
            await asyncio.sleep(0.1)
            snapshot = await store.snapshot("/", timeout=T)
            found.append([snapshot.revision, [(entry.key, entry.value.decode()) for entry in snapshot.entries]])
        return found

    old = ["/k", "old"]
    assert _with_etcd(work) == [[2, [old, ["/leased", ""]]], [1002, [old]]]
