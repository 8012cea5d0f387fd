"""A coordinator's seat: every life has another epoch, and the newest process has the seat."""

from __future__ import annotations

from dataclasses import replace

from waiting import until

from ottla_core.clock import ManualClock
from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.coordinator_registration import CoordinatorRegistration
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage, Coordinator
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import Delete, Put
from ottla_core.errors import ErrorCode, OttlaError

ME = Coordinator("group", 3, 0, "127.0.0.1:9663", incarnation="mine")
KEY = keys.coordinator("group", 3)
TEXT = keys.key_text("c", KEY)


class Seated:
    """One process with its seat, which follows the metadata."""

    def __init__(self, store: MemoryStore, me: Coordinator = ME, *, ttl_s: int = 6) -> None:
        self.ends: list[OttlaError] = []
        self.seat = CoordinatorRegistration(store, "c", ttl_s, lambda: me, self.ends.append)
        self.follower = MetadataFollower(store, "c")
        self.follower.on_change(self.seat.on_image)

    async def start(self) -> Seated:
        self.follower.start()
        await self.seat.start()
        return self

    async def stop(self) -> None:
        await self.seat.stop()
        await self.follower.stop()


async def seen(store: MemoryStore) -> Coordinator | None:
    snapshot = await store.snapshot(TEXT, timeout=1)
    return decode(KEY, snapshot.entries[0]) if snapshot.entries else None


async def test_a_seat_is_taken_under_a_lease_and_given_back() -> None:
    store = MemoryStore()
    seated = await Seated(store).start()
    found = await seen(store)
    assert found is not None
    assert (found.address, found.epoch) == (ME.address, seated.seat.epoch)
    await seated.stop()
    assert await seen(store) is None
    assert seated.seat.epoch is None


async def test_a_process_that_starts_again_has_another_epoch_and_the_former_one_ends() -> None:
    store = MemoryStore()
    former = await Seated(store).start()
    was = former.seat.epoch
    newer = await Seated(store, replace(ME, incarnation="newer")).start()
    assert was is not None
    assert newer.seat.epoch is not None
    assert newer.seat.epoch > was
    await until(lambda: former.ends)
    assert former.ends[0].code == ErrorCode.STALE_BROKER_EPOCH
    assert newer.ends == []
    await former.stop()
    assert await seen(store) is not None, "the former one's end takes nothing from it"
    await newer.stop()


async def test_a_registration_that_is_gone_is_put_again_under_another_epoch() -> None:
    store = MemoryStore()
    seated = await Seated(store).start()
    was = seated.seat.epoch
    await store.txn([], [Delete(TEXT)], timeout=1)
    await until(lambda: seated.seat.epoch not in (None, was))
    found = await seen(store)
    assert found is not None
    assert found.epoch == seated.seat.epoch
    await seated.stop()


async def test_who_finds_its_registration_gone_takes_nobodys_seat() -> None:
    """A newer process removes the key before it puts its own, and the former one may look in between."""
    store = MemoryStore()
    former = Seated(store)
    await former.seat.start()
    newer = replace(ME, incarnation="newer")
    await store.txn([], [Delete(TEXT)], timeout=1)
    await store.txn([], [Put(TEXT, encode(KEY, newer))], timeout=1)
    former.seat.on_image(ClusterImage("c", 1), ClusterImage("c", 1_000))
    await until(lambda: former.ends)
    found = await seen(store)
    assert found is not None
    assert found.incarnation == "newer"
    assert former.seat.epoch is None
    await former.seat.stop()


async def test_a_lease_that_lapsed_leaves_no_epoch_until_there_is_another() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    seated = await Seated(store, ttl_s=1).start()
    was = seated.seat.epoch
    clock.advance(60)
    store.expire_leases()
    await until(lambda: seated.seat.epoch not in (None, was))
    assert was is not None
    assert (await seen(store)) is not None
    await seated.stop()
