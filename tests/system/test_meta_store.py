"""One suite for both metadata stores: the twin in memory is worth testing on only if it behaves as the real etcd.

The suite runs on a third etcd, too, which knows its clients and lets them use one prefix of keys.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

import grpc
import pytest
from secured_etcd import SecuredEtcd, secured_etcd
from waiting import until

from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import (
    MAX_TXN_BYTES,
    MAX_TXN_OPS,
    CompactedError,
    Compare,
    Delete,
    Event,
    EventBatch,
    LeaseLostError,
    MetaStore,
    Put,
    StoreUnavailableError,
)

T = 5.0
_prefixes = itertools.count()


@dataclass
class Backend:
    """A store, with what a test needs of it that is no part of the contract."""

    store: MetaStore
    compact: Callable[[int], Awaitable[None]]
    prefix: str

    async def put(self, name: str, value: bytes = b"", lease: int = 0) -> int:
        return (await self.store.txn([], [Put(self.prefix + name, value, lease)], timeout=T)).revision

    async def contents(self) -> dict[str, bytes]:
        snapshot = await self.store.snapshot(self.prefix, timeout=T)
        return {e.key.removeprefix(self.prefix): e.value for e in snapshot.entries}

    async def revision(self) -> int:
        return (await self.store.snapshot(self.prefix, timeout=T)).revision

    async def events(self, from_revision: int, *, until: int) -> list[list[Event]]:
        """The batches of a watch up to the one that reaches `until`."""
        batches: list[list[Event]] = []
        async with asyncio.timeout(T), aclosing(self.store.watch(self.prefix, from_revision=from_revision)) as watch:
            async for batch in watch:
                batches += [list(batch.events)] if batch.events else []
                if batches and batch.revision >= until:
                    return batches
        raise AssertionError("a watch ends only by an error")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    with secured_etcd(tmp_path_factory.mktemp("guarded"), "/test/") as guarded:
        yield guarded


@pytest.fixture(params=["memory", "etcd", "certificate", "password"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    prefix = f"/test/{next(_prefixes)}/"
    if request.param == "memory":
        memory = MemoryStore()

        async def compact_memory(revision: int) -> None:
            memory.compact(revision)

        yield Backend(memory, compact_memory, prefix)
        await memory.close()
    elif request.param in ("certificate", "password"):
        guarded: SecuredEtcd = request.getfixturevalue("guarded")
        security = guarded.by_certificate() if request.param == "certificate" else guarded.by_password()
        store = EtcdStore([guarded.endpoint], security, page_keys=10)

        async def compact_guarded(revision: int) -> None:
            await asyncio.to_thread(guarded.ctl, "compaction", str(revision))

        yield Backend(store, compact_guarded, prefix)
        await store.close()
    else:
        endpoint: str = request.getfixturevalue("etcd").endpoint
        store = EtcdStore([endpoint], page_keys=10)
        yield Backend(store, lambda revision: compact_etcd(endpoint, revision), prefix)
        await store.close()


async def compact_etcd(endpoint: str, revision: int) -> None:
    """KV.Compact, which the product never calls: `CompactionRequest{int64 revision = 1}`, spelled by hand."""
    varint = bytearray([0x08])
    while revision > 0x7F:
        varint.append(revision & 0x7F | 0x80)
        revision >>= 7
    varint.append(revision)
    async with grpc.aio.insecure_channel(endpoint) as channel:
        await channel.unary_unary("/etcdserverpb.KV/Compact")(bytes(varint), timeout=T)


# ---- snapshots ------------------------------------------------------------------------------------------------------


@pytest.mark.feature(123)
async def test_all_pages_of_a_snapshot_are_of_one_revision(backend: Backend) -> None:
    """Each transaction writes the first and the last of 40 keys (four pages), and no snapshot sees the two differ."""
    p = backend.prefix
    await backend.store.txn([], [Put(f"{p}{n:02d}", b"0") for n in range(40)], timeout=T)
    await backend.store.txn([], [Put("/test/elsewhere", b"")], timeout=T)
    done = False

    async def write() -> None:
        for n in itertools.takewhile(lambda _: not done, itertools.count(1)):
            await backend.store.txn([], [Put(f"{p}00", b"%d" % n), Put(f"{p}39", b"%d" % n)], timeout=T)
            await asyncio.sleep(0)

    writer = asyncio.create_task(write())
    revisions = []
    for _ in range(20):
        snapshot = await backend.store.snapshot(p, timeout=T)
        await asyncio.sleep(0)
        values = [e.value for e in snapshot.entries]
        assert len(values) == 40
        assert values[0] == values[-1]
        assert [e.key for e in snapshot.entries] == [f"{p}{n:02d}" for n in range(40)]
        revisions.append(snapshot.revision)
    done = True
    await writer
    assert revisions == sorted(revisions)
    assert len(set(revisions)) > 1, "the writer did not come in between"


# ---- transactions ---------------------------------------------------------------------------------------------------


async def test_its_size_grows_with_what_is_put(backend: Backend) -> None:
    before = await backend.store.size_bytes(timeout=T)
    for n in range(5):
        await backend.put(f"large-{n}", bytes(1_000_000))
    async with asyncio.timeout(T):
        while await backend.store.size_bytes(timeout=T) < before + 4_000_000:
            await asyncio.sleep(0.02)


async def test_a_create_revision_of_0_means_that_the_key_is_absent(backend: Backend) -> None:
    key = backend.prefix + "controller"
    first = await backend.store.txn([Compare(key, create_revision=0)], [Put(key, b"a")], timeout=T)
    second = await backend.store.txn([Compare(key, create_revision=0)], [Put(key, b"b")], timeout=T)
    assert (first.succeeded, second.succeeded) == (True, False)
    assert second.revision == first.revision, "a transaction that fails makes no revision"
    assert await backend.contents() == {"controller": b"a"}
    mod_0 = await backend.store.txn([Compare(backend.prefix + "no", mod_revision=0)], [], timeout=T)
    assert mod_0.succeeded


@pytest.mark.feature(121)
async def test_revisions_tell_who_is_the_same_and_what_has_changed(backend: Backend) -> None:
    """create_revision stays through changes and is new after a deletion; mod_revision is the last change's."""
    store, key = backend.store, backend.prefix + "k"
    created = await backend.put("k", b"1")
    changed = await backend.put("k", b"2")
    (entry,) = (await store.snapshot(key, timeout=T)).entries
    assert (entry.create_revision, entry.mod_revision) == (created, changed)
    same = Compare(key, create_revision=created)
    assert (await store.txn([same, Compare(key, mod_revision=changed)], [], timeout=T)).succeeded
    assert not (await store.txn([same, Compare(key, mod_revision=created)], [Delete(key)], timeout=T)).succeeded
    assert (await store.txn([Compare(key, created, changed)], [Delete(key)], timeout=T)).succeeded
    born_again = await backend.put("k", b"3")
    assert not (await store.txn([same], [Put(key, b"4")], timeout=T)).succeeded, "the fence of a deposed controller"
    assert born_again > changed


async def test_a_transaction_is_done_whole_or_not_at_all(backend: Backend) -> None:
    p = backend.prefix
    before = await backend.put("a")
    ops: list[Put | Delete] = [Put(p + "b", b"1"), Delete(p + "a"), Put(p + "c", b"2")]
    refused = await backend.store.txn([Compare(p + "a", mod_revision=before + 1)], ops, timeout=T)
    assert not refused.succeeded
    assert await backend.contents() == {"a": b""}
    done = await backend.store.txn([Compare(p + "a", mod_revision=before)], ops, timeout=T)
    assert done.revision == before + 1, "one transaction is one revision"
    assert await backend.contents() == {"b": b"1", "c": b"2"}


async def test_deleting_what_is_not_there_changes_nothing(backend: Backend) -> None:
    before = await backend.put("a")
    result = await backend.store.txn([], [Delete(backend.prefix + "no")], timeout=T)
    assert result.succeeded
    assert result.revision == before


async def test_a_transaction_beyond_etcds_limits_is_refused_before_anything_is_done(backend: Backend) -> None:
    p, txn = backend.prefix, backend.store.txn
    puts = [Put(f"{p}{n:03d}", b"") for n in range(MAX_TXN_OPS + 1)]
    compares = [Compare(put.key, create_revision=0, mod_revision=0) for put in puts[: MAX_TXN_OPS // 2 + 1]]
    for bad_compares, bad_ops in (
        ([], puts),
        (compares, []),
        ([], [puts[0], Put(puts[0].key, b"again")]),
        ([], [Put(p + "large", b"x" * MAX_TXN_BYTES)]),
        ([Compare(p + "nothing")], []),
    ):
        with pytest.raises(ValueError):
            await txn(bad_compares, bad_ops, timeout=T)
    assert await backend.contents() == {}
    full = await txn(compares[:-1], puts[:-1], timeout=T)
    assert full.succeeded
    assert len(await backend.contents()) == MAX_TXN_OPS
    assert (await txn([], [Put(p + "l", b"x" * (MAX_TXN_BYTES - 100))], timeout=T)).succeeded


# ---- watches --------------------------------------------------------------------------------------------------------


@pytest.mark.feature(122)
async def test_a_watch_from_an_old_revision_tells_every_change_in_order(backend: Backend) -> None:
    """60 transactions, of three puts and a deletion each, some before and some during the watch."""
    p = backend.prefix
    start = await backend.revision() + 1
    expected: list[tuple[int, str, bytes, bool]] = []

    async def write(turns: range) -> None:
        for n in turns:
            key, old = f"{p}{n:02d}", f"{p}{n - 1:02d}"
            puts = [Put(key, b"%d" % n), Put(p + "a", b"a"), Put(p + "z", b"%d" % n)]
            ops: list[Put | Delete] = [*puts, Delete(old)]
            await backend.store.txn([], [Put("/test/elsewhere", b"")], timeout=T)
            revision = (await backend.store.txn([], ops, timeout=T)).revision
            expected.extend((revision, op.key, getattr(op, "value", b""), isinstance(op, Delete)) for op in ops)

    async def collect() -> None:
        async with aclosing(backend.store.watch(p, from_revision=start)) as watch:
            async for batch in watch:
                batches.append(batch)
                if batch.events and batch.events[-1].entry.key == f"{p}end":
                    return

    batches: list[EventBatch] = []
    await write(range(1, 31))
    async with asyncio.timeout(T), asyncio.TaskGroup() as tasks:
        tasks.create_task(collect())
        await until(lambda: any(batch.events for batch in batches))
        await write(range(31, 61))
        await backend.put("end")
    seen = [(e.entry.mod_revision, e.entry.key, e.entry.value, e.deleted) for batch in batches for e in batch.events]
    first_deletion = (expected[3][0], f"{p}00", b"", True)
    assert seen[:-1] == [e for e in expected if e != first_deletion], "what was not there is not deleted"
    of_batches = [{e.entry.mod_revision for e in batch.events} for batch in batches if batch.events]
    assert len(of_batches) > 1
    assert all(max(a) < min(b) for a, b in itertools.pairwise(of_batches)), "a revision was cut in two"


async def test_an_event_carries_the_revisions_of_its_key(backend: Backend) -> None:
    created = await backend.put("k", b"1")
    changed = await backend.put("k", b"2")
    deleted = (await backend.store.txn([], [Delete(backend.prefix + "k")], timeout=T)).revision
    events = [e for batch in await backend.events(created, until=deleted) for e in batch]
    assert [(e.entry.create_revision, e.entry.mod_revision) for e in events] == [
        (created, created),
        (created, changed),
        (0, deleted),
    ]


async def test_a_quiet_watch_tells_that_the_store_is_there(backend: Backend) -> None:
    revision = await backend.put("k")
    async with asyncio.timeout(T), aclosing(backend.store.watch(backend.prefix, from_revision=revision + 1)) as watch:
        batches = [await anext(watch) for _ in range(2)]
    assert [(batch.revision, batch.events) for batch in batches] == [(revision, ())] * 2


async def test_what_is_compacted_can_not_be_watched(backend: Backend) -> None:
    """A watch from the compacted revision itself would miss the deletion in it (etcd issue 18089)."""
    await backend.put("a", b"1")
    await backend.put("k", b"1")
    deletion = (await backend.store.txn([], [Delete(backend.prefix + "k")], timeout=T)).revision
    after = await backend.put("b")
    await backend.compact(deletion)
    for lost in (deletion - 1, deletion):
        with pytest.raises(CompactedError):
            await backend.events(lost, until=after)
    (batch,) = await backend.events(deletion + 1, until=after)
    assert [e.entry.key for e in batch] == [backend.prefix + "b"]
    assert await backend.contents() == {"a": b"1", "b": b""}, "compaction forgets the history only"


async def test_a_revision_that_the_store_has_not_come_to_can_not_be_watched(backend: Backend) -> None:
    """It was restored from an older copy: whoever waited there would never hear of anything again."""
    with pytest.raises(CompactedError):
        await backend.events(await backend.revision() + 100, until=0)


# ---- leases ---------------------------------------------------------------------------------------------------------


@pytest.mark.feature(117)
@pytest.mark.feature(119)
async def test_a_lease_that_nobody_keeps_alive_takes_its_keys_with_it(backend: Backend) -> None:
    store = backend.store
    kept, dropped = [await store.grant_lease(2, timeout=T) for _ in range(2)]
    await backend.put("brokers/1", lease=kept)
    await backend.put("brokers/2", lease=dropped)
    start = await backend.put("coordinators/2", lease=dropped) + 1

    async def keep() -> None:
        while True:
            assert await store.keep_alive(kept, timeout=T) >= 2
            await asyncio.sleep(0.3)

    keeper = asyncio.create_task(keep())
    (batch,) = await backend.events(start, until=start)
    keeper.cancel()
    assert [(e.entry.key, e.deleted) for e in batch] == [
        (f"{backend.prefix}brokers/2", True),
        (f"{backend.prefix}coordinators/2", True),
    ], "in one revision, so that no watcher sees half of a process"
    assert await backend.contents() == {"brokers/1": b""}
    with pytest.raises(LeaseLostError):
        await store.keep_alive(dropped, timeout=T)


async def test_a_revoked_lease_is_gone_at_once(backend: Backend) -> None:
    store, p = backend.store, backend.prefix
    lease = await store.grant_lease(60, timeout=T)
    await backend.put("k", lease=lease)
    (entry,) = (await store.snapshot(p, timeout=T)).entries
    assert entry.lease == lease
    await store.revoke_lease(lease, timeout=T)
    await store.revoke_lease(lease, timeout=T)
    assert await backend.contents() == {}
    with pytest.raises(LeaseLostError):
        await store.txn([], [Put(p + "other", b""), Put(p + "k", b"", lease)], timeout=T)
    refused = await store.txn([Compare(p + "k", mod_revision=99)], [Put(p + "k", b"", lease)], timeout=T)
    assert not refused.succeeded, "the lease counts only where its put is done"
    assert await backend.contents() == {}


async def test_a_key_belongs_to_the_lease_of_its_last_put(backend: Backend) -> None:
    old, new = [await backend.store.grant_lease(60, timeout=T) for _ in range(2)]
    for name in ("moved", "freed"):
        await backend.put(name, lease=old)
    await backend.put("moved", lease=new)
    await backend.put("freed")
    await backend.store.revoke_lease(old, timeout=T)
    assert set(await backend.contents()) == {"moved", "freed"}
    await backend.store.revoke_lease(new, timeout=T)
    assert set(await backend.contents()) == {"freed"}


async def test_a_closed_store_is_unavailable(backend: Backend) -> None:
    await backend.put("k")
    await backend.store.close()
    with pytest.raises(StoreUnavailableError) as refused:
        await backend.put("k")
    assert not refused.value.indefinite
