"""Metadata that is older than a log: told once this broker is registered, and only as of when it was found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from waiting import until

from ottla_broker.machines.restored_metadata import is_older
from ottla_broker.membership.own_registration import OwnRegistration
from ottla_broker.membership.restored_metadata import OlderMetadata
from ottla_core.cluster import keys
from ottla_core.cluster.codec import encode
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker, ClusterImage, Partition, Restored
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import Put
from ottla_core.model import NO_LEADER

ME = Broker(3, 0, "my-directory", "127.0.0.1:9653", incarnation="this process", fenced=False)
RESTORED = keys.key_text("c", keys.RESTORED)


@pytest.mark.parametrize(
    ("leader", "leader_epoch", "in_the_log", "expected"),
    [
        (1, 4, 4, False),
        (1, 4, 5, True),
        (NO_LEADER, 4, 3, False),
        (NO_LEADER, 4, 4, True),
        (NO_LEADER, 0, -1, False),
    ],
)
def test_a_log_knows_a_later_epoch_or_that_somebody_led_it(
    leader: int, leader_epoch: int, in_the_log: int, expected: bool
) -> None:
    assert is_older(Partition((1, 2), leader=leader, leader_epoch=leader_epoch), in_the_log) is expected


class Found:
    """One broker's metadata, and what its registration says."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.metadata = MetadataFollower(self.store, "c")
        own = OwnRegistration(self.store, self.metadata, lambda: ME.id, ME.incarnation)
        self.older = OlderMetadata(own)

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image

    async def register(self) -> None:
        key = keys.broker(ME.id)
        await self.store.txn([], [Put(keys.key_text("c", key), encode(key, ME))], timeout=1)
        await until(lambda: ME.id in self.image.brokers)

    async def count_a_restoration(self, count: int) -> None:
        await self.store.txn([], [Put(RESTORED, encode(keys.RESTORED, Restored(count)))], timeout=1)
        await until(lambda: self.image.restored.count == count)


@asynccontextmanager
async def found() -> AsyncIterator[Found]:
    there = Found()
    there.metadata.start()
    await there.older.start()
    try:
        yield there
    finally:
        await there.older.stop()
        await there.metadata.stop()


async def test_it_is_told_once_this_process_is_registered() -> None:
    async with found() as there:
        await there.count_a_restoration(1)
        there.older.found(there.image.revision)
        await there.register()
        await until(lambda: there.image.brokers[ME.id].ahead_of is not None)
        assert there.image.is_behind, "what is restored now is not what was counted"


@pytest.mark.story("restoration-is-counted-twice")
async def test_a_restoration_that_was_counted_before_it_was_told_is_the_one() -> None:
    async with found() as there:
        there.older.found(there.image.revision)
        await there.count_a_restoration(1)
        await there.register()
        await until(lambda: there.image.brokers[ME.id].ahead_of is not None)
        assert not there.image.is_behind
