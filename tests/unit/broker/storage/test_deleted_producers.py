"""A log knows the producers of its deleted segments, whatever ends its process or the log (rules 25 and 29).

The tests run over the operating system's files and over simulated ones, whose power can be cut.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath

import pytest
from batches import NOON
from logs import SMALL, fill
from produced import known, produced
from tests.world.disk import Disks, Volume
from tests.world.fibers import World
from transactional_logs import end_of, end_transaction

from ottla_broker.machines.offsets import HighWatermark, RecoveryPoint
from ottla_broker.storage import checkpoint, files, producer_snapshot
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import MAX_INT64
from ottla_broker.storage.segment import Segment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import HEADER_SIZE

CONFIG = replace(SMALL, producer_expiration_ms=MAX_INT64)
"""Producers do not expire: the files of the world are written at a time of its own."""

FIRST, SECOND = 1, 2
"""Producers that write only at the beginning of the log."""
THIRD = 3

MAGIC_AT = 16
"""Where a batch has its magic."""


class Broker:
    """One log of a broker. All that it knows of its producers is in memory until a test has it written."""

    def __init__(self, directory: PurePath) -> None:
        self.directory = directory
        files.make_directory(directory)
        self.disk = Disk(directory.parent)
        self.log = self._opened()

    def _opened(self, recovery_point: int = 0, start: int = 0) -> Log:
        return Log.open(
            self.directory,
            self.disk,
            CONFIG,
            now_ms=NOON,
            recovery_point=RecoveryPoint(recovery_point),
            log_start_offset=start,
        )

    def kill(self, *, recovery_point: int = 0, start: int = 0) -> None:
        """End the process, and start another one on the same files. The checkpoints may be old."""
        self.log.abandon()
        self.disk = Disk(self.directory.parent)
        self.log = self._opened(recovery_point, start)

    def put(self, producer_id: int, sequence: int) -> bool:
        """Append one record. Return whether it was new."""
        return not self.log.append(produced(sequence, producer_id=producer_id), 1, NOON).duplicate

    def roll(self, *, leader_epoch: int = 1) -> int:
        """Fill the active segment, and return where the next one begins."""
        count = len(self.log.segments)
        while len(self.log.segments) == count:
            fill(self.log, 1, leader_epoch=leader_epoch)
        return self.log.segments[-1].base_offset

    def delete_before(self, offset: int) -> None:
        self.log.delete_records_before(offset, HighWatermark(self.log.log_end_offset))

    def tidy(self) -> None:
        """Do what maintenance does in its turns."""
        self.log.delete_old_segments(HighWatermark(self.log.log_end_offset), NOON)
        if self.log.unsecured_until:
            self.log.secure_deletion()
            self.log.delete_old_segments(HighWatermark(self.log.log_end_offset), NOON)

    @property
    def first_offset(self) -> int:
        return self.log.segments[0].base_offset

    @property
    def snapshots(self) -> list[int]:
        return producer_snapshot.offsets_in(files.names_in(self.directory))


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


def simulated_files(monkeypatch: pytest.MonkeyPatch, seed: int = 1) -> tuple[World, Volume]:
    world = World(seed)
    disks, volume = Disks(world), Volume("data")
    disks.volumes["host"] = volume
    for name in vars(Disks):
        if not name.startswith("_") and hasattr(files, name):
            monkeypatch.setattr(files, name, getattr(disks, name))
    return world, volume


@pytest.fixture(params=["real", "simulated"])
def broker(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:
    if request.param == "real":
        return Broker(tmp_path / "log")
    simulated_files(monkeypatch)
    return Broker(PurePosixPath("/host/data/log"))


@contextmanager
def failing(broker: Broker, number: int, suffix: str = producer_snapshot.SUFFIX) -> Iterator[list[PurePath]]:
    """Fail to write the files whose names end so."""
    real, tried = broker.disk._write_anew, list[PurePath]()

    def write_anew(path: PurePath, content: str | bytes) -> None:
        if path.name.endswith(suffix):
            tried.append(path)
            raise OSError(number, os.strerror(number))
        real(path, content)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(broker.disk, "_write_anew", write_anew)
        yield tried


@pytest.mark.story("deleted-segments-forgot-their-producers")
@pytest.mark.rule(25, 29)
@pytest.mark.parametrize("times", [1, 2])
def test_segments_stay_until_a_start_knows_their_producers_without_them(broker: Broker, times: int) -> None:
    broker.put(FIRST, 0)
    broker.put(FIRST, 1)
    begin = broker.roll()
    fill(broker.log, 1)
    broker.delete_before(begin)
    assert (broker.log.log_start_offset, broker.first_offset, broker.log.unsecured_until) == (begin, 0, begin)
    broker.tidy()
    assert (broker.first_offset, broker.log.unsecured_until) == (begin, 0)
    for _ in range(times):
        broker.kill()
    assert not broker.put(FIRST, 1), "it is a repeat"
    assert broker.put(FIRST, 2)


@pytest.mark.story("deleted-segments-forgot-their-producers")
@pytest.mark.rule(25, 29)
@pytest.mark.parametrize("reaches_second", [True, False])
def test_segments_may_go_after_a_kill_that_lost_all_snapshots(broker: Broker, reaches_second: bool) -> None:
    """No flush has written what the rolls have left, and the second process dies before any flush, too."""
    broker.put(FIRST, 0)
    first_end = broker.roll()
    broker.put(SECOND, 0)
    second_end = broker.roll()
    broker.put(THIRD, 0)
    broker.roll()
    broker.kill()
    assert broker.snapshots == []
    broker.delete_before(second_end if reaches_second else first_end)
    broker.tidy()
    assert broker.first_offset == (second_end if reaches_second else first_end)
    assert broker.snapshots == [broker.first_offset]
    broker.kill(recovery_point=broker.first_offset)
    assert [broker.put(each, 1) for each in (FIRST, SECOND, THIRD)] == [True, True, True]


@pytest.mark.rule(29)
def test_the_snapshot_of_a_deletion_has_what_the_log_had_there_and_no_more(broker: Broker) -> None:
    broker.put(FIRST, 0)
    begin = broker.roll()
    at_begin = known(broker.log.producers)
    broker.put(FIRST, 1)
    broker.put(SECOND, 0)
    broker.roll()
    broker.kill()
    broker.delete_before(begin)
    broker.tidy()
    path = producer_snapshot.path_of(broker.directory, begin)
    kept = type(broker.log.producers)(producer_snapshot.decode(files.read_bytes(path)).producers)
    assert known(kept) == at_begin


@pytest.mark.rule(25, 29)
def test_a_truncation_forgets_no_producer_of_deleted_segments(broker: Broker) -> None:
    """The newest snapshot goes with the batches that it knew. The one at the log's start stays."""
    broker.put(FIRST, 0)
    begin = broker.roll()
    broker.put(SECOND, 0)
    end = int(broker.log.log_end_offset)
    broker.roll()
    broker.log.flush(NOON)
    broker.delete_before(begin)
    broker.tidy()
    assert begin < end < broker.snapshots[-1]
    broker.log.truncate_to(end)
    assert broker.snapshots == [begin]
    for _ in range(2):
        assert [not broker.put(each, 0) for each in (FIRST, SECOND)] == [True, True]
        broker.kill()
    broker.log.truncate_to(begin + 1)
    assert broker.put(FIRST, 1)


@pytest.mark.story("truncated-to-its-start-forgot-producers")
@pytest.mark.rule(25, 29)
@pytest.mark.parametrize("begins_a_segment", [True, False])
def test_a_truncation_to_the_logs_start_forgets_no_producer_of_before(broker: Broker, begins_a_segment: bool) -> None:
    """All records that are left go. What the deleted ones said of their producers was committed."""
    broker.put(FIRST, 0)
    begin = broker.roll()
    if not begins_a_segment:
        broker.put(SECOND, 0)
        begin = int(broker.log.log_end_offset)
    broker.delete_before(begin)
    broker.tidy()
    broker.put(THIRD, 0)
    assert broker.log.truncate_to(begin) == begin == broker.log.log_start_offset
    assert broker.log.epochs.entries == ((1, begin),)
    for _ in range(2):
        assert known(broker.log.producers).keys() == ({FIRST} if begins_a_segment else {FIRST, SECOND})
        assert not broker.put(FIRST, 0)
        broker.kill(start=begin)
        assert (broker.log.log_start_offset, broker.log.log_end_offset) == (begin, begin)
        assert broker.log.epochs.entries == ((1, begin),)
    assert broker.put(THIRD, 0)


@pytest.mark.rule(29)
def test_no_snapshot_is_made_of_segments_that_a_truncation_has_taken(broker: Broker) -> None:
    broker.put(FIRST, 0)
    broker.roll()
    broker.put(FIRST, 1)
    begin = broker.roll()
    broker.put(FIRST, 2)
    broker.log.config = replace(CONFIG, retention_bytes=broker.log.segments[-1].size_bytes)
    broker.log.delete_old_segments(HighWatermark(broker.log.log_end_offset), NOON)
    assert (broker.log.log_start_offset, broker.log.unsecured_until) == (0, begin)
    broker.log.truncate_to(begin - 1)
    broker.log.secure_deletion()
    assert broker.snapshots == []
    broker.put(FIRST, 2)
    fill(broker.log, 20)
    broker.kill()
    assert not broker.put(FIRST, 2)


@pytest.mark.rule(29)
def test_a_log_that_begins_anew_has_no_producers_of_before(broker: Broker) -> None:
    broker.put(FIRST, 0)
    begin = broker.roll()
    broker.delete_before(begin)
    broker.tidy()
    broker.log.truncate_fully_and_start_at(begin + 500)
    assert broker.snapshots == []
    broker.kill(start=begin + 500)
    assert known(broker.log.producers) == {}


def test_segments_without_producers_go_at_once(broker: Broker) -> None:
    broker.roll()
    begin = broker.roll()
    fill(broker.log, 1)
    broker.log.flush(NOON)
    broker.roll()
    broker.delete_before(begin)
    assert (broker.first_offset, broker.log.unsecured_until) == (begin, 0)


def test_segments_whose_snapshot_a_flush_has_written_go_at_once(broker: Broker) -> None:
    broker.put(FIRST, 0)
    begin = broker.roll()
    broker.log.flush(NOON)
    broker.roll()
    broker.delete_before(begin)
    assert (broker.first_offset, broker.log.unsecured_until) == (begin, 0)


@pytest.mark.rule(29)
@pytest.mark.parametrize("content", [b"", b"\0\1of Kafka's version"])
def test_a_snapshot_that_no_start_can_use_lets_no_segment_go(broker: Broker, content: bytes) -> None:
    broker.put(FIRST, 0)
    begin = broker.roll()
    fill(broker.log, 1)
    broker.log.flush(NOON)
    broker.log.close(NOON)
    broker.disk.replace_file(producer_snapshot.path_of(broker.directory, begin), content)
    broker.kill()
    broker.delete_before(begin)
    broker.tidy()
    assert broker.first_offset == begin
    broker.kill()
    assert broker.put(FIRST, 1)


@pytest.mark.rule(25, 29)
def test_a_log_that_lost_batches_before_its_start_lets_unknown_producers_go_on(broker: Broker) -> None:
    """The records were deleted, and a power cut has taken their batches. What is known from before would be stale."""
    broker.put(FIRST, 0)
    begin = broker.roll()
    broker.log.flush(NOON)
    broker.put(FIRST, 1)
    start = int(broker.log.log_end_offset)
    broker.log.abandon()
    file = files.open_file(broker.directory / f"{begin:020d}.log", write=True)
    file.truncate(0)
    broker.kill(start=start)
    assert broker.log.log_start_offset == broker.log.log_end_offset == start
    assert broker.put(FIRST, 2)


@pytest.mark.rule(25, 29)
def test_a_kill_amid_a_deletion_loses_no_producer(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log then begins where no snapshot was taken."""
    broker.put(FIRST, 0)
    broker.roll()
    broker.put(SECOND, 0)
    broker.roll()
    begin = broker.roll()
    broker.put(THIRD, 0)
    broker.log.unsecured_until = begin
    broker.log.secure_deletion()
    gone, discard = list[Segment](), Segment.discard

    class KilledError(Exception):
        pass

    def discard_one(segment: Segment) -> None:
        if gone:
            raise KilledError
        gone.append(segment)
        discard(segment)

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "discard", discard_one)
        with pytest.raises(KilledError):
            broker.delete_before(begin)
    broker.kill()
    assert 0 < broker.first_offset < begin
    assert [broker.put(each, 1) for each in (FIRST, SECOND, THIRD)] == [True, True, True]


# ---- full disks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_gets_room_even_if_it_has_none_for_a_snapshot(broker: Broker, number: int) -> None:
    broker.put(FIRST, 0)
    broker.roll()
    begin = broker.roll()
    fill(broker.log, 1)
    end = broker.roll()
    broker.delete_before(begin)
    with failing(broker, number) as tried:
        with pytest.raises(OttlaError, match="snapshot failed") as caught:
            broker.tidy()
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        broker.tidy()
        assert (broker.first_offset, broker.log.unsecured_until) == (begin, 0)
    assert tried
    broker.delete_before(end)
    assert broker.log.unsecured_until == end, "the next segments wait again"
    broker.tidy()
    assert (broker.first_offset, broker.snapshots) == (end, [end])


def test_a_full_disk_keeps_the_last_sealed_segment_alone(broker: Broker) -> None:
    """There is room for the producers, but not for the epochs."""
    broker.put(FIRST, 0)
    broker.roll()
    broker.roll()
    end = broker.roll()
    broker.delete_before(int(broker.log.log_end_offset))
    with failing(broker, errno.ENOSPC, checkpoint.LEADER_EPOCHS):
        with pytest.raises(OttlaError, match="leader-epoch-checkpoint failed"):
            broker.tidy()
        broker.log.delete_old_segments(HighWatermark(broker.log.log_end_offset), NOON)
        assert len(broker.log.segments) == 2
    broker.tidy()
    assert broker.first_offset == end
    broker.kill()
    assert broker.put(FIRST, 1)


def test_a_segment_whose_file_is_lost_goes(broker: Broker) -> None:
    broker.put(FIRST, 0)
    begin = broker.roll()
    broker.roll()
    broker.log.segments[0].abandon()
    files.remove(broker.log.segments[0].path)
    broker.delete_before(begin)
    with pytest.raises(OttlaError, match="reading log failed: No such file"):
        broker.tidy()
    broker.tidy()
    assert broker.first_offset == begin


def test_a_segment_with_a_damaged_marker_goes(broker: Broker) -> None:
    broker.put(FIRST, 0)
    segment = broker.log.segments[0]
    at = segment.size_bytes
    end_transaction(broker.log, end_of(FIRST, 0, v2=False))
    body = segment.size_bytes - at - HEADER_SIZE
    begin = broker.roll()
    broker.roll()
    files.open_file(segment.path, write=True).write([bytes(body)], at + HEADER_SIZE)
    broker.delete_before(begin)
    with pytest.raises(OttlaError, match=r"the control batch at \d+ of .* is damaged"):
        broker.tidy()
    broker.tidy()
    assert broker.first_offset == begin


@contextmanager
def unreadable(path: PurePath, number: int) -> Iterator[None]:
    """Fail to read that file."""
    read = files.DataFile.read

    def read_others(file: files.DataFile, position: int, size: int) -> bytes:
        if file.path == path:
            raise OSError(number, os.strerror(number))
        return read(file, position, size)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files.DataFile, "read", read_others)
        yield


@pytest.mark.story("bad-sector-kept-the-disk-offline")
@pytest.mark.parametrize("number", [errno.EIO, errno.EUCLEAN, errno.EILSEQ, errno.ESTALE])
def test_a_segment_that_cannot_be_read_goes_and_the_disk_stays_online(tmp_path: Path, number: int) -> None:
    broker = Broker(tmp_path / "log")
    broker.put(FIRST, 0)
    begin = broker.roll()
    broker.roll()
    broker.delete_before(begin)
    with unreadable(broker.log.segments[0].path, number):
        with pytest.raises(OttlaError, match=r"reading log failed: .* forgets the producers") as caught:
            broker.tidy()
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.disk.failure == ""
        broker.tidy()
    assert broker.first_offset == begin


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_read_that_lacks_something_for_the_moment_lets_no_segment_go(tmp_path: Path, number: int) -> None:
    broker = Broker(tmp_path / "log")
    broker.put(FIRST, 0)
    begin = broker.roll()
    broker.roll()
    broker.delete_before(begin)
    with unreadable(broker.log.segments[0].path, number):
        for _ in range(2):
            with pytest.raises(OttlaError, match="reading log failed"):
                broker.tidy()
    assert (broker.first_offset, broker.disk.failure) == (0, "")
    broker.tidy()
    assert (broker.first_offset, broker.snapshots[0]) == (begin, begin)


@pytest.mark.story("damage-made-a-stale-snapshot")
@pytest.mark.rule(25, 29)
@pytest.mark.parametrize("starts_amid", [False, True], ids=["whole", "from-a-snapshot-amid"])
def test_damage_in_what_is_deleted_leaves_no_stale_producer(broker: Broker, starts_amid: bool) -> None:
    """The walk over the batches ends at the damage, and a producer has gone on behind it."""
    broker.put(FIRST, 0)
    if starts_amid:
        broker.log.flush(NOON)
        broker.log.close(NOON)
        broker.kill()
    damaged = broker.log.segments[0]
    at = damaged.size_bytes
    broker.put(SECOND, 0)
    broker.put(FIRST, 1)
    begin = broker.roll()
    broker.roll()
    end = int(broker.log.log_end_offset)
    broker.kill(recovery_point=end)
    files.open_file(damaged.path, write=True).write([b"\x07"], at + MAGIC_AT)
    broker.delete_before(begin)
    with pytest.raises(OttlaError, match=r"batches of .* end at"):
        broker.tidy()
    broker.tidy()
    assert broker.first_offset == begin
    broker.kill(recovery_point=end)
    assert broker.put(FIRST, 2), "it may go on, and its sequence is not compared with an older one"


@pytest.mark.story("damaged-marker-took-the-disk-offline")
@pytest.mark.rule(29)
def test_a_truncation_that_meets_a_damaged_marker_forgets_the_producers(broker: Broker) -> None:
    broker.put(FIRST, 0)
    segment = broker.log.segments[0]
    at = segment.size_bytes
    end_transaction(broker.log, end_of(FIRST, 0, v2=False))
    body = segment.size_bytes - at - HEADER_SIZE
    end = int(broker.log.log_end_offset)
    broker.put(SECOND, 0)
    files.open_file(segment.path, write=True).write([bytes(body)], at + HEADER_SIZE)
    assert broker.log.truncate_to(end) == end
    assert (broker.disk.failure, known(broker.log.producers)) == ("", {})
    broker.log.flush(NOON)
    assert broker.snapshots == [end], "so no start reads the marker"
    assert broker.put(SECOND, 5)
    begin = broker.roll()
    broker.log.flush(NOON)
    broker.kill(recovery_point=begin)
    assert list(known(broker.log.producers)) == [SECOND]


def test_a_lack_of_descriptors_lets_no_segment_go(broker: Broker) -> None:
    broker.put(FIRST, 0)
    begin = broker.roll()
    fill(broker.log, 1)
    broker.delete_before(begin)
    with failing(broker, errno.EMFILE):
        for _ in range(2):
            with pytest.raises(OttlaError, match="snapshot failed"):
                broker.tidy()
    assert (broker.first_offset, broker.log.unsecured_until) == (0, begin)
    broker.tidy()
    assert broker.first_offset == begin


# ---- power cuts ------------------------------------------------------------------------------------------------------


def _flushed(broker: Broker) -> int:
    return broker.log.flush(NOON)


def _not_flushed(broker: Broker) -> int:
    return 0


@pytest.mark.rule(25, 29)
@pytest.mark.parametrize("recovery_point", [_flushed, _not_flushed])
@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_leaves_a_producer_with_its_deleted_batches_or_takes_both(
    seed: int, recovery_point: Callable[[Broker], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, volume = simulated_files(monkeypatch, seed)
    broker = Broker(PurePosixPath("/host/data/log"))
    files.sync_names(broker.directory.parent)
    broker.put(FIRST, 0)
    broker.roll()
    broker.put(SECOND, 0)
    point = recovery_point(broker)
    begin = broker.roll()
    broker.put(THIRD, 0)
    broker.roll()
    broker.delete_before(begin)
    broker.tidy()
    assert broker.first_offset == begin
    for _ in range(2):
        volume.crash(world)
        broker.kill(recovery_point=point)
        there = {header.producer_id for segment in broker.log.segments for _, header in segment.headers_from(0)}
        for producer_id in (FIRST, SECOND, THIRD):
            is_known = broker.log.producers.get(producer_id) is not None
            if producer_id == THIRD:
                assert is_known == (producer_id in there)
            else:
                assert is_known or broker.first_offset < begin
            assert is_known or producer_id not in there


@pytest.mark.story("deleted-segments-were-all-that-was-on-disk")
@pytest.mark.rule(4, 60)
@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_that_takes_what_was_not_deleted_leaves_the_end_and_the_epoch(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else the log loses an election to a shorter one, or gives an offset again (I3, I18)."""
    world, volume = simulated_files(monkeypatch, seed)
    broker = Broker(PurePosixPath("/host/data/log"))
    files.sync_names(broker.directory.parent)
    broker.roll()
    point = broker.log.flush(NOON)
    begin = broker.roll(leader_epoch=7)
    broker.roll(leader_epoch=7)
    broker.roll(leader_epoch=7)
    broker.delete_before(begin)
    broker.tidy()
    assert broker.first_offset == begin
    broker.disk.unlink_discarded()
    volume.crash(world)
    broker.kill(recovery_point=point)
    if broker.first_offset >= begin:
        assert broker.log.last_epoch == 7
    else:
        assert broker.log.log_end_offset >= point, "the power cut came before the deletion"


@pytest.mark.story("deletion-that-came-back-in-part")
@pytest.mark.rule(4, 60)
@pytest.mark.parametrize("is_all", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_that_undoes_a_part_of_a_deletion_takes_nothing_that_was_not_deleted(
    seed: int, is_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a deleted segment came back without its bytes, a start would cut off all that follows."""
    world, volume = simulated_files(monkeypatch, seed)
    broker = Broker(PurePosixPath("/host/data/log"))
    files.sync_names(broker.directory.parent)
    for _ in range(4):
        begin = broker.roll(leader_epoch=7)
    if not is_all:
        broker.roll(leader_epoch=7)
    broker.delete_before(begin)
    broker.tidy()
    assert broker.first_offset == begin
    volume.crash(world)
    broker.kill()
    assert broker.log.log_end_offset >= begin
    assert broker.log.last_epoch == 7
