"""A follower applies changes in the order of their revisions, also after a cut connection (rule C9).

After a compaction or a lost change it takes a new snapshot (rule C5).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest
from waiting import until

from ottla_core.clock import ManualClock
from ottla_core.cluster import keys
from ottla_core.cluster.codec import encode
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage, Topic
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import Delete, EventBatch, Put, Snapshot, StoreUnavailableError
from ottla_core.errors import OttlaError
from ottla_core.model import TopicId
from ottla_proto import state_pb2 as pb

T = 5.0


class Link(MemoryStore):
    """A store, and one follower's way to it, which a test cuts, or makes lose a change."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = False
        self.lose_one = False
        self.replaced_by: Link | None = None
        self.snapshots = 0
        self._seq = 0

    async def snapshot(self, prefix: str, *, timeout: float) -> Snapshot:
        self._check()
        self.snapshots += 1
        if self.replaced_by is not None:
            return await self.replaced_by.snapshot(prefix, timeout=timeout)
        return await super().snapshot(prefix, timeout=timeout)

    async def watch(self, prefix: str, *, from_revision: int) -> AsyncGenerator[EventBatch, None]:
        self._check()
        watch = super().watch if self.replaced_by is None else self.replaced_by.watch
        async with aclosing(watch(prefix, from_revision=from_revision)) as batches:
            async for batch in batches:
                self._check()
                if self.lose_one and batch.events:
                    self.lose_one = False
                else:
                    yield batch

    def _check(self) -> None:
        if self.cut:
            raise StoreUnavailableError("the link is cut", indefinite=False)

    def replace_by(self, other: Link) -> None:
        """etcd is back at the same address, with other data."""
        self.replaced_by = other
        self.disconnect()

    async def write(self, *, put: str = "", delete: str = "") -> int:
        """A controller's transaction: topics, and the next `seq` with them."""
        self._seq += 1
        ops: list[Put | Delete] = [Put(text(keys.SEQ), encode(keys.SEQ, self._seq))]
        if put:
            topic = Topic(put, TopicId(put.encode().ljust(16)), 1)
            ops.append(Put(text(keys.topic(put)), encode(keys.topic(put), topic)))
        if delete:
            ops.append(Delete(text(keys.topic(delete))))
        return (await self.txn([], ops, timeout=T)).revision


def text(key: keys.Key) -> str:
    return keys.key_text("c", key)


class Watched(MetadataFollower):
    """A follower with what a test wants to know of it."""

    def __init__(self, link: Link) -> None:
        self.clock = ManualClock()
        self.sleeps: list[float] = []
        self.changes: list[tuple[ClusterImage, ClusterImage]] = []
        super().__init__(link, "c", clock=self.clock, sleep=self.sleep)
        self.on_change(lambda old, new: self.changes.append((old, new)))

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await asyncio.sleep(0.001)


@pytest.fixture
async def link() -> AsyncIterator[Link]:
    link = Link()
    yield link
    await link.close()


@pytest.fixture
async def follower(link: Link) -> AsyncIterator[Watched]:
    """Started on a cluster with one topic, and up to date."""
    revision = await link.write(put="first")
    follower = Watched(link)
    follower.start()
    await follower.wait_for(revision, T)
    yield follower
    await follower.stop()


async def test_others_have_their_turns_while_a_large_snapshot_is_read(link: Link) -> None:
    for n in range(10_000):
        await link.write(put=f"t{n}")
    follower, turns = Watched(link), 0
    follower.start()
    while not follower.image.revision:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 5
    assert len(follower.image.topics) == 10_000
    await follower.stop()


@pytest.mark.feature(122)
@pytest.mark.feature(124)
async def test_listeners_hear_of_every_image_and_the_one_before_it(link: Link, follower: Watched) -> None:
    for name in ("a", "b"):
        await follower.wait_for(await link.write(put=name), T)
    image = await follower.wait_for(await link.write(delete="a"), T)
    assert image is follower.image
    assert [sorted(new.topics) for _, new in follower.changes] == [
        ["first"],
        ["a", "first"],
        ["a", "b", "first"],
        ["b", "first"],
    ]
    olds, news = zip(*follower.changes, strict=True)
    assert olds[1:] == news[:-1]
    assert [new.revision for new in news] == [2, 3, 4, 5]


async def test_after_a_cut_connection_it_watches_on_from_where_it_was(link: Link, follower: Watched) -> None:
    link.cut = True
    for name in ("a", "b"):
        await link.write(put=name)
    await until(lambda: len(follower.sleeps) >= 12)
    assert sorted(follower.image.topics) == ["first"]
    assert follower.sleeps[0] <= 0.1
    assert 1.0 <= max(follower.sleeps) <= 2.0, "it asks less and less often, but never rarely"
    link.cut = False
    image = await follower.wait_for(await link.write(delete="first"), T)
    assert sorted(image.topics) == ["a", "b"]
    assert link.snapshots == 1
    link.cut = True
    slept = len(follower.sleeps)
    await link.write(put="c")
    await until(lambda: len(follower.sleeps) > slept)
    assert follower.sleeps[slept] <= 0.1, "the next time it begins anew"


async def test_a_compaction_meanwhile_makes_it_take_a_new_snapshot(link: Link, follower: Watched) -> None:
    link.cut = True
    await link.write(put="a")
    revision = await link.write(put="b", delete="first")
    link.compact(revision)
    link.cut = False
    image = await follower.wait_for(revision, T)
    assert sorted(image.topics) == ["a", "b"]
    assert link.snapshots == 2
    await follower.wait_for(await link.write(put="d"), T)
    assert link.snapshots == 2, "and it goes on from there"


async def test_what_was_deleted_before_a_new_snapshot_has_changed_the_topics(link: Link, follower: Watched) -> None:
    """Nothing in the snapshot says so: whoever keeps something of all topics would keep it for good."""
    link.cut = True
    revision = await link.write(delete="first")
    link.compact(revision)
    link.cut = False
    image = await follower.wait_for(revision, T)
    assert (dict(image.topics), image.topics_revision) == ({}, revision)


async def test_a_gap_in_seq_makes_it_take_a_new_snapshot(link: Link, follower: Watched) -> None:
    """A change that got lost on the way would else stay lost for good."""
    link.lose_one = True
    await link.write(put="lost")
    await until(lambda: not link.lose_one)
    assert "lost" not in follower.image.topics
    image = await follower.wait_for(await link.write(put="next"), T)
    assert sorted(image.topics) == ["first", "lost", "next"]
    assert (image.seq, link.snapshots) == (3, 2)


async def test_a_change_that_no_controller_wrote_needs_no_seq(link: Link, follower: Watched) -> None:
    """Registrations are written by brokers themselves, and deleted by etcd."""
    registration = pb.Broker(format=1, directory_id="d", address="h:1").SerializeToString()
    put = await link.txn([], [Put(text(keys.broker(1)), registration)], timeout=T)
    image = await follower.wait_for(put.revision, T)
    assert image.brokers[1].epoch == put.revision
    gone = await link.txn([], [Delete(text(keys.broker(1)))], timeout=T)
    assert (await follower.wait_for(gone.revision, T)).brokers == {}
    assert link.snapshots == 1


async def test_what_a_later_release_keeps_beside_ours_is_passed_over(link: Link, follower: Watched) -> None:
    foreign = await link.txn([], [Put("/ottla/c/acls/of/later", b"\xff")], timeout=T)
    image = await follower.wait_for(foreign.revision, T)
    assert sorted(image.topics) == ["first"]


async def test_a_format_that_it_can_not_read_is_named_and_the_image_stays(link: Link, follower: Watched) -> None:
    before = follower.image
    waiting = asyncio.create_task(follower.wait_for(lambda image: "t" in image.topics, T))
    await asyncio.sleep(0)
    later = pb.Topic(format=2, partition_count=1).SerializeToString()
    await link.txn([], [Put(text(keys.topic("t")), later)], timeout=T)
    with pytest.raises(OttlaError, match="has format 2, but this release reads format 1"):
        await waiting
    assert follower.image is before
    with pytest.raises(OttlaError):
        await follower.wait_for(99, T)
    image = await follower_repaired(link, follower)
    assert sorted(image.topics) == ["first", "t"]


async def follower_repaired(link: Link, follower: Watched) -> ClusterImage:
    revision = await link.write(put="t")
    await until(lambda: follower.image.revision >= revision)
    return follower.image


@pytest.fixture
async def restored() -> AsyncIterator[Link]:
    """A store with what a backup had: nothing."""
    restored = Link()
    yield restored
    await restored.close()


async def test_a_store_that_went_back_is_not_followed_and_the_image_stays(
    link: Link, follower: Watched, restored: Link, caplog: pytest.LogCaptureFixture
) -> None:
    """Else brokers would delete the logs of all topics that it does not know."""
    before, heard = follower.image, len(follower.changes)
    waiting = asyncio.create_task(follower.wait_for(99, T))
    await asyncio.sleep(0)
    link.replace_by(restored)
    with pytest.raises(OttlaError, match=r"reverted from revision 2 \(seq 1\) to 1 \(seq 0\): it was restored"):
        await waiting
    assert "restart the services" in caplog.text
    for name in ("a", "b", "c"):
        await restored.write(put=name)  # it comes past the image's revision, and is another one all the same
    loads = link.snapshots
    await until(lambda: link.snapshots >= loads + 3)
    assert (follower.image, len(follower.changes)) == (before, heard)
    with pytest.raises(OttlaError, match="reverted"):
        await follower.wait_for(before.revision, T)  # whoever decides by this image would write to another store
    fresh = Watched(link)
    fresh.start()
    assert sorted((await fresh.wait_for(1, T)).topics) == ["a", "b", "c"]
    await fresh.stop()


async def test_a_store_that_went_back_by_a_registration_alone_is_known_by_its_revision(
    link: Link, follower: Watched, restored: Link
) -> None:
    put = await link.txn([], [Put("/ottla/c/other", b"")], timeout=T)
    await follower.wait_for(put.revision, T)
    await restored.write(put="first")
    link.replace_by(restored)
    with pytest.raises(OttlaError, match=r"from revision 3 \(seq 1\) to 2 \(seq 1\)"):
        await follower.wait_for(99, T)


async def test_a_store_that_went_back_is_known_by_its_seq_too(link: Link, follower: Watched, restored: Link) -> None:
    """Brokers that register again have brought it past the image's revision before it was looked at."""
    before = follower.image
    for n in range(5):
        await restored.txn([], [Put(f"/ottla/c/other/{n}", b"")], timeout=T)
    restored.compact(5)
    link.replace_by(restored)
    with pytest.raises(OttlaError, match=r"from revision 2 \(seq 1\) to 6 \(seq 0\)"):
        await follower.wait_for(99, T)
    assert follower.image is before


async def test_waiting_ends_at_its_deadline_in_words(follower: Watched) -> None:
    follower.clock.advance(3)
    with pytest.raises(TimeoutError, match=r"at revision 2, and the store last responded 3\.0 s ago"):
        await follower.wait_for(99, 0.01)
    assert (await follower.wait_for(lambda image: "first" in image.topics, 0.01)) is follower.image


async def test_stopping_ends_the_waits(follower: Watched) -> None:
    waiting = asyncio.create_task(follower.wait_for(99, T))
    await asyncio.sleep(0)
    await follower.stop()
    with pytest.raises(StoreUnavailableError, match="stopped"):
        await waiting
    assert sorted(follower.image.topics) == ["first"]


async def test_staleness_is_the_time_since_the_store_was_heard_of(link: Link, follower: Watched) -> None:
    assert Watched(link).staleness_s == float("inf")
    assert follower.staleness_s == 0
    link.cut = True
    await link.write(put="a")
    await until(lambda: follower.sleeps)
    follower.clock.advance(20)
    assert follower.staleness_s == 20
    link.cut = False
    await until(lambda: follower.staleness_s == 0)
    assert "a" in (await follower.wait_for(lambda image: "a" in image.topics, T)).topics


async def test_one_listener_s_bug_keeps_the_image_from_nobody(
    link: Link, follower: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    def buggy(_: ClusterImage, new: ClusterImage) -> None:
        raise KeyError("a bug")

    heard: list[int] = []
    follower.on_change(buggy)
    follower.on_change(lambda _, new: heard.append(new.revision))
    revision = await link.write(put="a")
    await follower.wait_for(revision, T)
    assert heard == [revision]
    assert "a bug" in caplog.text


async def test_who_catches_up_has_all_that_was_written_before(link: Link, follower: Watched) -> None:
    await link.write(put="second")
    assert "second" in (await follower.catch_up(T)).topics
    await link.txn([], [Put("/elsewhere", b"")], timeout=T)  # the store's revision is above any that is followed
    assert "second" in (await follower.catch_up(T)).topics
    link.cut = True
    with pytest.raises(StoreUnavailableError):
        await follower.catch_up(T)
