"""A log that was emptied keeps its last epoch. A follower whose log can't be compared with its leader's begins anew.

Retention, DeleteRecords and truncations empty logs. What is left, an offset and an epoch, decides about elections and
about who is in sync.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from batches import NOON
from images import after
from logs import SMALL, fill, open_log, records_of
from partitions import P0, image_with, partition
from produced import produced
from replicas import Brokers

from ottla_broker.machines.epochs import NO_EPOCH
from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.log import Log
from ottla_controller.machines.recovery import LogEnd, LogsReport, decide_recover
from ottla_core.cluster.image import Partition
from ottla_core.errors import OttlaError
from ottla_core.model import NO_LEADER
from ottla_core.records.leader_epochs import EpochStart

WEEK_MS = 8 * 24 * 3600 * 1000
BOTH = Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1, 2))


@pytest.fixture
def brokers(tmp_path: Path) -> Brokers:
    brokers = Brokers(tmp_path, ids=(1, 2))
    brokers.apply(BOTH)
    return brokers


def emptied_by_retention(log: Log) -> None:
    """Apply retention as the maintenance of a broker does."""
    log.delete_old_segments(HighWatermark(log.log_end_offset), NOON + WEEK_MS)
    secure_and_tidy(log, NOON + WEEK_MS)


def emptied_by_delete_records(log: Log) -> None:
    log.delete_records_before(log.log_end_offset, HighWatermark(log.log_end_offset))
    secure_and_tidy(log, NOON)


def secure_and_tidy(log: Log, now_ms: int) -> None:
    try:
        if log.unsecured_until:
            log.secure_deletion()
    finally:
        log.delete_old_segments(HighWatermark(log.log_end_offset), now_ms)


def write(replica: Replica, batches: int) -> None:
    """Append batches of three records each to the leader."""
    for _ in range(batches):
        start = replica.log.log_end_offset
        fill(replica.log, 1, leader_epoch=replica.leader_epoch)
        replica.led_in(None).leader.on_appended(replica.log.log_end_offset, 0.0)
        assert replica.log.log_end_offset == start + 3


async def values(replica: Replica) -> list[bytes | None]:
    log = replica.log
    data = await replica.disk.read(log.log_start_offset, 1 << 20, log.log_end_offset, min_one_batch=True)
    return [value for _, value in records_of(data)]


# ---- what is left on disk --------------------------------------------------------------------------------------------


@pytest.mark.story("emptied-log-has-no-epoch")
@pytest.mark.rule(4)
@pytest.mark.parametrize("empty", [emptied_by_retention, emptied_by_delete_records])
@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize("stopped", ["in order", "killed", "killed twice"])
def test_an_emptied_log_keeps_its_last_epoch(
    tmp_path: Path, empty: Callable[[Log], None], flushed: bool, stopped: str
) -> None:
    log = open_log(tmp_path / "log")
    fill(log, 10, leader_epoch=3)
    fill(log, 10, leader_epoch=5)
    if flushed:
        log.flush(NOON)
    empty(log)
    assert (log.log_start_offset, log.log_end_offset) == (60, 60)
    assert log.epochs.entries == ((5, 60),)
    if stopped == "in order":
        log.close(NOON)
    for _ in range(2 if stopped == "killed twice" else 1):
        log = open_log(
            tmp_path / "log", clean=stopped == "in order", recovery_point=log.recovery_point, log_start_offset=60
        )
    assert (log.log_start_offset, log.log_end_offset) == (60, 60)
    assert log.epochs.entries == ((5, 60),)
    fill(log, 1, leader_epoch=5)
    assert log.epochs.entries == ((5, 60),)


@pytest.mark.story("start-taken-back-lost-its-epochs")
@pytest.mark.rule(2, 4)
@pytest.mark.parametrize("stopped", ["killed", "killed twice"])
def test_an_emptied_log_whose_start_a_kill_takes_back_knows_the_epochs_of_its_batches(
    tmp_path: Path, stopped: str
) -> None:
    """The epochs on disk begin at the new log start, and its checkpoint is not written yet.

    After the kill, the batches that are left before it can be read again.
    """
    log = open_log(tmp_path / "log")
    fill(log, 10, leader_epoch=2)
    fill(log, 10, leader_epoch=3)
    log.delete_records_before(60, HighWatermark(60))
    log.secure_deletion()
    assert log.epochs.entries == ((3, 60),)
    for _ in range(2 if stopped == "killed twice" else 1):
        log = open_log(tmp_path / "log", log_start_offset=0)
        assert (log.log_start_offset, log.log_end_offset) == (0, 60)
        assert log.epochs.entries == ((2, 0), (3, 30))
    fill(log, 1, leader_epoch=4)
    assert log.epochs.entries == ((2, 0), (3, 30), (4, 60))


def test_a_log_that_never_had_anything_has_no_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.assign_epoch(4)
    log.close(NOON)
    assert open_log(tmp_path / "log", clean=True).epochs.entries == ()


@pytest.mark.rule(4)
def test_what_was_written_in_an_epoch_is_known_before_its_only_segments_go(tmp_path: Path) -> None:
    """No flush has written the epochs yet: the last segment that tells them stays until they are on disk."""
    log = open_log(tmp_path / "log")
    fill(log, 10, leader_epoch=2)
    fill(log, 10, leader_epoch=3)
    log.delete_records_before(45, HighWatermark(60))
    assert log.segments[0].base_offset < 30
    assert open_log(tmp_path / "log", log_start_offset=45).epochs.entries == ((3, 45),)
    log.secure_deletion()
    log.delete_old_segments(HighWatermark(60), NOON)
    assert log.segments[0].base_offset > 30
    assert open_log(tmp_path / "log", log_start_offset=45).epochs.entries == ((3, 45),)


@pytest.mark.story("deletion-waits-for-the-disk")
@pytest.mark.parametrize("empty", [emptied_by_retention, emptied_by_delete_records])
def test_a_full_disk_keeps_one_segment_and_frees_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: Callable[[Log], None]
) -> None:
    """There is no room for a file of epochs, and space must come from somewhere."""

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    log = open_log(tmp_path / "log")
    fill(log, 60, leader_epoch=3)
    assert len(log.segments) > 3
    with monkeypatch.context() as full:
        full.setattr(log._disk, "_write_anew", no_room)
        with pytest.raises(OttlaError, match="no space left"):
            empty(log)
    assert len(log.segments) == 2
    empty(log)
    assert len(log.segments) == 1
    assert log.epochs.entries == ((3, 180),)


@pytest.mark.story("deletion-waits-for-the-disk")
@pytest.mark.parametrize("empty", [Log.delete_old_segments, Log.delete_records_before])
def test_what_deletes_segments_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: Callable[[Log, int, int], object]
) -> None:
    """Retention and DeleteRecords run on the event loop."""

    def too_slow(*_: object) -> None:
        raise AssertionError("the event loop waits for the disk")

    log = open_log(tmp_path / "log")
    fill(log, 60, leader_epoch=3)
    log.flush(NOON)
    monkeypatch.setattr(os, "fsync", too_slow)
    monkeypatch.setattr(os, "fdatasync", too_slow)
    empty(log, 180, 180 if empty is Log.delete_records_before else NOON + WEEK_MS)
    assert len(log.segments) <= 2


@pytest.mark.story("emptied-log-has-no-epoch")
def test_the_emptied_log_of_the_last_leader_is_elected_before_a_shorter_one(tmp_path: Path) -> None:
    """All who were in sync went down, and the logs decide (unclean.recovery.strategy=balanced)."""
    log = open_log(tmp_path / "log")
    fill(log, 20, leader_epoch=5)
    emptied_by_retention(log)
    log.close(NOON)
    log = open_log(tmp_path / "log", clean=True)
    ends = {0: LogEnd(log.epochs.latest, log.log_end_offset), 1: LogEnd(5, 57)}
    lost = replace(partition(0, 1, leader=NO_LEADER, isr=()), last_known_elr=(0, 1))
    lost = replace(lost, directories={0: "directory-0", 1: "directory-1"})
    image = image_with(2, lost, configs={"min.insync.replicas": "1"})
    reports = {n: LogsReport(image.brokers[n].epoch, {P0: end}) for n, end in ends.items()}
    assert after(image, decide_recover(image, [P0], reports)).partitions[P0].leader == 0


# ---- a follower and its leader ---------------------------------------------------------------------------------------


async def emptied_leader_comes_back(brokers: Brokers) -> None:
    """Broker 1 writes alone, deletes all of it and goes. Broker 2, without the end, leads by an unclean election."""
    write(brokers.replicas[1], 10)
    await brokers.fetch(2, 1)
    await brokers.fetch(2, 1)
    write(brokers.replicas[1], 10)
    former = brokers.replicas[1].log
    emptied_by_delete_records(former)
    former.close(NOON)
    brokers.open(1, high_watermark=60, log_start_offset=60, clean=True)
    unclean = replace(BOTH, leader=2, leader_epoch=2, isr=(2,), partition_epoch=1)
    brokers.apply(unclean, 2, 1)


@pytest.mark.story("emptied-follower-joins-the-isr")
@pytest.mark.rule(2, 11)
async def test_an_emptied_follower_that_ends_beyond_its_leader_copies_all_of_it(brokers: Brokers) -> None:
    await emptied_leader_comes_back(brokers)
    leader, follower = brokers.replicas[2], brokers.replicas[1]
    assert (leader.log.log_end_offset, follower.log.log_start_offset, follower.log.log_end_offset) == (30, 60, 60)
    for _ in range(10):
        write(leader, 2)  # it passes the offset at which the follower has nothing
        await brokers.fetch(1, 2)
    assert await values(follower) == await values(leader)
    assert follower.log.log_start_offset == 0
    assert follower.log.epochs.entries == leader.log.epochs.entries


@pytest.mark.story("emptied-follower-joins-the-isr")
@pytest.mark.rule(11)
async def test_a_follower_without_an_epoch_never_counts_for_what_it_does_not_have(brokers: Brokers) -> None:
    """Another release has left the log at an offset that the leader will reach, and without an epoch."""
    await emptied_leader_comes_back(brokers)
    leader, follower = brokers.replicas[2], brokers.replicas[1]
    follower.log.truncate_fully_and_start_at(60)
    assert follower.log.epochs.latest == NO_EPOCH
    write(leader, 10)
    assert leader.log.log_end_offset == follower.log.log_end_offset == 60
    await brokers.fetch(1, 2)
    assert leader.led_in(None).proposal is None, "it has not reached the high watermark in a log that is the leader's"
    assert follower.log.log_end_offset == 0
    for _ in range(5):
        await brokers.fetch(1, 2)
    assert await values(follower) == await values(leader)
    assert leader.led_in(None).proposal is not None


@pytest.mark.rule(2)
async def test_a_follower_below_its_emptied_leader_takes_the_leaders_epoch_not_its_own(brokers: Brokers) -> None:
    write(brokers.replicas[1], 4)
    await brokers.fetch(2, 1)
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    write(leader, 4)
    leader.log.delete_records_before(24, HighWatermark(24))
    follower.log.truncate_to(6)
    fill(follower.log, 1, leader_epoch=1)
    follower.log.assign_epoch(9)
    brokers.apply(replace(BOTH, leader_epoch=10, partition_epoch=1))
    assert leader.log.epochs.entries == ((10, 24),)
    for _ in range(3):
        await brokers.fetch(2, 1)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (24, 24)
    assert follower.log.epochs.entries == ((10, 24),)
    again = open_log(brokers.directory / "2", SMALL, log_start_offset=24)
    assert again.epochs.entries == ((10, 24),)
    write(leader, 1)
    await brokers.fetch(2, 1)
    assert await values(follower) == await values(leader)


@pytest.mark.story("follower-before-its-leaders-start-never-came-back")
@pytest.mark.rule(2)
@pytest.mark.parametrize("epoch", [0, 1])
async def test_a_follower_whose_records_are_all_deleted_begins_again_at_the_leaders_start(
    tmp_path: Path, epoch: int
) -> None:
    """It was away while the leader deleted them, and comes back in the leader epoch in which it left, which may be the
    first of all."""
    brokers = Brokers(tmp_path, ids=(1, 2))
    brokers.apply(replace(BOTH, leader_epoch=epoch))
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    write(leader, 2)
    for _ in range(3):
        await brokers.fetch(2, 1)
    assert follower.offsets.high_watermark == 6
    write(leader, 4)
    leader.log.delete_records_before(12, HighWatermark(12))
    assert (follower.log.log_end_offset, leader.log.epochs.entries) == (6, ((epoch, 12),))
    for _ in range(3):
        await brokers.fetch(2, 1)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (12, 18)
    assert await values(follower) == await values(leader)


@pytest.mark.rule(2)
async def test_an_emptied_replica_that_led_and_wrote_nothing_follows_with_what_its_leader_knows(
    brokers: Brokers,
) -> None:
    """Its new leader has never heard of the epoch in which it led."""
    write(brokers.replicas[1], 4)
    await brokers.fetch(2, 1)
    await brokers.fetch(2, 1)
    former, leader = brokers.replicas[1], brokers.replicas[2]
    emptied_by_retention(former.log)
    brokers.apply(replace(BOTH, leader_epoch=2, partition_epoch=1), 1)
    assert former.log.epochs.entries == ((2, 12),)
    brokers.apply(replace(BOTH, leader=2, leader_epoch=3, partition_epoch=2))
    await brokers.fetch(1, 2)
    assert former.log.epochs.entries == ((1, 12),)
    write(leader, 1)
    await brokers.fetch(1, 2)
    assert former.log.epochs.latest == 3
    assert (former.log.log_start_offset, former.log.log_end_offset) == (12, 15)


@pytest.mark.story("emptied-follower-took-an-epoch-of-another-offset")
@pytest.mark.rule(2, 3)
async def test_an_emptied_follower_takes_no_epoch_that_its_leader_began_elsewhere(brokers: Brokers) -> None:
    """It was away for two epochs, and then led without what was written in them (two unclean elections)."""
    write(brokers.replicas[1], 4)
    await brokers.fetch(2, 1)
    await brokers.fetch(2, 1)
    follower, leader = brokers.replicas[2], brokers.replicas[1]
    write(leader, 1)
    brokers.apply(replace(BOTH, leader_epoch=3, isr=(1,), partition_epoch=1), 1)
    write(leader, 1)
    brokers.apply(replace(BOTH, leader=2, leader_epoch=9, isr=(2,), partition_epoch=2), 2)
    write(follower, 1)
    emptied_by_delete_records(follower.log)
    assert (follower.log.log_start_offset, follower.log.epochs.entries) == (15, ((9, 15),))
    leader.log.truncate_to(12)
    fill(leader.log, 2, leader_epoch=1)
    fill(leader.log, 1, leader_epoch=3)
    brokers.apply(replace(BOTH, leader_epoch=10, isr=(1,), partition_epoch=3))
    write(leader, 1)
    assert [epoch for epoch, _ in leader.log.epochs.entries] == [1, 3, 10]
    for _ in range(10):
        await brokers.fetch(2, 1)
    assert follower.log.log_end_offset == leader.log.log_end_offset
    assert await values(follower) == (await values(leader))[-len(await values(follower)) :]


@pytest.mark.rule(2)
async def test_a_log_that_begins_behind_what_is_left_of_it_begins_anew_where_its_leader_does(brokers: Brokers) -> None:
    write(brokers.replicas[1], 10)
    await brokers.fetch(2, 1)
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    follower.log.delete_records_before(20, HighWatermark(30))
    await brokers.following(2).on_diverging(EpochStart(1, 15), 0)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (0, 0)
    await brokers.fetch(2, 1)
    assert await values(follower) == await values(leader)


# ---- a follower that truncates all of its records --------------------------------------------------------------------


async def emptied_on_both(brokers: Brokers) -> bytes:
    """Return the last batch of a producer. Both logs had it as their last one, and retention has taken all records."""
    last = produced(0, 3, producer_id=7)
    brokers.leading(1).append(last)
    for _ in range(3):
        await brokers.fetch(2, 1)
    for replica in brokers.replicas.values():
        emptied_by_retention(replica.log)
        assert (replica.log.log_start_offset, replica.log.log_end_offset) == (3, 3)
    return last


@pytest.mark.story("truncated-to-its-start-forgot-producers")
@pytest.mark.rule(25, 29)
@pytest.mark.parametrize("epoch", [1, 2])
async def test_a_follower_that_truncates_all_its_records_knows_the_producers_of_the_deleted_ones(
    brokers: Brokers, epoch: int
) -> None:
    """It has led in its last epoch, and nobody copied what it wrote. Its new leader has the older records only."""
    last = await emptied_on_both(brokers)
    brokers.apply(replace(BOTH, leader_epoch=epoch, partition_epoch=epoch), 1)
    write(brokers.replicas[1], 2)
    brokers.apply(replace(BOTH, leader=2, leader_epoch=3, partition_epoch=3))
    follower = brokers.replicas[1].log
    for _ in range(4):
        await brokers.fetch(1, 2)
    assert (follower.log_start_offset, follower.log_end_offset) == (3, 3)
    write(brokers.replicas[2], 1)
    await brokers.fetch(1, 2)
    assert await values(brokers.replicas[1]) == await values(brokers.replicas[2])
    brokers.apply(replace(BOTH, leader_epoch=4, partition_epoch=4))
    assert brokers.leading(1).append(last).duplicate


@pytest.mark.story("truncated-to-its-start-forgot-producers")
@pytest.mark.rule(2, 3, 25)
async def test_a_follower_of_a_longer_log_of_an_older_epoch_takes_that_epoch_at_its_start(brokers: Brokers) -> None:
    """Broker 2 has written in epoch 1 what broker 1 never copied, and leads again after broker 1 has led."""
    last = await emptied_on_both(brokers)
    brokers.apply(replace(BOTH, leader_epoch=2, partition_epoch=2), 1)
    write(brokers.replicas[1], 1)
    fill(brokers.replicas[2].log, 4, leader_epoch=1)
    brokers.apply(replace(BOTH, leader=2, leader_epoch=3, partition_epoch=3))
    assert brokers.replicas[2].log.epochs.entries == ((1, 3), (3, 15))
    for _ in range(4):
        await brokers.fetch(1, 2)
    assert await values(brokers.replicas[1]) == await values(brokers.replicas[2])
    assert brokers.replicas[1].log.epochs.entries == ((1, 3),)
    brokers.apply(replace(BOTH, leader_epoch=4, partition_epoch=4))
    assert brokers.leading(1).append(last).duplicate
