"""A disk that is full: what is kept of it, what may still be written, and how it comes back."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from batches import NOON
from logs import SMALL, all_records, fill, offsets_as_values, open_log, values_batch

from ottla_broker.storage import files
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.reserve import FILE, MOST_BYTES
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId

KEPT = 3 << 20
"""A sixteenth of the small disk."""
BATCH = values_batch(bytes(200_000))
WIDE = LogConfig(segment_bytes=1 << 30)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB."""
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=False)


def fill_the_rest(path: Path) -> None:
    """Somebody else takes all that is left, to the last byte."""
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while file.write(bytes(100_000)):
            pass


def refused(log: Log) -> OttlaError:
    with pytest.raises(OttlaError) as caught:
        log.append(BATCH, 1, NOON)
    assert (caught.value.code, caught.value.retriable) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
    return caught.value


def test_a_full_disk_takes_epochs_and_checkpoints_and_no_append_until_there_is_room_again(small: Path) -> None:
    disk = Disk(small)
    log = open_log(small / "log", WIDE, disk=disk)
    log.append(BATCH, 1, NOON)
    disk.keep_reserve()
    assert (disk.full, (small / FILE).stat().st_size) == ("", KEPT)
    filler = small / "filler"
    fill_the_rest(filler)
    assert "No space left" in refused(log).message or "the disk accepted only" in disk.full
    assert disk.full
    assert "can't append until" in refused(log).message, "what was kept is for other files"
    for epoch in range(2, 200):
        log.assign_epoch(epoch)
        disk.replace_file(small / "checkpoint", "x" * 100_000)
    assert len(log.read(0, 1 << 20, 1)) == len(BATCH), "it is read as ever"
    disk.keep_reserve()
    assert disk.full, "there is no room yet"
    os.truncate(filler, filler.stat().st_size - KEPT)
    disk.keep_reserve()
    assert disk.full, "as much again has to be free, or it would be full with the next append"
    filler.unlink()
    disk.keep_reserve()
    assert not disk.full
    assert log.append(BATCH, 200, NOON).base_offset == 1


def test_small_files_are_replaced_in_the_room_that_was_kept(small: Path) -> None:
    """Nobody has appended: the first to find the disk full is a checkpoint."""
    disk = Disk(small)
    disk.keep_reserve()
    fill_the_rest(small / "filler")
    disk.replace_file(small / "checkpoint", "x" * 100_000)
    assert disk.full
    assert not (small / FILE).exists()


def test_a_broker_that_was_killed_starts_on_a_full_disk(small: Path) -> None:
    """With segments to mend, indexes to build and checkpoints to write."""
    me, id_ = DirectoryIdentity("c", 1, "d" * 22), PartitionId(TopicId(b"t" * 16), 0)
    data = small / "data"
    running = LogDir.open(data, me, SMALL, now_ms=NOON)
    running.disk.keep_reserve()
    fill(running.create(id_, "t", SMALL, now_ms=NOON), 100)
    running.abandon()
    for index in data.glob("*/*index"):
        index.unlink()
    fill_the_rest(small / "filler")
    again = LogDir.open(data, me, SMALL, now_ms=NOON)
    assert all_records(again.logs[id_]) == offsets_as_values(0, 300)
    again.disk.keep_reserve()
    assert again.disk.full
    again.create(PartitionId(id_.topic_id, 1), "t", SMALL, now_ms=NOON)
    again.abandon()


@pytest.mark.story("appends-eat-what-is-kept")
def test_a_follower_appends_nothing_either(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    leader, follower = open_log(tmp_path / "leader"), open_log(tmp_path / "follower", disk=disk)
    fill(leader, 1)
    disk.full = "for once"
    with pytest.raises(OttlaError, match="for once"):
        follower.append_replicated(leader.read(0, 1000, 3), NOON)
    assert follower.epochs.entries == ()


def test_a_disk_that_became_read_only_is_tried_until_it_is_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path)
    log = open_log(tmp_path / "log", WIDE, disk=disk)
    disk.keep_reserve()
    assert (tmp_path / FILE).stat().st_size == MOST_BYTES

    def read_only(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    mounted = files.disk_space(tmp_path)._replace(is_read_only=True)
    with monkeypatch.context() as patched:
        patched.setattr(DataFile, "write", read_only)
        patched.setattr(files, "remove", read_only)
        patched.setattr(files, "disk_space", lambda _: mounted)
        assert "Read-only file system" in refused(log).message
        disk.keep_reserve()
        assert "Read-only" in disk.full
        assert not disk.failure
    disk.keep_reserve()
    assert not disk.full
    fill(log, 1)


def test_without_a_way_to_keep_room_a_broker_works_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unknown(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", unknown)
    disk = Disk(tmp_path)
    disk.keep_reserve()
    assert not disk.full
    assert not (tmp_path / FILE).exists()
    assert "can't create the reserve file" in caplog.text
