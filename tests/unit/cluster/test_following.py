"""Following is there with its first image, or not at all: a start that failed leaves nothing running."""

from __future__ import annotations

import asyncio

import pytest
from waiting import until

from ottla_core.cluster import following, keys
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.following import Following
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import Put, StoreUnavailableError
from ottla_core.errors import ErrorCode, OttlaError


def followers() -> int:
    return sum(task.get_name() == "metadata-follower" for task in asyncio.all_tasks())


async def is_closed(store: MemoryStore) -> bool:
    try:
        await store.snapshot("/", timeout=1)
    except StoreUnavailableError:
        return True
    return False


async def test_there_is_an_image_when_the_start_returns_and_the_end_closes_the_own_store() -> None:
    store = MemoryStore()
    follower = MetadataFollower(store, "c")
    component = Following(follower, store)
    await component.start()
    assert follower.image.revision > 0
    assert followers() == 1
    await component.stop()
    assert followers() == 0
    assert await is_closed(store)


async def test_a_store_that_does_not_answer_is_named_and_not_followed_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FIRST_IMAGE_LIMIT_S", 0.01)
    store = MemoryStore()
    store.disconnect()
    with pytest.raises(OttlaError, match=r"has not responded within 0\.01 s.*check that etcd is running"):
        await Following(MetadataFollower(store, "c"), store).start()
    assert followers() == 0


async def test_metadata_that_can_t_be_read_ends_the_start_and_leaves_a_shared_store_open() -> None:
    store = MemoryStore()
    await store.txn([], [Put(keys.key_text("c", keys.SEQ), b"\xff")], timeout=1)
    with pytest.raises(OttlaError) as raised:
        await Following(MetadataFollower(store, "c"), None).start()
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert followers() == 0
    assert not await is_closed(store)


async def test_a_start_that_is_cut_short_stops_following() -> None:
    store = MemoryStore()
    store.disconnect()
    starting = asyncio.create_task(Following(MetadataFollower(store, "c"), store).start())
    await until(lambda: followers() == 1)
    starting.cancel()
    await asyncio.wait({starting})
    assert starting.cancelled()
    assert followers() == 0
