"""The switches of the store in memory; that it behaves as etcd is tests/system/test_meta_store.py's matter."""

from __future__ import annotations

import pytest
from waiting import until

from ottla_core.clock import ManualClock
from ottla_core.cluster import memory
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import CompactedError, Put, StoreUnavailableError

T = 1.0


async def test_a_lost_response_leaves_the_transaction_done() -> None:
    """The caller does not know the result, and must read back (rule C4)."""
    store = MemoryStore()
    store.lose_next_response()
    with pytest.raises(StoreUnavailableError) as lost:
        await store.txn([], [Put("/k", b"1")], timeout=T)
    assert lost.value.indefinite
    assert [e.value for e in (await store.snapshot("/", timeout=T)).entries] == [b"1"]
    assert (await store.txn([], [Put("/k", b"2")], timeout=T)).succeeded, "only the next one"


async def test_a_disconnected_store_fails_calls_and_watches_and_leases_count_on() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    lease = await store.grant_lease(6, timeout=T)
    await store.txn([], [Put("/k", b"", lease)], timeout=T)
    watch = store.watch("/", from_revision=3)
    await anext(watch)
    store.disconnect()
    with pytest.raises(StoreUnavailableError):
        await anext(watch)
    with pytest.raises(StoreUnavailableError) as refused:
        await store.txn([], [], timeout=T)
    assert not refused.value.indefinite
    clock.advance(7)
    store.reconnect()
    assert (await store.snapshot("/", timeout=T)).entries == ()
    await store.close()


async def test_leases_run_out_without_anybody_calling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MIN_TTL_S", 0.5)
    store = MemoryStore()
    lease = await store.grant_lease(0, timeout=T)
    await store.txn([], [Put("/k", b"", lease)], timeout=T)
    assert "/k" in store._entries
    await until(lambda: not store._entries)
    await store.close()


async def test_the_history_does_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "HISTORY_REVISIONS", 10)
    store = MemoryStore()
    for _ in range(100):
        await store.txn([], [Put("/k", b"")], timeout=T)
    with pytest.raises(CompactedError):
        await anext(store.watch("/", from_revision=80))
    watch = store.watch("/", from_revision=92)
    assert len((await anext(watch)).events) == 0
    assert [e.entry.mod_revision for e in (await anext(watch)).events] == list(range(92, 102))
