"""A controller's world over both stores, and over the one that can be told to fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from controllers import World

from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import MetaStore


@pytest.fixture(params=["memory", "etcd"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    stores: list[MetaStore] = []

    def connect() -> MetaStore:
        if request.param == "memory":
            stores[:] = stores or [MemoryStore()]
        else:
            stores.append(EtcdStore([request.getfixturevalue("etcd").endpoint]))
        return stores[-1]

    world = World(f"test-{uuid4().hex[:8]}", connect(), connect)
    yield world
    await world.stop()
    for store in stores:
        await store.close()


@pytest.fixture
async def memory() -> AsyncIterator[tuple[World, MemoryStore]]:
    """For what only the store in memory can be told to do."""
    store = MemoryStore()
    world = World("test", store, lambda: store)
    yield world, store
    store.reconnect()
    await world.stop()
    await store.close()
