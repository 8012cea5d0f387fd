"""A session keeps its lease alive (rule C7), and replaces a lost one (rule C6).

While the store is away it keeps the lease that it has (rule C12).
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
from waiting import until

from ottla_core.clock import ManualClock
from ottla_core.cluster.memory import MIN_TTL_S, MemoryStore
from ottla_core.cluster.session import RENEWALS, RETRY_S, LeaseSession
from ottla_core.cluster.store import Delete, LeaseLostError, Put, StoreUnavailableError
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.telemetry import Counter

T = 1.0
KEY = "/ottla/c/brokers/1"


def brief(ttl_s: float) -> int:
    """For renewals that come soon. Leases are of whole seconds, and none lives for less than MIN_TTL_S."""
    return cast(int, ttl_s)


class Turns:
    """A `sleep` that ends when the test says so, and tells what was asked of it."""

    def __init__(self, clock: ManualClock) -> None:
        self.asked: list[float] = []
        self._clock = clock
        self._ends = asyncio.Semaphore(0)

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self._ends.acquire()
        self._clock.advance(seconds)

    async def pass_one(self) -> None:
        """End this sleep, and wait until the sleeper has done its work and sleeps again."""
        turns = len(self.asked)
        self._ends.release()
        await until(lambda: len(self.asked) > turns)


class Owner:
    """A process that registers one key, and whatever goes wrong with it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)
        self.turns = Turns(self.clock)
        self.refusals: list[Exception] = []
        self.leases: list[int] = []
        self.log: list[str] = []
        self.on_registered: Callable[[], None] = lambda: None
        self.losses = Counter()
        self.session = LeaseSession(
            self.store,
            6,
            self.register,
            on_lost=lambda: self.log.append("lost"),
            losses=self.losses,
            sleep=self.turns.sleep,
        )

    async def register(self, lease: int) -> None:
        self.leases.append(lease)
        if self.refusals:
            self.log.append("refused")
            raise self.refusals.pop()
        await self.store.txn([], [Put(KEY, b"", lease)], timeout=T)
        self.log.append("registered")
        on_registered, self.on_registered = self.on_registered, lambda: None
        on_registered()

    async def keys(self) -> list[str]:
        return [e.key for e in (await self.store.snapshot("/", timeout=T)).entries]


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    owner = Owner()
    yield owner
    owner.store.reconnect()
    await owner.session.stop(timeout=T)
    await owner.store.close()


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    """Why there was no session, as logged since the last look, and whether with a traceback."""
    reasons = [(r.getMessage().partition("retrying: ")[2], bool(r.exc_info)) for r in caplog.records]
    caplog.clear()
    return reasons


async def start(owner: Owner) -> None:
    await owner.session.start(timeout=T)
    await until(lambda: owner.turns.asked)


@pytest.mark.story("lease-is-renewed-at-a-third")
@pytest.mark.feature(117)
@pytest.mark.feature(119)
async def test_a_session_is_kept_alive_at_a_sixth_of_its_time_to_live(owner: Owner) -> None:
    await start(owner)
    for _ in range(10):
        await owner.turns.pass_one()
    assert owner.turns.asked == [1.0] * 11
    assert await owner.keys() == [KEY]
    assert owner.log == ["registered"]


@pytest.mark.feature(117)
async def test_whoever_lost_its_lease_registers_again_and_goes_on(owner: Owner) -> None:
    await start(owner)
    first = owner.session.lease
    owner.clock.advance(7)  # the process stood still: its next keep-alive is too late
    assert await owner.keys() == []
    await owner.turns.pass_one()
    assert (owner.session.lease, owner.log) == (None, ["registered", "lost"])
    await owner.turns.pass_one()
    in_between = owner.turns.asked[1]
    assert owner.turns.asked == [1.0, in_between, 1.0]
    assert RETRY_S / 2 <= in_between <= RETRY_S, "not as one of a crowd"
    assert owner.log == ["registered", "lost", "registered"]
    assert owner.session.lease not in (None, first)
    assert await owner.keys() == [KEY]
    assert owner.losses.value == 1


async def test_a_store_that_is_away_takes_nobody_s_session(owner: Owner) -> None:
    """The session asks for its lease until the store says that it is lost, so nobody fences itself (rule C12)."""
    await start(owner)
    lease = owner.session.lease
    owner.store.disconnect()
    for _ in range(4):
        await owner.turns.pass_one()
    assert owner.session.lease == lease
    assert owner.turns.asked == [1.0, *[RETRY_S] * 4], "more often than every second, to catch the lease alive"
    owner.store.reconnect()
    await owner.turns.pass_one()
    assert owner.turns.asked[-1] == 1.0
    assert (owner.session.lease, owner.log) == (lease, ["registered"])


async def test_a_first_registration_that_is_refused_is_the_owners_to_hear_of(owner: Owner) -> None:
    owner.refusals = [OttlaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "node id 1 is in use")]
    with pytest.raises(OttlaError, match="in use"):
        await owner.session.start(timeout=T)
    assert owner.session.lease is None
    with pytest.raises(LeaseLostError):
        await owner.store.keep_alive(owner.leases[0], timeout=T)
    lease = await owner.store.grant_lease(6, timeout=T)
    await owner.store.txn([], [Put(KEY, b"", lease)], timeout=T)
    await owner.session.stop(timeout=T)
    assert await owner.keys() == [KEY], "a session that did not begin ends nobody else's"


async def test_a_later_registration_that_is_refused_is_tried_again(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    await start(owner)
    owner.refusals = [OttlaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "node id 1 is in use")]
    owner.clock.advance(7)
    for _ in range(2):
        await owner.turns.pass_one()
    assert owner.log == ["registered", "lost", "refused"]
    assert owner.session.lease is None, "a lease without a registration under it is no session"
    await owner.turns.pass_one()
    assert owner.log[-1] == "registered"
    assert owner.session.lease is not None
    assert "node id 1 is in use" in caplog.text


async def test_a_registration_that_fails_again_and_again_backs_off_and_is_told_once(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    await start(owner)
    refused, bug = OttlaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "in use"), ValueError("a bug of ours")
    owner.refusals = [refused, bug, bug, *[refused] * 8]  # from the last to the first
    owner.clock.advance(7)
    await owner.turns.pass_one()
    caplog.clear()
    for _ in range(8):
        await owner.turns.pass_one()
    assert told(caplog) == [(str(refused), False)], "one line at the first failure"
    assert max(owner.turns.asked[-8:]) > 1.0
    assert max(owner.turns.asked) <= 2.0, "the lease is kept alive meanwhile"
    for _ in range(2):
        await owner.turns.pass_one()
    assert told(caplog) == [("a bug of ours", True)], "what nobody has foreseen, with its origin"
    await owner.turns.pass_one()
    assert told(caplog) == [(str(refused), False)], "the reason has changed"
    assert len(owner.leases) == 12
    assert len(set(owner.leases)) == 2, "of the first lease, and of the one after it"
    await owner.turns.pass_one()
    assert owner.log[-1] == "registered"
    assert owner.turns.asked[-1] == 1.0
    owner.clock.advance(7)
    await owner.turns.pass_one()
    assert owner.turns.asked[-1] <= RETRY_S, "the next trouble is a new one"


async def test_keys_that_somebody_deleted_are_put_again_at_once_under_the_same_lease(owner: Owner) -> None:
    await start(owner)
    lease = owner.session.lease
    await owner.store.txn([], [Delete(KEY)], timeout=T)
    owner.session.register_again()
    assert owner.session.lease is None, "it is not registered now"
    await until(lambda: owner.session.lease is not None)
    assert owner.log == ["registered", "registered"], "without waiting for the next turn"
    assert owner.session.lease == lease
    assert await owner.keys() == [KEY]


async def test_keys_that_go_while_they_are_put_are_put_once_more(owner: Owner) -> None:
    await start(owner)
    owner.clock.advance(7)
    await owner.turns.pass_one()
    owner.on_registered = owner.session.register_again
    await owner.turns.pass_one()
    assert owner.session.lease is None
    await owner.turns.pass_one()
    assert owner.session.lease is not None
    assert owner.log == ["registered", "lost", "registered", "registered"]


class SilentStore(MemoryStore):
    """A renewal reaches it once two more were sent, and no answer reaches anybody before `answering` is set: as a
    starved loop sees it. Its clock goes by the renewals that are sent."""

    def __init__(self) -> None:
        self._passing = ManualClock()
        super().__init__(clock=self._passing)
        self.answering = asyncio.Event()
        self.asked = self.open = 0

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        self.asked += 1
        self.open += 1
        self._passing.advance(MIN_TTL_S / RENEWALS)  # no lease lives for less
        comes_with = self.asked + 2
        try:
            async with asyncio.timeout(timeout):
                await until(lambda: self.asked >= comes_with)
                ttl_s = await super().keep_alive(lease, timeout=timeout)
                await self.answering.wait()
                return ttl_s
        except TimeoutError:
            raise StoreUnavailableError("no answer", indefinite=False) from None
        finally:
            self.open -= 1


@pytest.mark.story("renewal-waits-for-the-last-answer")
@pytest.mark.feature(117)
async def test_a_renewal_that_is_not_answered_keeps_no_other_from_being_sent() -> None:
    """What counts is when the store gets it: a loop that hears of its answers late keeps its lease."""
    store, losses = SilentStore(), Counter()

    async def register(lease: int) -> None:
        await store.txn([], [Put(KEY, b"", lease)], timeout=T)

    session = LeaseSession(store, brief(1.2), register, losses=losses)
    await session.start(timeout=T)
    await until(lambda: store.asked >= RENEWALS + 2)  # longer than a lease lives
    assert store.open <= RENEWALS + 1, "and they end"
    assert losses.value == 0
    assert [e.lease for e in (await store.snapshot("/", timeout=T)).entries] == [session.lease]
    store.answering.set()
    await session.stop(timeout=T)
    assert store.open == 0


@pytest.mark.story("answer-of-a-lease-that-is-over")
async def test_an_answer_that_comes_late_ends_the_lease_that_it_is_of() -> None:
    class LateStore(MemoryStore):
        lost, late = False, 0

        async def keep_alive(self, lease: int, *, timeout: float) -> int:
            if self.lost:
                self.late += 1
                await asyncio.sleep(0.1)
                self.late -= 1
                raise LeaseLostError("it is gone")
            return await super().keep_alive(lease, timeout=timeout)

    store, registered, losses = LateStore(clock=ManualClock()), list[int](), Counter()

    async def register(lease: int) -> None:
        registered.append(lease)

    untaken: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: untaken.append(context["message"]))
    session = LeaseSession(store, brief(0.3), register, losses=losses)  # a renewal every 50 ms
    await session.start(timeout=T)
    store.lost = True
    await until(lambda: losses.value == 1)
    store.lost = False
    await until(lambda: len(registered) == 2 and session.lease == registered[1])
    await until(lambda: not store.late)  # others' answers come meanwhile, of the lease that was lost
    await asyncio.sleep(0)
    assert (losses.value, session.lease) == (1, registered[1])
    await session.stop(timeout=T)
    gc.collect()
    assert untaken == [], "answers that count no more are taken all the same"


@pytest.mark.story("registered-under-a-lost-lease")
async def test_an_answer_that_comes_while_its_lease_is_registered_ends_the_session_once() -> None:
    """The registration goes on, under a lease that is gone: what comes of it is no session."""

    class LateStore(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.is_late, self.late, self.tell = False, 0, asyncio.Event()

        async def keep_alive(self, lease: int, *, timeout: float) -> int:
            if self.is_late:
                self.late += 1
                await self.tell.wait()
                raise LeaseLostError("it is gone")
            return await super().keep_alive(lease, timeout=timeout)

    store, losses, may_end, seen = LateStore(), Counter(), asyncio.Event(), list[int | None]()

    async def register(lease: int) -> None:
        seen.append(session.lease)
        if len(seen) == 2:
            await may_end.wait()

    session = LeaseSession(store, brief(0.3), register, losses=losses)
    await session.start(timeout=T)
    store.is_late = True
    await until(lambda: store.late > 0)
    store.is_late = False
    session.register_again()
    await until(lambda: len(seen) == 2)
    store.tell.set()
    await until(lambda: losses.value == 1)
    may_end.set()
    await until(lambda: session.lease is not None)
    assert seen == [None, None, None], "nobody is registered before the owner has been"
    assert losses.value == 1
    await session.stop(timeout=T)


class CountingStore(MemoryStore):
    """Two thirds of a lease's time pass from one renewal to the next."""

    def __init__(self) -> None:
        self._passing = ManualClock()
        super().__init__(clock=self._passing)
        self.kept_alive = 0

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        self.kept_alive += 1
        self._passing.advance(MIN_TTL_S * 2 / 3)
        return await super().keep_alive(lease, timeout=timeout)


@pytest.mark.feature(119)
async def test_a_registration_may_take_longer_than_its_lease_lives() -> None:
    """A broker is unfenced when it has applied the metadata up to its registration, which may take long (rule C8)."""
    store, enough = CountingStore(), asyncio.Event()

    async def register(lease: int) -> None:
        await until(lambda: store.kept_alive >= 3)
        enough.set()

    session = LeaseSession(store, brief(0.03), register)
    await session.start(timeout=T)
    assert enough.is_set()
    assert session.lease is not None
    await session.stop(timeout=T)


@pytest.mark.story("start-that-takes-too-long")
async def test_a_lease_that_is_lost_while_registering_ends_the_registration() -> None:
    store = MemoryStore()
    ended: list[str] = []

    async def register(lease: int) -> None:
        await store.revoke_lease(lease, timeout=T)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    session = LeaseSession(store, brief(0.03), register)
    with pytest.raises(StoreUnavailableError, match="before this process was registered"):  # which services tell
        await session.start(timeout=T)
    assert ended == ["cancelled"]
    assert session.lease is None


async def test_stopping_ends_the_registration_at_once(owner: Owner) -> None:
    await start(owner)
    await owner.session.stop(timeout=T)
    assert await owner.keys() == []
    assert owner.session.lease is None
    await owner.session.stop(timeout=T)


async def test_stopping_while_the_store_is_away_leaves_the_lease_to_run_out(owner: Owner) -> None:
    await start(owner)
    owner.store.disconnect()
    await owner.session.stop(timeout=T)
    owner.store.reconnect()
    assert await owner.keys() == [KEY]
    owner.clock.advance(7)
    assert await owner.keys() == []
