"""What happens when the disk does not do as it is told."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path, PurePath

import pytest
from batches import NOON
from logs import SMALL, all_records, fill, offsets_as_values, open_log, values_batch

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage import files
from ottla_broker.storage.disk import Disk, OpenFiles
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.flushing import WRITE_BEHIND_BYTES
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_core.errors import ErrorCode, OttlaError


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "log", LogConfig())
    fill(log, 5)
    return log


def io_error(*_: object) -> None:
    raise OSError(5, "Input/output error")


def append_for_ever(log: Log, batch: bytes) -> None:
    while log.log_end_offset < 1000:
        log.append(batch, 1, NOON)


class TestFullDisk:
    def test_an_append_that_does_not_fit_leaves_nothing_behind(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        data = next(Path(log.directory).glob("*.log")).read_bytes()
        real = os.pwritev

        def takes_half(fd: int, buffers: list[bytes], at: int) -> int:
            return real(fd, [b"".join(buffers)[:50]], at)

        def takes_none(*_: object) -> int:
            raise OSError(28, "No space left on device")

        for full, words in ((takes_half, "accepted only 50 of"), (takes_none, "No space left")):
            monkeypatch.setattr(os, "pwritev", full)
            with pytest.raises(OttlaError, match=words) as caught:
                fill(log, 2)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert caught.value.retriable
            assert "free space" in caught.value.hint
            assert next(Path(log.directory).glob("*.log")).read_bytes() == data
        monkeypatch.undo()
        fill(log, 5)
        assert all_records(log) == offsets_as_values(0, 30)

    def test_a_tail_that_can_not_be_undone_takes_the_directory_offline(
        self, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise its batches could come back to life behind the next, shorter append."""

        def not_allowed(*_: object) -> None:
            raise OSError(1, "Operation not permitted")

        monkeypatch.setattr(os, "pwritev", lambda *_: 100)
        monkeypatch.setattr(os, "ftruncate", not_allowed)
        with pytest.raises(OttlaError, match="goes offline: undoing an append"):
            fill(log, 1)
        monkeypatch.undo()
        with pytest.raises(OttlaError, match="is offline"):
            fill(log, 1)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
    def test_a_real_full_file_system(self, tmp_path: Path) -> None:
        small = tmp_path / "small"
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("mounting is not allowed here")
        try:
            log = open_log(small / "log", LogConfig(segment_bytes=300_000))
            batch = values_batch(b"x" * 10_000)
            with pytest.raises(OttlaError) as caught:
                append_for_ever(log, batch)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            count = log.log_end_offset
            assert 80 < count < 110
            assert len(all_records(log, max_bytes=1 << 20)) == count
            log.delete_records_before(log.segments[2].base_offset, HighWatermark(count))
            log.secure_deletion()
            log.delete_old_segments(HighWatermark(count), NOON)
            assert log._disk.unlink_discarded() > 0
            assert log.append(batch, 1, NOON).base_offset == count, "room again, and it goes on without a restart"
            again = open_log(small / "log", LogConfig(segment_bytes=300_000))
            assert again.log_end_offset == count + 1
        finally:
            subprocess.run(["umount", "-l", str(small)], check=False)

    def test_a_limit_of_the_file_size(self, tmp_path: Path) -> None:
        """In a process of its own: the limit is the process's."""
        code = f"""
import resource, sys
sys.path[:] = {sys.path!r}
from pathlib import Path, PurePath
from logs import all_records, fill, offsets_as_values, open_log
from ottla_broker.storage.log_config import LogConfig
from ottla_core.errors import OttlaError
log = open_log(Path({str(tmp_path)!r}) / "log", LogConfig())
fill(log, 5)
size = log.size_bytes
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, resource.RLIM_INFINITY))
try:
    fill(log, 1)
except OttlaError as error:
    assert "the disk accepted only 50 of" in error.message, error
assert log.segments[0].path.stat().st_size == size
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
fill(log, 1)
assert all_records(log) == offsets_as_values(0, 18)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


class TestWords:
    @pytest.mark.parametrize(
        ("number", "hint"),
        [
            (errno.ENOSPC, "free space"),
            (errno.EDQUOT, "quota"),
            (errno.EMFILE, "ulimit -n"),
            (errno.ENFILE, "fs.file-max"),
            (errno.EACCES, "the user that runs the broker"),
            (errno.EPERM, "the user that runs the broker"),
            (errno.EROFS, "is read-only"),
            (errno.ENOMEM, "kernel's log"),
        ],
    )
    def test_every_failure_says_what_to_do(self, log: Log, number: int, hint: str, tmp_path: Path) -> None:
        disk = Disk(tmp_path)
        error = disk.error("writing it", OSError(number, os.strerror(number)))
        assert error.message == f"writing it failed: {os.strerror(number)}"
        assert hint in error.hint
        assert disk.failure == ""

    def test_an_append_says_what_the_write_said(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_: object) -> int:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

        monkeypatch.setattr(os, "pwritev", fails)
        with pytest.raises(OttlaError, match=r"\(none of it was kept\) failed: Disk quota") as caught:
            fill(log, 1)
        assert "quota" in caught.value.hint
        assert not log.is_offline
        monkeypatch.setattr(os, "pwritev", io_error)
        with pytest.raises(OttlaError, match="goes offline: an append"):
            fill(log, 1)
        assert log.is_offline

    @pytest.mark.rule(20)
    @pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
    def test_a_lack_of_descriptors_is_no_failed_fsync(
        self, log: Log, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.open

        def none_left(path: object, flags: int, *rest: int) -> int:
            if flags & os.O_DIRECTORY:
                raise OSError(number, os.strerror(number))
            return real(str(path), flags, *rest)

        with monkeypatch.context() as patched:
            patched.setattr(os, "open", none_left)
            with pytest.raises(OttlaError, match="open files"):
                log.flush(NOON)
            assert (log.is_offline, log.recovery_point) == (False, 0)
        assert log.flush(NOON) == 15 == log.recovery_point
        monkeypatch.setattr(os, "fsync", io_error)
        with pytest.raises(OttlaError, match="goes offline: fsync of"):
            log._disk.sync_directory(log.directory)


class TestFlush:
    @pytest.mark.rule(20)
    def test_a_failed_fsync_is_never_tried_again(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "fdatasync", io_error)
        with pytest.raises(OttlaError, match="goes offline: fsync of"):
            log.flush(NOON)
        monkeypatch.undo()
        assert log.recovery_point == 0
        for call in (lambda: log.flush(NOON), lambda: fill(log, 1), lambda: log.read(0, 10, 15)):
            with pytest.raises(OttlaError, match="is offline: fsync of"):
                call()

    @pytest.mark.feature(90)
    @pytest.mark.rule(20)
    def test_an_append_does_not_wait_for_the_disk_and_a_flush_does(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(tmp_path / "log", SMALL)
        log.assign_epoch(1)
        synced: list[str] = []
        real = os.fdatasync
        monkeypatch.setattr(
            os, "fdatasync", lambda fd: synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name) or real(fd)
        )
        fill(log, 30)
        assert synced == []
        sealed = [segment.path.name for segment in log.segments[:-1]]
        assert log.flush(NOON) == 90 == log.recovery_point
        assert [name for name in synced if name.endswith(".log")] == [*sealed, log.segments[-1].path.name]
        assert sum(name.endswith("index") for name in synced) == 2 * len(sealed), "those of the active one are rebuilt"
        synced.clear()
        fill(log, 1)
        log.flush(NOON)
        assert synced == [log.segments[-1].path.name]
        assert log.flush(NOON) == 93
        assert len(synced) == 1, "nothing new, nothing to do"

    @pytest.mark.feature(101)
    def test_when_a_flush_is_due_is_the_topics_choice(self, tmp_path: Path) -> None:
        log = open_log(tmp_path / "log", LogConfig())
        fill(log, 5)
        assert not log.is_flush_due(NOON + 10**9), "by default the operating system decides"
        log.config = LogConfig(flush_messages=16)
        assert not log.is_flush_due(NOON)
        log.config = LogConfig(flush_messages=15)
        assert log.is_flush_due(NOON)
        log.flush(NOON)
        assert not log.is_flush_due(NOON)
        log.config = LogConfig(flush_ms=1000)
        fill(log, 1)
        assert not log.is_flush_due(NOON + 999)
        assert log.is_flush_due(NOON + 1000)

    @pytest.mark.story("clock-set-back-stops-flushes")
    def test_a_clock_that_is_set_back_puts_off_no_flush(self, tmp_path: Path) -> None:
        log = open_log(tmp_path / "log", LogConfig(flush_ms=1000))
        fill(log, 1)
        log.flush(NOON)
        fill(log, 1)
        assert log.is_flush_due(NOON - 3_600_000), "nobody knows how long it waits"
        log.flush(NOON - 3_600_000)
        fill(log, 1)
        assert not log.is_flush_due(NOON - 3_600_000 + 999)
        log.config = LogConfig()
        assert not log.is_flush_due(NOON - 7_200_000), "by default the operating system decides"

    def test_much_unwritten_data_is_flushed_behind_the_writer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(tmp_path / "log", LogConfig(max_message_bytes=1 << 30))
        batch = values_batch(bytes(WRITE_BEHIND_BYTES // 4))
        monkeypatch.setattr(DataFile, "write", lambda _self, buffers, _at: sum(map(len, buffers)))
        due = []
        for _ in range(5):
            log.append(batch, 1, NOON)
            due.append(log.is_flush_due(NOON))
        assert due == [False, False, False, True, True]
        log.flush(NOON)
        assert not log.is_flush_due(NOON)


class TestSmallFiles:
    @pytest.mark.rule(61)
    def test_a_small_file_is_replaced_whole(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        disk, path = Disk(tmp_path), tmp_path / "checkpoint"
        done: list[str] = []
        sync, rename, sync_names = DataFile.sync, files.rename, files.sync_names
        monkeypatch.setattr(DataFile, "sync", lambda file: (done.append(f"fsync {file.path.name}"), sync(file)))
        monkeypatch.setattr(files, "rename", lambda *names: (done.append("rename"), rename(*names)))
        monkeypatch.setattr(files, "sync_names", lambda path: (done.append(f"fsync {path.name}"), sync_names(path)))
        disk.replace_file(path, "first")
        assert done == ["fsync checkpoint.tmp", "rename", f"fsync {tmp_path.name}"]
        monkeypatch.setattr(DataFile, "sync", io_error)
        with pytest.raises(OttlaError):
            disk.replace_file(path, "second")
        assert path.read_text() == "first"

    @pytest.mark.story("failed-fsync-is-tried-again")
    @pytest.mark.rule(20)
    @pytest.mark.parametrize(
        ("number", "of", "offline"),
        [
            (errno.ENOSPC, "checkpoint.tmp", False),
            (errno.EDQUOT, "checkpoint.tmp", False),
            (errno.EROFS, "checkpoint.tmp", True),
            (errno.EIO, "checkpoint.tmp", True),
            (errno.ENOSPC, "", True),
            (errno.EROFS, "", True),
        ],
    )
    def test_an_fsync_that_fails_is_final_but_for_a_lack_of_room_for_a_new_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, of: str, offline: bool
    ) -> None:
        disk, path = Disk(tmp_path), tmp_path / "checkpoint"
        disk.replace_file(path, "first")

        def fails(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patched:
            patched.setattr(DataFile if of else files, "sync" if of else "sync_names", fails)
            with pytest.raises(OttlaError):
                disk.replace_file(path, "second")
        assert bool(disk.failure) == offline
        if not offline:
            assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"], "the room that it took is free again"
            disk.replace_file(path, "third")
            assert path.read_text() == "third"

    def test_a_file_that_is_read_is_opened_anew_where_it_is_written(self, tmp_path: Path) -> None:
        open_files, path = OpenFiles(2), tmp_path / "segment"
        path.write_text("read")
        assert not open_files.get(path).takes_writes
        written = open_files.get(path, write=True)
        written.write([b"writ"], 0)
        assert open_files.get(path) is written
        assert open_files.get(path).read(0, 10) == b"writ"

    def test_a_name_that_went_to_another_file_while_it_was_opened_is_that_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A log is emptied and begun anew at the same offset while a reader opens what was there."""
        open_files, path, real = OpenFiles(2), tmp_path / "segment", os.open
        path.write_text("old")

        def meanwhile(name: Path, *rest: int) -> int:
            fd = real(name, *rest)
            monkeypatch.undo()
            path.rename(tmp_path / "discarded")
            open_files.forget(path)
            open_files.create(path).write([b"new"], 0)
            open_files.forget(path)  # as where many others are used since
            return fd

        monkeypatch.setattr(os, "open", meanwhile)
        assert open_files.get(path).read(0, 10) == b"old"
        assert open_files.get(path, write=True).read(0, 10) == b"new"

    @pytest.mark.rule(20)
    @pytest.mark.parametrize(("number", "offline"), [(errno.EIO, True), (errno.ENOSPC, False)])
    def test_one_sync_takes_the_place_of_many_and_reports_as_each_would(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, offline: bool
    ) -> None:
        disk = Disk(tmp_path)
        synced: list[object] = []
        monkeypatch.setattr(DataFile, "sync", lambda file: synced.append(file))
        monkeypatch.setattr(files, "sync_names", synced.append)
        with disk.syncing_once():
            for n in range(20):
                disk.replace_file(tmp_path / str(n), "content")
        assert not synced
        disk.replace_file(tmp_path / "after", "content")
        assert len(synced) == 2, "its own again"

        def fails(path: Path) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(files, "sync_file_system", fails)
        with pytest.raises(OttlaError) as caught, disk.syncing_once():
            disk.replace_file(tmp_path / "lost", "content")
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert bool(disk.failure) == offline

    def test_where_the_file_system_can_not_be_synced_each_file_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk = Disk(tmp_path)
        synced: list[object] = []
        monkeypatch.setattr(files, "SYNCS_FILE_SYSTEMS", False)
        monkeypatch.setattr(DataFile, "sync", lambda file: synced.append(file))
        monkeypatch.setattr(files, "sync_names", synced.append)
        with disk.syncing_once():
            disk.replace_file(tmp_path / "file", "content")
        assert len(synced) == 2

    def test_what_can_not_be_removed_is_tried_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A swap that has been made counts, whatever becomes of the files that it replaced."""
        disk = Disk(tmp_path)
        for name in ("1.log", "2.log"):
            (tmp_path / name).touch()
            disk.discard(tmp_path / name)

        def not_permitted(path: PurePath) -> None:
            raise PermissionError(1, "not permitted")

        with monkeypatch.context() as refused:
            refused.setattr(files, "remove_if_there", not_permitted)
            assert disk.unlink_discarded() == 0
        assert disk.unlink_discarded() == 2
        assert list(tmp_path.glob("*.deleted")) == []

    def test_few_files_are_open_at_a_time(self, tmp_path: Path) -> None:
        open_files = OpenFiles(2)
        paths = [tmp_path / str(n) for n in range(3)]
        for path in paths:
            path.write_text(path.name)
        held = open_files.get(paths[0])
        assert open_files.get(paths[0]) is held
        open_files.get(paths[1])
        open_files.get(paths[2])
        assert open_files.get(paths[0]) is not held
        assert held.read(0, 10) == b"0", "a reader keeps what it holds"
        open_files.forget(paths[0])
        paths[0].rename(tmp_path / "renamed")
        with pytest.raises(FileNotFoundError):
            open_files.get(paths[0], write=True)
        with pytest.raises(FileNotFoundError):
            open_files.get(tmp_path / "none")
