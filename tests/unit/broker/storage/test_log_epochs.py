"""The epochs of a log are on disk before anything relies on it, and in the batches until then."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from batches import NOON
from logs import SMALL, fill, open_log

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage import checkpoint
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.log_segments import LogSegments
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId


@pytest.mark.rule(4, 60)
def test_the_recovery_point_passes_no_epoch_that_is_not_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start reads no batch below it, so that it would know nothing of the epoch."""

    def full(*arguments: object) -> None:
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    log = open_log(tmp_path / "log")
    fill(log, 3, leader_epoch=1)
    log.flush(NOON)
    fill(log, 30, leader_epoch=2)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_epochs", full)
        with pytest.raises(OttlaError, match="no space left"):
            log.flush(NOON)
    assert log.recovery_point == 9
    assert log.flush(NOON) == log.recovery_point == 99
    again = open_log(tmp_path / "log", recovery_point=99)
    assert again.epochs.entries == log.epochs.entries == ((1, 0), (2, 9))


@pytest.mark.rule(4)
def test_an_epoch_that_was_not_written_down_is_in_its_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    for epoch in range(1, 20):
        fill(log, 2, leader_epoch=epoch)
        if epoch == 7:
            log.flush(NOON)
    known = checkpoint.read_epochs(log.directory / checkpoint.LEADER_EPOCHS)
    assert known is not None
    assert known[-1].epoch == 7
    assert open_log(tmp_path / "log", recovery_point=log.recovery_point).epochs.entries == log.epochs.entries


@pytest.mark.rule(4)
def test_a_flush_between_the_write_of_a_leaders_batches_and_the_note_of_their_epochs_does_not_pass_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the log has rolled behind the recovery point, no start reads them again."""
    leader, follower = open_log(tmp_path / "leader"), open_log(tmp_path / "follower")
    for epoch in (1, 2):
        fill(leader, 3, leader_epoch=epoch)
    with monkeypatch.context() as patched:
        write = LogSegments.write

        def then_flush(self: LogSegments, *arguments: Any) -> bool:
            rolled = write(self, *arguments)
            with ThreadPoolExecutor(1) as thread:
                assert thread.submit(follower.flush, NOON).result() == 0
            return rolled

        patched.setattr(LogSegments, "write", then_flush)
        follower.append_replicated(leader.read(0, 1 << 20, 18), NOON)
    assert follower.flush(NOON) == 18
    follower._segments.roll(18, NOON, SMALL)
    again = open_log(tmp_path / "follower", recovery_point=follower.recovery_point)
    assert again.epochs.entries == follower.epochs.entries == ((1, 0), (2, 9))


def test_batches_that_could_not_be_written_leave_no_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = open_log(tmp_path / "leader"), open_log(tmp_path / "follower")
    fill(leader, 3, leader_epoch=1)
    monkeypatch.setattr(DataFile, "write", lambda *_: 0)
    with pytest.raises(OttlaError, match="none of it was kept"):
        follower.append_replicated(leader.read(0, 1 << 20, 9), NOON)
    assert follower.epochs.entries == ()


@pytest.mark.story("idle-logs-write-their-epochs")
@pytest.mark.rule(2, 60)
def test_an_idle_log_changes_its_leader_without_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that goes moves thousands of them; what began where the log ends is forgotten by every start."""
    log = open_log(tmp_path / "log")
    fill(log, 3, leader_epoch=1)
    log.close(NOON)
    log = open_log(tmp_path / "log", clean=True)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_epochs", lambda *_: pytest.fail("nothing was written in any epoch since"))
        log.assign_epoch(2)
        assert log.truncate_to(9) == 9
        assert log.epochs.entries == ((1, 0),)
        log.assign_epoch(3)
        log.close(NOON)
    assert open_log(tmp_path / "log", clean=True).epochs.entries == ((1, 0),)


@pytest.mark.rule(60)
def test_what_was_idle_and_is_written_to_has_its_epoch_on_disk(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    fill(log, 3, leader_epoch=1)
    log.flush(NOON)
    log.assign_epoch(2)
    log.truncate_to(9)
    log.assign_epoch(3)
    fill(log, 3, leader_epoch=3)
    log.flush(NOON)
    assert checkpoint.read_epochs(log.directory / checkpoint.LEADER_EPOCHS) == [(1, 0), (3, 9)]
    log.truncate_to(9)
    assert checkpoint.read_epochs(log.directory / checkpoint.LEADER_EPOCHS) == [(1, 0)]


@pytest.mark.story("epochs-before-a-start-that-went-back")
@pytest.mark.rule(4)
@pytest.mark.parametrize("clean", [False, True])
def test_a_log_whose_start_went_back_knows_the_epochs_of_what_is_there_again(tmp_path: Path, *, clean: bool) -> None:
    """The epochs are stored from the start of the log on, and a kill takes that back to the last checkpoint."""
    log = open_log(tmp_path / "log", LogConfig())
    for epoch in (1, 2, 3):
        fill(log, 3, leader_epoch=epoch)
    log.delete_records_before(20, HighWatermark(27))
    log.flush(NOON)
    assert checkpoint.read_epochs(log.directory / checkpoint.LEADER_EPOCHS) == [(3, 20)]
    again = open_log(tmp_path / "log", LogConfig(), clean=clean, recovery_point=27, log_start_offset=4)
    assert again.epochs.entries == ((1, 4), (2, 9), (3, 18))
    assert again.epochs.end_offset_for(2, again.log_end_offset) == (2, 18), "or a follower would keep 18 and 19"


class TestALogStartOnDisk:
    """A log that has lost all of its records is empty at the start that was written down. It needs the epoch there."""

    PARTITION = PartitionId(TopicId(bytes(range(16))), 0)

    def opened(self, path: Path) -> LogDir:
        return LogDir.open(path, DirectoryIdentity("c", 1, "A" * 22), SMALL, now_ms=NOON)

    def emptied_twice(self, path: Path) -> LogDir:
        """Return a directory whose log begins and ends at 60. On disk it begins at 30, and its epoch there is 2."""
        log_dir = self.opened(path)
        log = log_dir.create(self.PARTITION, "t", SMALL, now_ms=NOON)
        fill(log, 10, leader_epoch=2)
        log.delete_records_before(30, HighWatermark(30))
        log_dir.secure_starts()
        log_dir.checkpoint({})
        fill(log, 10, leader_epoch=3)
        log.delete_records_before(60, HighWatermark(60))
        return log_dir

    def without_records(self, log_dir: LogDir) -> Log:
        """Return the log as it is after a power cut that has taken every record."""
        log_dir.abandon()
        for path in Path(log_dir.disk.path / str(self.PARTITION)).glob("*.log"):
            path.write_bytes(b"")
        return self.opened(Path(log_dir.disk.path)).logs[self.PARTITION]

    def start_on_disk(self, log_dir: LogDir) -> int:
        return checkpoint.read_offsets(log_dir.disk.path / checkpoint.LOG_START_OFFSETS)[self.PARTITION]

    @pytest.mark.story("start-written-before-its-epoch")
    @pytest.mark.rule(4, 60)
    def test_is_behind_the_log_until_its_epoch_is_on_disk(self, tmp_path: Path) -> None:
        log_dir = self.emptied_twice(tmp_path)
        log_dir.checkpoint({})
        assert self.start_on_disk(log_dir) == 30
        log = self.without_records(log_dir)
        assert (log.log_start_offset, log.log_end_offset, log.last_epoch) == (30, 30, 2)

    @pytest.mark.rule(4, 60)
    def test_follows_once_its_epoch_is_on_disk(self, tmp_path: Path) -> None:
        log_dir = self.emptied_twice(tmp_path)
        log_dir.secure_starts()
        log_dir.checkpoint({})
        assert self.start_on_disk(log_dir) == 60
        log = self.without_records(log_dir)
        assert (log.log_start_offset, log.log_end_offset, log.last_epoch) == (60, 60, 3)

    @pytest.mark.story("epochs-begin-after-the-start-on-disk")
    @pytest.mark.rule(4, 60)
    def test_has_an_epoch_if_only_the_epochs_were_written(self, tmp_path: Path) -> None:
        log_dir = self.emptied_twice(tmp_path)
        log_dir.secure_starts()
        log = self.without_records(log_dir)
        assert (log.log_start_offset, log.log_end_offset, log.last_epoch) == (30, 30, 3)

    @pytest.mark.rule(4, 60)
    def test_of_a_copied_log_waits_for_the_epoch_of_its_first_records(self, tmp_path: Path) -> None:
        log_dir = self.opened(tmp_path)
        log = log_dir.create(self.PARTITION, "t", SMALL, now_ms=NOON)
        log.truncate_fully_and_start_at(30)
        for _ in range(2):
            log_dir.secure_starts()
            log_dir.checkpoint({})
            assert self.start_on_disk(log_dir) == 0
        fill(log, 1, leader_epoch=3)
        log_dir.checkpoint({})
        assert self.start_on_disk(log_dir) == 0
        log_dir.secure_starts()
        log_dir.checkpoint({})
        log = self.without_records(log_dir)
        assert (log.log_start_offset, log.log_end_offset, log.last_epoch) == (30, 30, 3)

    def test_costs_nothing_where_the_epochs_are_on_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log_dir = self.opened(tmp_path)
        log = log_dir.create(self.PARTITION, "t", SMALL, now_ms=NOON)
        fill(log, 10, leader_epoch=2)
        log.flush(NOON)
        monkeypatch.setattr(checkpoint, "write_epochs", lambda *_: pytest.fail("the epoch is on disk"))
        log.delete_records_before(10, HighWatermark(30))
        log_dir.secure_starts()
        log_dir.checkpoint({})
        assert self.start_on_disk(log_dir) == 10

    @pytest.mark.parametrize("closed", [False, True])
    def test_waits_for_no_log_whose_epochs_can_not_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, closed: bool
    ) -> None:
        """A log that is closed has just been deleted, which is no failure."""
        log_dir = self.emptied_twice(tmp_path)
        other = PartitionId(self.PARTITION.topic_id, 1)
        log = log_dir.create(other, "t", SMALL, now_ms=NOON)
        fill(log, 10, leader_epoch=2)
        log.delete_records_before(10, HighWatermark(30))

        write_epochs = checkpoint.write_epochs

        def full(disk: Any, path: Path, entries: Any) -> None:
            if path.parent.name == str(self.PARTITION):
                raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")
            write_epochs(disk, path, entries)

        monkeypatch.setattr(checkpoint, "write_epochs", full)
        if closed:
            log_dir.logs[self.PARTITION].abandon()
            log_dir.secure_starts()
        else:
            with pytest.raises(OttlaError, match="no space left"):
                log_dir.secure_starts()
        log_dir.checkpoint({})
        starts = checkpoint.read_offsets(tmp_path / checkpoint.LOG_START_OFFSETS)
        assert (starts[self.PARTITION], starts[other]) == (30, 10)
