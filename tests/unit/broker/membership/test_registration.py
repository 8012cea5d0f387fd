"""A broker's seat: taken fenced, unfenced once metadata is applied, a death and a birth at a restart, never stolen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from waiting import until

from ottla_broker.membership.registration import Registration
from ottla_core.clock import ManualClock
from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker, ClusterImage, LastIncarnation
from ottla_core.cluster.leased_key import read_key
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import Delete, Put, Snapshot, StoreUnavailableError
from ottla_core.errors import ErrorCode, OttlaError

ME = Broker(3, 0, "my-directory", "127.0.0.1:9653", rack="r")
ANOTHER = replace(ME, directory_id="another", address="127.0.0.1:1", incarnation="another's")
KEY = keys.broker(3)


class Seat:
    """The registration of one process, whose metadata is applied when `applied` says so."""

    def __init__(self, store: MemoryStore, me: Broker = ME, *, catches_up: bool = True, ttl_s: int = 6) -> None:
        self.waited_for: list[int] = []
        self.ends: list[OttlaError] = []
        self.caught_up = asyncio.Event()
        if catches_up:
            self.caught_up.set()
        self.registration = Registration(
            store, "c", lambda: me.id, ttl_s, self._describe, self._applied, self.ends.append
        )
        self.newest: list[LastIncarnation | None] = []
        self._me = me

    def _describe(self, newest: LastIncarnation | None) -> Broker:
        self.newest.append(newest)
        return self._me

    async def _applied(self, revision: int, epoch: int) -> None:
        self.waited_for.append(revision)
        await self.caught_up.wait()


class LapsingStore(MemoryStore):
    """A store whose leases can be let lapse at once."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        super().__init__(clock=self.clock)

    def lapse(self) -> None:
        self.clock.advance(60)
        self.expire_leases()


async def seen(store: MemoryStore) -> Broker | None:
    snapshot = await store.snapshot(keys.key_text("c", KEY), timeout=1)
    return decode(KEY, snapshot.entries[0]) if snapshot.entries else None


@pytest.mark.rule(22)
@pytest.mark.feature(117)
async def test_a_broker_is_fenced_until_it_has_applied_its_own_registration() -> None:
    store = MemoryStore()
    seat = Seat(store, catches_up=False)
    starting = asyncio.create_task(seat.registration.start())
    await until(lambda: seat.waited_for)
    fenced = await seen(store)
    assert fenced is not None
    assert (fenced.fenced, seat.registration.registered) == (True, False)
    assert seat.waited_for == [fenced.epoch], "the revision of its own key"

    seat.caught_up.set()
    await starting
    unfenced = await seen(store)
    assert unfenced is not None
    assert (unfenced.fenced, unfenced.epoch, unfenced.rack) == (False, fenced.epoch, "r")
    assert unfenced.lease
    await seat.registration.stop()
    assert await seen(store) is None


@pytest.mark.rule(22)
async def test_a_restart_within_the_lease_is_a_death_and_a_birth() -> None:
    store = MemoryStore()
    killed, successor = Seat(store), Seat(store)
    await killed.registration.start()
    first = await seen(store)
    await killed.registration.kill()
    await successor.registration.start()
    second = await seen(store)
    assert first is not None
    assert second is not None
    assert second.epoch > first.epoch
    assert second.lease != first.lease, "it lives as long as the new process"
    await successor.registration.stop()


async def test_another_directory_does_not_get_the_id() -> None:
    store = MemoryStore()
    holder, thief = Seat(store), Seat(store, ANOTHER)
    await holder.registration.start()
    with pytest.raises(OttlaError, match=r"broker id 3 is in use by 127\.0\.0\.1:9653") as raised:
        await thief.registration.start()
    assert raised.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert thief.ends == [], "whoever starts it hears of it"
    kept = await seen(store)
    assert kept is not None
    assert kept.directory_id == "my-directory"
    await holder.registration.stop()


@pytest.mark.rule(21)
async def test_what_the_controller_has_noted_meanwhile_stays_and_a_broker_without_proof_is_so_only_while_fenced() -> (
    None
):
    store = MemoryStore()
    seat = Seat(store, replace(ME, unclean=True), catches_up=False)
    starting = asyncio.create_task(seat.registration.start())
    await until(lambda: seat.waited_for)
    fenced = await seen(store)
    assert fenced is not None
    assert (fenced.fenced, fenced.unclean) == (True, True)
    noted = replace(fenced, shutting_down=True)
    await store.txn([], [Put(keys.key_text("c", KEY), encode(KEY, noted), fenced.lease)], timeout=1)
    seat.caught_up.set()
    await starting
    unfenced = await seen(store)
    assert unfenced is not None
    assert (unfenced.fenced, unfenced.unclean, unfenced.shutting_down) == (False, False, True)
    await seat.registration.stop()


async def test_a_seat_that_lapsed_while_metadata_was_applied_is_not_unfenced() -> None:
    """1. It registers fenced. 2. Its lease lapses. 3. It has caught up: what it would unfence is gone."""
    store = LapsingStore()
    seat = Seat(store, catches_up=False)
    starting = asyncio.create_task(seat.registration.start())
    await until(lambda: seat.waited_for)
    store.lapse()
    seat.caught_up.set()
    with pytest.raises(Exception, match=r"gone|lease"):
        await starting
    assert await seen(store) is None


async def test_a_lost_lease_is_taken_again_with_a_new_epoch() -> None:
    store = LapsingStore()
    seat = Seat(store)
    await seat.registration.start()
    first = await seen(store)
    assert first is not None
    store.lapse()
    await until(lambda: len(seat.waited_for) == 2)
    await until(lambda: seat.registration.registered)
    again = await seen(store)
    assert again is not None
    assert again.epoch > first.epoch
    await seat.registration.stop()


async def test_a_lost_answer_is_read_back_and_not_repeated() -> None:
    store = MemoryStore()
    store.lose_next_response()
    seat = Seat(store)
    with pytest.raises(Exception, match="lost"):
        await seat.registration.start()
    await seat.registration.start()
    found = await seen(store)
    assert found is not None
    assert not found.fenced
    await seat.registration.stop()


@asynccontextmanager
async def following(store: MemoryStore, seat: Seat) -> AsyncIterator[MetadataFollower]:
    """The registration is started, and hears of every change of the metadata until it is stopped."""
    follower = MetadataFollower(store, "c")
    follower.on_change(seat.registration.on_image)
    follower.start()
    try:
        await seat.registration.start()
        await follower.wait_for(lambda image: ME.id in image.live_brokers(), timeout=10)
        yield follower
        await seat.registration.stop()
    finally:
        await follower.stop()


async def test_a_key_that_somebody_deleted_is_put_again_under_the_same_lease(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    seat = Seat(store)
    async with following(store, seat) as follower:
        first = await seen(store)
        assert first is not None
        await store.txn([], [Delete(keys.key_text("c", KEY))], timeout=1)
        await until(lambda: len(seat.waited_for) == 2)
        await until(lambda: seat.registration.registered)
        again = await seen(store)
        assert again is not None
        assert (again.lease, again.fenced) == (first.lease, False)
        assert again.epoch > first.epoch
        assert "the registration of broker 3 is gone; registering again" in caplog.text

        seat.registration.on_image(follower.image, ClusterImage("c", revision=first.epoch))
        assert seat.registration.registered, "an image from before tells nothing"
        caplog.clear()
        await seat.registration.stop()
        await follower.wait_for(lambda image: not image.brokers, timeout=10)
        assert caplog.text == "", "a stop is no loss"
    assert seat.ends == []


@pytest.mark.rule(22)
async def test_who_finds_its_id_taken_by_another_directory_later_on_ends() -> None:
    """1. Its lease lapses. 2. Another broker with the same id registers. 3. It comes back."""
    store = LapsingStore()
    seat, thief = Seat(store, ttl_s=1), Seat(store, ANOTHER)
    await seat.registration.start()
    store.lapse()
    await thief.registration.start()
    await until(lambda: seat.ends)
    assert seat.ends[0].code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert "broker id 3 is in use by 127.0.0.1:1" in seat.ends[0].message
    assert not seat.registration.registered
    await seat.registration.stop()
    kept = await seen(store)
    assert kept is not None
    assert kept.directory_id == "another"
    await thief.registration.stop()


async def test_a_seat_that_can_t_be_read_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    store = LapsingStore()
    seat, text = Seat(store, ttl_s=1), keys.key_text("c", KEY)
    await seat.registration.start()
    store.lapse()
    await store.txn([], [Put(text, b"\xff")], timeout=1)
    await until(lambda: "is damaged" in caplog.text)
    assert seat.ends == []
    await store.txn([], [Delete(text)], timeout=1)
    await until(lambda: seat.registration.registered)
    await seat.registration.stop()


@pytest.mark.rule(22)
async def test_who_was_unseated_by_a_copy_of_itself_ends() -> None:
    store = MemoryStore()
    old, copy = Seat(store, replace(ME, incarnation="old")), Seat(store, replace(ME, incarnation="copy", address="x:1"))
    async with following(store, old):
        assert old.ends == []
        await copy.registration.start()
        await until(lambda: old.ends)
        assert {end.code for end in old.ends} == {ErrorCode.STALE_BROKER_EPOCH}
        assert "x:1" in old.ends[0].message
    await copy.registration.stop()


# ---- the store keeps the newest incarnation (rule C17) ---------------------------------------------------------------


@pytest.mark.rule(21)
async def test_the_newest_life_is_written_with_the_registration_and_outlives_it() -> None:
    store = MemoryStore()
    first = Seat(store, replace(ME, incarnation="one"))
    await first.registration.start()
    registered = await seen(store)
    assert registered is not None
    await first.registration.stop()
    second = Seat(store, replace(ME, incarnation="two"))
    await second.registration.start()
    assert first.newest == [None]
    assert second.newest == [LastIncarnation("one", "my-directory", epoch=registered.epoch)]
    await second.registration.stop()


@pytest.mark.rule(21)
async def test_a_later_registration_keeps_the_renewals_of_its_own_incarnation_alone() -> None:
    store, key = MemoryStore(), keys.last_incarnation(3)
    text = keys.key_text("c", key)
    await store.txn([], [Put(text, encode(key, LastIncarnation("one", "my-directory", 7, 5)))], timeout=1)
    for incarnation, renewals in (("one", 5), ("two", 0)):
        seat = Seat(store, replace(ME, incarnation=incarnation))
        await seat.registration.start()
        registered, entry = await seen(store), await read_key(store, text)
        assert registered is not None
        assert entry is not None
        assert decode(key, entry) == LastIncarnation(incarnation, "my-directory", registered.epoch, renewals)
        await seat.registration.stop()


class RacedStore(MemoryStore):
    """Somebody else registers as the broker just after its newest life was looked at."""

    raced = False

    async def snapshot(self, prefix: str, *, timeout: float) -> Snapshot:
        found = await super().snapshot(prefix, timeout=timeout)
        key = keys.last_incarnation(3)
        if prefix == keys.key_text("c", key) and not self.raced:
            self.raced = True
            await self.txn([], [Put(prefix, encode(key, LastIncarnation("zombie", "my-directory")))], timeout=timeout)
        return found


@pytest.mark.story("life-between-look-and-registration")
async def test_a_life_that_came_between_the_look_and_the_registration_is_seen() -> None:
    """A zombie on a copy of the data: what was judged against the life before it must not be registered."""
    seat = Seat(RacedStore())
    with pytest.raises(StoreUnavailableError, match="relies on"):
        await seat.registration.start()
    await seat.registration.start()
    assert [life and life.incarnation for life in seat.newest] == [None, "zombie"]
    await seat.registration.stop()
