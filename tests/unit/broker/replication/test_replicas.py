"""All partitions of a broker, on a real data directory, while the metadata changes under them."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from logs import SMALL, values_batch
from waiting import until

from ottla_broker.machines.offsets import LogEndOffset
from ottla_broker.replication import removals, replicas, ticks
from ottla_broker.replication.leading import Leading
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replicas import Replicas
from ottla_broker.storage import checkpoint
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.soundness import NO_INCARNATION, VOUCHES
from ottla_core.clock import ManualClock
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.history import Term
from ottla_core.cluster.image import Broker, Change, ClusterImage, Partition, Restored, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.leader_epochs import EpochStart

TOPIC = TopicId(b"t" * 16)
ID = PartitionId(TOPIC, 0)
LED = Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1,))


OTHER = TopicId(b"o" * 16)
OTHER_ID = PartitionId(OTHER, 0)


def image_of(partition: Partition, revision: int, other: Partition | None = None) -> ClusterImage:
    """With a topic of one partition, and another where a second one is given."""
    topics = {"t": (TOPIC, partition)} | ({"other": (OTHER, other)} if other else {})
    return ClusterImage(
        "c",
        revision,
        brokers={n: Broker(n, 10 + n, "d", f"localhost:{n}", fenced=False) for n in (1, 2)},
        topics={name: Topic(name, id_, 1) for name, (id_, _) in topics.items()},
        topic_names={id_: name for name, (id_, _) in topics.items()},
        partitions={PartitionId(id_, 0): each for id_, each in topics.values()},
    )


class Metadata:
    """A follower of metadata that follows the test."""

    def __init__(self, partition: Partition) -> None:
        self.image = image_of(partition, 1)
        self._listeners: list[Callable[[ClusterImage, ClusterImage], None]] = []

    def on_change(self, listener: Callable[[ClusterImage, ClusterImage], None]) -> None:
        self._listeners.append(listener)

    def become(self, partition: Partition, other: Partition | None = None) -> None:
        self.replace(image_of(partition, self.image.revision + 1, other))

    def replace(self, image: ClusterImage) -> None:
        old, self.image = self.image, image
        for listener in self._listeners:
            listener(old, image)


class Held:
    """Broker 1, which is trusted with all that it had."""

    def __init__(self, path: Path, *, vouches: bool = True) -> None:
        clock = ManualClock()
        self.metadata = Metadata(LED)
        self.log_dir = LogDir.open(path, DirectoryIdentity("c", 1, "d" * 22), SMALL, now_ms=clock.wall_ms())
        if vouches:
            self.log_dir.create(ID, "t", SMALL, now_ms=clock.wall_ms())
            self.log_dir.vouch()
        metadata = cast(MetadataFollower, self.metadata)
        self.replicas = Replicas(metadata, lambda: self.log_dir, clock, DiskThreads(), lambda error: None)

    @property
    def replica(self) -> Replica:
        return self.replicas.table.find(ID)


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    held = Held(tmp_path / "data")
    await held.replicas.start()
    yield held
    await held.replicas.stop()
    held.log_dir.abandon()


class Gate:
    """Something that waits for the disk until it is let go."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        self.reached.set()
        assert self.open.wait(20)
        return self._call(*arguments)


async def being_cut(held: Held, monkeypatch: pytest.MonkeyPatch) -> tuple[Gate, asyncio.Task[None]]:
    """The replica follows another leader, and its log is being cut."""
    held.replica.led_in(None).append(values_batch(b"a"))
    held.metadata.become(replace(LED, leader=2, leader_epoch=2, isr=(2,), partition_epoch=1))
    await until(lambda: not held.replica.leads)
    gate = Gate(held.replica.log.truncate_to)
    monkeypatch.setattr(held.replica.log, "truncate_to", gate)
    assert held.replica.following is not None
    cutting = asyncio.create_task(held.replica.following.on_diverging(EpochStart(1, 0), 0))
    await until(gate.reached.is_set)
    return gate, cutting


@pytest.mark.story("old-copy-leads-until-it-registers")
@pytest.mark.rule(21)
async def test_a_directory_leads_nothing_before_its_broker_has_registered(tmp_path: Path) -> None:
    """The metadata still name this broker as the leader of its former life, and the directory may be an old copy."""
    former = Held(tmp_path / "data")
    former.log_dir.close({}, now_ms=ManualClock().wall_ms())
    held = Held(tmp_path / "data", vouches=False)
    await held.replicas.start()
    try:
        await until(lambda: held.replicas.table.get(ID) is not None)
        assert not held.replica.leads
        held.log_dir.compare(held.log_dir.incarnation)
        assert not held.log_dir.may_lead, "another process may register meanwhile"
        held.log_dir.vouch(NO_INCARNATION)
        held.replicas.look_at_all()
        await until(lambda: held.replica.leads)
    finally:
        await held.replicas.stop()
        held.log_dir.abandon()


@pytest.mark.story("short-log-sound-after-an-orderly-stop")
@pytest.mark.rule(21)
async def test_a_log_that_lacks_its_end_is_whole_once_its_replica_is_in_sync(tmp_path: Path) -> None:
    """The ISR that names this broker before it has left it says nothing of the log that is here now."""
    Held(tmp_path / "data").log_dir.abandon()
    for name in VOUCHES:
        (tmp_path / "data" / name).unlink()
    held = Held(tmp_path / "data", vouches=False)
    log_dir = held.log_dir
    await held.replicas.start()
    try:
        held.metadata.become(replace(LED, partition_epoch=1))
        held.metadata.become(following := replace(LED, leader=2, leader_epoch=2, isr=(2,), partition_epoch=2))
        await held.replicas.until(lambda image: image.revision == 3, timeout=20)
        assert not log_dir.has_all_of(ID)
        log_dir.vouch(NO_INCARNATION)
        held.replicas.look_at_all()
        held.metadata.become(replace(following, partition_epoch=3))
        await held.replicas.until(lambda image: image.revision == 4, timeout=20)
        assert not log_dir.has_all_of(ID)
        held.metadata.become(replace(following, isr=(1, 2), partition_epoch=4))
        await until(lambda: log_dir.has_all_of(ID))
    finally:
        await held.replicas.stop()
        log_dir.abandon()


@pytest.mark.rule(4)
async def test_a_log_that_is_being_cut_leads_when_it_is_whole_again(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = held.replica
    gate, cutting = await being_cut(held, monkeypatch)
    held.metadata.become(replace(LED, leader_epoch=3, partition_epoch=2))
    await until(lambda: replica.leader_id is None)
    assert replica.log.epochs.entries == ((1, 0),), "the epoch would begin where the log is about to end no more"
    gate.open.set()
    await cutting
    await until(lambda: replica.leads)
    assert replica.log.epochs.entries == ((3, 0),)


async def test_a_partition_that_goes_is_forgotten(held: Held) -> None:
    forgotten: list[PartitionId] = []
    held.replicas.on_proposal(lambda replica: None, forgotten.append)
    held.metadata.become(replace(LED, replicas=(2,), leader=2, leader_epoch=2, isr=(2,)))
    await until(lambda: not held.replicas.table.all())
    assert forgotten == [ID]


async def test_what_a_partition_had_in_memory_goes_with_it(held: Held) -> None:
    """Without a look for garbage, which does not go through what was there when many logs had been made."""
    held.replica.led_in(None).append(values_batch(b"a"))
    await held.replica.disk.flushed()
    replica, log = weakref.ref(held.replica), weakref.ref(held.replica.log)
    gc.disable()
    try:
        held.metadata.become(replace(LED, replicas=(2,), leader=2, leader_epoch=2, isr=(2,)))
        await until(lambda: replica() is None and log() is None)
    finally:
        gc.enable()


FIRST_TERM = Term("a", 1)
LATER = replace(LED, leader_epoch=2, partition_epoch=1)


def other_leads_in(held: Held) -> int | None:
    """The epoch, once it leads."""
    return next((r.leader_epoch for r in held.replicas.table.all() if r.id == OTHER_ID and r.leads), None)


async def applied(held: Held) -> None:
    """The newest image, to all that it could be applied to."""
    revision = held.metadata.image.revision
    await held.replicas.until(lambda image: image.revision >= revision, timeout=20)


@pytest.mark.story("one-listener-keeps-the-others-uninformed", "unforeseen-failure-of-one-partition")
async def test_an_exception_of_one_partition_stops_no_other_and_is_tried_again(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = Log.assign_epoch, []

    def assign_epoch(log: Log, epoch: int) -> None:
        if epoch == 2:
            tries.append(log)
            assert len(tries) > 3, "nobody has foreseen it"
        real(log, epoch)

    told: list[tuple[PartitionId, int]] = []

    def fail_at_first(replica: Replica) -> None:
        if replica is not held.replica:
            told.append((replica.id, replica.leader_epoch))
            if len(told) == 1:
                raise ZeroDivisionError

    monkeypatch.setattr(Log, "assign_epoch", assign_epoch)
    monkeypatch.setattr(replicas, "_RETRY_S", 0.01)
    held.replicas.on_role_change(fail_at_first)
    held.metadata.become(LATER, LED)
    await applied(held)
    await until(lambda: other_leads_in(held) == 1)
    await until(lambda: len(told) >= 2)
    assert told[0] == told[1], "who follows whom is said again where a listener failed"
    await until(lambda: held.replica.leads)
    assert held.replica.leader_epoch == 2
    assert len(tries) == 4


@pytest.mark.story("failing-partition-fills-the-log")
async def test_a_partition_that_fails_is_tried_at_longer_and_longer_intervals_and_told_once(
    held: Held, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def fails(log: Log, epoch: int) -> None:
        tries.append(asyncio.get_running_loop)
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    monkeypatch.setattr(Log, "assign_epoch", fails)
    monkeypatch.setattr(replicas, "_RETRY_S", 0.001)
    monkeypatch.setattr(replicas, "_RETRY_MOST_S", 0.02)
    held.metadata.become(LATER)
    for revision in range(50):  # news that do not concern it
        held.metadata.become(LATER, replace(LED, leader_epoch=revision + 5, leader=2, isr=(2,)))
        await applied(held)
    await until(lambda: len(tries) >= 5)
    assert caplog.text.count("no room") == 1


@pytest.mark.story("failure-without-a-text-is-not-logged")
async def test_a_failure_without_a_text_is_logged_too(
    held: Held, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(log: Log, epoch: int) -> None:
        raise AssertionError

    monkeypatch.setattr(Log, "assign_epoch", fails)
    held.metadata.become(LATER)
    await applied(held)
    assert caplog.text.count("can't lead or follow") == 1


@pytest.mark.story("two-threads-in-one-log")
@pytest.mark.rule(4)
async def test_a_partition_that_waits_for_its_disk_holds_up_no_other_and_its_log_is_left_alone(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "_PATIENCE_S", 0.01)
    replica = held.replica
    gate, cutting = await being_cut(held, monkeypatch)
    for epoch in (3, 4, 5):
        held.metadata.become(replace(LED, leader_epoch=epoch, partition_epoch=epoch), replace(LED, leader_epoch=epoch))
        await applied(held)
        await until(lambda epoch=epoch: other_leads_in(held) == epoch)
        assert replica.log.epochs.entries == ((1, 0),)
    gate.open.set()
    await cutting
    await until(lambda: replica.leads and replica.leader_epoch == 5)
    assert replica.log.epochs.entries == ((5, 0),)


@pytest.mark.story("epoch-without-a-record-beats-longer-logs")
@pytest.mark.story("metadata-older-than-a-log-is-a-bug")
async def test_metadata_older_than_a_log_are_told_in_words_and_the_others_go_on(
    held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    held.replica.led_in(None).append(values_batch(b"a"))
    await held.replicas.stop()
    held.log_dir.logs[ID].assign_epoch(7)
    held.log_dir.create(OTHER_ID, "other", SMALL, now_ms=0)
    older: Any = Metadata(LATER)
    older.become(LATER, LED)
    held.replicas = Replicas(older, lambda: held.log_dir, ManualClock(), DiskThreads(), lambda error: None)
    await held.replicas.start()
    assert (held.replicas.table.find(OTHER_ID).leads, held.replica.leads) == (True, False)
    assert "has leader epoch 7, but the metadata has 2: the metadata is older than the log" in caplog.text
    assert await held.replicas.log_end(ID) == (1, 1, 7), "nothing was written in epoch 7"
    assert await held.replicas.log_end(OTHER_ID) is None, "it is being led"
    older.become(replace(LED, leader_epoch=8), LED)
    await until(lambda: held.replica.leads)


@pytest.mark.story("restored-store-is-not-noticed")
@pytest.mark.parametrize(
    ("then", "older"),
    [
        ({"seq": 9}, True),
        ({"seq": 10}, False),
        ({"seq": 12, "terms": (FIRST_TERM, Term("b", 8))}, True),
        ({"seq": 12, "terms": (FIRST_TERM, Term("b", 8)), "restored": Restored(1, seq=9)}, False),
    ],
    ids=["behind", "as far", "gone on from a backup", "gone on, and counted"],
)
async def test_metadata_without_decisions_that_this_broker_has_followed_are_older(
    held: Held, then: dict[str, Any], older: bool
) -> None:
    """The store's revision says nothing, because it has passed the one that the broker has followed."""
    held.metadata.image = replace(held.metadata.image, seq=10, terms=(FIRST_TERM,))
    await held.replicas._reconcile(held.metadata.image)
    held.log_dir.checkpoint({})
    await held.replicas.stop()
    held.log_dir.abandon()
    held.log_dir = LogDir.open(held.log_dir.disk.path, held.log_dir.identity, SMALL, now_ms=0)
    metadata: Any = Metadata(LED)
    metadata.image = replace(metadata.image, **{"revision": 100, "terms": (FIRST_TERM,), **then})
    found: list[int] = []
    held.replicas = Replicas(metadata, lambda: held.log_dir, ManualClock(), DiskThreads(), lambda error: None)
    held.replicas.on_older_metadata(found.append)
    await held.replicas.start()
    assert (100 in found) is older


@pytest.mark.story("start-forgets-how-far-it-has-followed")
async def test_a_start_that_ends_before_its_broker_has_registered_hides_nothing_that_it_found(held: Held) -> None:
    """The directory goes on to know what it has followed, until the registration says that the metadata are older."""
    held.metadata.image = replace(held.metadata.image, seq=10, terms=(FIRST_TERM,))
    await held.replicas._reconcile(held.metadata.image)
    for _ in range(2):
        held.log_dir.checkpoint({})
        await held.replicas.stop()
        held.log_dir.abandon()
        held.log_dir = LogDir.open(held.log_dir.disk.path, held.log_dir.identity, SMALL, now_ms=0)
        found: list[int] = []
        held.replicas = Replicas(
            Metadata(LED),  # type: ignore[arg-type]  # which has no decision
            lambda: held.log_dir,
            ManualClock(),
            DiskThreads(),
            lambda error: None,
            lambda: False,
        )
        held.replicas.on_older_metadata(found.append)
        await held.replicas.start()
        assert found == [1]


@pytest.mark.story("leads-by-metadata-that-is-too-old")
async def test_a_start_leads_nothing_by_metadata_that_a_broker_is_ahead_of(held: Held) -> None:
    """It may be this broker itself, which says so in its registration."""
    await held.replicas.stop()
    ahead = Broker(3, 9, "d", "localhost:3", ahead_of=1)
    image = image_of(LED, 1).with_changes([Change(("broker", 3), ahead)], 2)
    older: Any = Metadata(LED)
    older.replace(image)
    held.replicas = Replicas(older, lambda: held.log_dir, ManualClock(), DiskThreads(), lambda error: None)
    await held.replicas.start()
    assert not held.replica.leads
    counted = image.with_changes([Change(("restored",), Restored(1, mod_revision=9))], 9)
    settled = counted.with_changes([Change(("partition", ID), replace(LED, leader_epoch=1001, restored=1))], 10)
    older.replace(settled)
    await until(lambda: held.replica.leads)


async def test_what_changes_while_a_broker_starts_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(tmp_path / "data")
    gate = Gate(held.replicas._compare)
    monkeypatch.setattr(held.replicas, "_compare", gate)
    starting = asyncio.create_task(held.replicas.start())
    await until(gate.reached.is_set)
    moved = replace(LED, leader=2, leader_epoch=2, isr=(2,), partition_epoch=1)
    held.metadata.replace(held.metadata.image.with_changes([Change(("partition", ID), moved)], 2))
    gate.open.set()
    await starting
    await until(lambda: held.replica.leader_id == 2)
    await held.replicas.stop()
    held.log_dir.abandon()


async def test_a_change_of_one_partition_makes_one_be_looked_at(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a hundred: the work is that of the change."""
    many = {n: replace(LED, leader=2) for n in range(100)}
    topic = Topic("many", OTHER, len(many))
    created = held.metadata.image.with_changes(
        [Change(("partition", PartitionId(OTHER, n)), partition) for n, partition in many.items()]
        + [Change(("topic", "many"), topic)],
        2,
    )
    held.metadata.replace(created)
    await until(lambda: len(held.replicas.table.all()) == 101)
    await until(lambda: not (held.replicas._applying or held.replicas._due or held.replicas._look_again))
    await applied(held)
    looks: list[PartitionId] = []
    on_partition = Replica.on_partition

    def look(replica: Replica, partition: Partition) -> None:
        looks.append(replica.id)
        on_partition(replica, partition)

    monkeypatch.setattr(Replica, "on_partition", look)
    moved = PartitionId(OTHER, 7)
    held.metadata.replace(held.metadata.image.with_changes([Change(("partition", moved), many[7])], 3))
    await applied(held)
    assert looks == [moved]
    gone = [Change(("topic", "many"), None), *(Change(("partition", PartitionId(OTHER, n)), None) for n in many)]
    held.metadata.replace(held.metadata.image.with_changes(gone, 4))
    await until(lambda: len(held.replicas.table.all()) == 1)
    assert looks == [moved]


async def test_time_passes_for_those_leaders_alone_in_which_it_may_change_something(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticked: list[PartitionId] = []
    on_tick = Leading.on_tick

    def tick(leading: Leading) -> None:
        ticked.append(leading.id)
        on_tick(leading)

    monkeypatch.setattr(Leading, "on_tick", tick)
    monkeypatch.setattr(ticks, "_TICK_S", 0.01)
    alone = Partition(replicas=(1,), leader=1, leader_epoch=2, isr=(1,))
    held.metadata.become(LED, alone)
    await until(lambda: (other := held.replicas.table.get(OTHER_ID)) is not None and other.leads)
    idle, lagging = held.replicas.table.leading(OTHER_ID, None), held.replica.leading
    await until(lambda: held.replicas._ticks.ticking.keys() == {lagging})  # broker 2 is there, and has fetched nothing
    ticked.clear()
    await until(lambda: len(ticked) >= 3)
    assert set(ticked) == {ID}
    with held.replicas.table.deletions.delayed([OTHER_ID]):
        await until(lambda: OTHER_ID in ticked)
    await until(lambda: held.replicas._ticks.ticking.keys() == {lagging})
    gone = [Change(("broker", 2), None)]
    held.metadata.replace(held.metadata.image.with_changes(gone, 9))
    await until(lambda: not held.replicas._ticks.ticking)
    idle.append(values_batch(b"a"))
    await until(lambda: not held.replicas._ticks.ticking)


@pytest.mark.story("follows-by-metadata-that-is-too-old")
async def test_while_a_broker_is_ahead_of_the_metadata_nobody_is_led_or_followed(held: Held) -> None:
    held.metadata.become(LED, replace(LED, leader=2))
    await until(lambda: (other := held.replicas.table.get(OTHER_ID)) is not None and other.leader_id == 2)
    assert held.replica.leads
    image = held.metadata.image
    ahead = image.with_changes(
        [Change(("broker", 3), Broker(3, 9, "d", "localhost:3", ahead_of=1))], image.revision + 1
    )
    held.metadata.replace(ahead)
    await applied(held)
    assert (held.replica.leads, held.replicas.table.find(OTHER_ID).leader_id) == (False, None)
    settled = [Change(("partition", ID), replace(LED, leader_epoch=1001, restored=1))]
    counted = ahead.with_changes([Change(("restored",), Restored(1, mod_revision=9)), *settled], 9)
    held.metadata.replace(counted)
    await until(lambda: held.replica.leads)
    assert held.replicas.table.find(OTHER_ID).leader_id is None, "the controller has not settled it yet"


async def test_time_is_looked_at_where_a_topic_has_a_flush_ms_and_nowhere_else(held: Held) -> None:
    def with_configs(**configs: str) -> ClusterImage:
        image = image_of(LED, held.metadata.image.revision + 1)
        return replace(image, topics={"t": replace(image.topics["t"], configs=configs)})

    assert not held.replicas.table.flushed_by_time
    held.metadata.replace(with_configs(**{"flush.ms": "1000"}))
    await until(lambda: held.replicas.table.flushed_by_time.keys() == {held.replica})
    held.metadata.replace(with_configs(**{"flush.ms": str(2**63 - 1)}))
    await until(lambda: not held.replicas.table.flushed_by_time)
    held.metadata.replace(with_configs(**{"flush.ms": "1000"}))
    await until(lambda: bool(held.replicas.table.flushed_by_time))
    held.metadata.become(replace(LED, replicas=(2,), leader=2, leader_epoch=2, isr=(2,)))
    await until(lambda: not held.replicas.table.flushed_by_time)


@pytest.mark.story("full-disk-serves-no-readers")
async def test_where_the_disk_takes_no_more_a_partition_is_led_for_its_readers(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = held.replica
    replica.led_in(None).append(values_batch(b"a"))

    def no_room(*_: object) -> None:
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room, not even what was kept")

    held.log_dir.disk.full = "No space left on device"
    monkeypatch.setattr(checkpoint, "write_epochs", no_room)
    held.metadata.become(LATER)
    await until(lambda: replica.leads and replica.leader_epoch == 2)
    assert replica.offsets.high_watermark == 1
    assert len(await replica.disk.read(0, 1 << 20, LogEndOffset(1), min_one_batch=True)) == len(values_batch(b"a"))
    with pytest.raises(OttlaError) as refused:
        replica.led_in(None).append(values_batch(b"b"))
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    held.log_dir.disk.full = ""
    assert replica.led_in(None).append(values_batch(b"b")).base_offset == 1
    assert replica.log.epochs.entries == ((1, 0), (2, 1))


@pytest.mark.story("everything-waits-for-a-deletion")
async def test_a_deletion_is_waited_for_by_nobody(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    held.replica.led_in(None).append(values_batch(b"a"))
    directory = held.replica.log.directory
    gate = Gate(held.log_dir.delete)
    monkeypatch.setattr(held.log_dir, "delete", gate)
    held.metadata.become(replace(LED, replicas=(2,), leader=2, leader_epoch=2, isr=(2,)))
    await until(gate.reached.is_set)
    assert not held.replicas.table.all()
    held.metadata.become(replace(LED, replicas=(2,), leader=2, leader_epoch=2, isr=(2,)), LED)
    await applied(held)
    await until(lambda: other_leads_in(held))
    held.replicas.table.leading(OTHER_ID, None).append(values_batch(b"led and written meanwhile"))
    held.metadata.become(replace(LED, leader_epoch=3, isr=(1,)), LED)  # and back, against all odds
    await asyncio.sleep(0)
    assert Path(directory).exists()
    gate.open.set()
    await until(lambda: {r.id for r in held.replicas.table.all() if r.leads} == {ID, OTHER_ID})
    assert held.replica.log.log_end_offset == 0, "another log, of the same name"


async def test_a_stop_waits_for_deletions_within_a_bound(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removals, "_STOP_S", 0.01)
    gate = Gate(held.log_dir.delete)
    monkeypatch.setattr(held.log_dir, "delete", gate)
    held.metadata.become(replace(LED, replicas=(2,), leader=2, leader_epoch=2, isr=(2,)))
    await until(gate.reached.is_set)
    await held.replicas.stop()
    gate.open.set()
