"""A data directory: whose it is, what it holds, what a restart finds in it."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path, PurePath
from threading import Barrier
from typing import Any

import pytest
from batches import NOON
from logs import SMALL, all_records, fill, offsets_as_values

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage import checkpoint, files
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.identity import DirectoryIdentity, DirectoryLock, load_identity, new_directory_id
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_dir import LogDir, NewLog
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId

ME = DirectoryIdentity("cluster-a", 3, "AAAAAAAAAAAAAAAAAAAAAA")
TOPIC = TopicId(bytes(range(16)))
ONE, TWO = PartitionId(TOPIC, 0), PartitionId(TOPIC, 1)
RECOVERY_POINTS, LOG_STARTS = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


def opened(path: Path, identity: DirectoryIdentity = ME) -> LogDir:
    return LogDir.open(path, identity, SMALL, now_ms=NOON)


def crash(log_dir: LogDir) -> None:
    """Leave everything as it is, as kill -9 does."""
    log_dir._lock.release()


class TestIdentity:
    @pytest.mark.story("unreadable-identity-was-a-traceback")
    def test_what_the_disk_does_not_let_be_read_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "meta.properties").mkdir()
        with pytest.raises(OttlaError, match=r"reading .*meta.properties failed: Is a directory") as caught:
            load_identity(tmp_path)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert caught.value.hint

    def test_a_new_directory_becomes_its_nodes_for_ever(self, tmp_path: Path) -> None:
        data = tmp_path / "deep" / "data"
        assert load_identity(tmp_path) is None
        opened(data).close({}, now_ms=NOON)
        assert load_identity(data) == ME
        assert (data / "meta.properties").read_text().splitlines() == [
            "version=1",
            "cluster.id=cluster-a",
            "node.id=3",
            f"directory.id={ME.directory_id}",
        ]
        opened(data).close({}, now_ms=NOON)

    @pytest.mark.parametrize(
        ("other", "code", "words"),
        [
            (
                DirectoryIdentity("cluster-b", 3, ME.directory_id),
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                "the cluster 'cluster-a'",
            ),
            (
                DirectoryIdentity("cluster-a", 4, ME.directory_id),
                ErrorCode.INVALID_CONFIG,
                "start the broker as node 3",
            ),
            (DirectoryIdentity("cluster-a", 3, new_directory_id()), ErrorCode.INVALID_CONFIG, "belongs to node 3"),
        ],
    )
    def test_another_nodes_directory_is_refused(
        self, tmp_path: Path, other: DirectoryIdentity, code: ErrorCode, words: str
    ) -> None:
        opened(tmp_path).close({}, now_ms=NOON)
        with pytest.raises(OttlaError, match=words) as caught:
            opened(tmp_path, other)
        assert caught.value.code == code
        opened(tmp_path).close({}, now_ms=NOON)  # the refused one has let go of the lock

    @pytest.mark.parametrize("content", ["", "version=1\ncluster.id=a\n", "version=2\n", "version=1\nnode.id=x\n"])
    def test_a_damaged_identity_is_refused_in_words(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "meta.properties").write_text(content)
        with pytest.raises(OttlaError, match=r"meta\.properties"):
            opened(tmp_path)

    def test_kafkas_own_comments_are_read_over(self, tmp_path: Path) -> None:
        (tmp_path / "meta.properties").write_text(
            f"#\n#Mon Jan 01 00:00:00 UTC 2024\ncluster.id=cluster-a\nversion=1\n"
            f"directory.id={ME.directory_id}\nnode.id=3\n"
        )
        assert load_identity(tmp_path) == ME

    def test_directory_ids_are_spelled_as_kafka_does(self) -> None:
        assert len({new_directory_id() for _ in range(10)}) == 10
        assert all(len(new_directory_id()) == 22 for _ in range(10))

    def test_one_process_at_a_time(self, tmp_path: Path) -> None:
        first = opened(tmp_path)
        with pytest.raises(OttlaError, match=f"in use by another broker, process {os.getpid()}"):
            opened(tmp_path)
        first.close({}, now_ms=NOON)
        opened(tmp_path).close({}, now_ms=NOON)

    @pytest.mark.parametrize("end", ["close", "abandon"])
    def test_its_end_closes_the_files_of_segments(self, tmp_path: Path, end: str) -> None:
        """A test's process runs many clusters. A full disk would not get the space of a deleted directory back."""
        log_dir = opened(tmp_path)
        fill(log := log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 30)
        assert any(segment.open_file() for segment in log.segments)
        log_dir.close({}, now_ms=NOON) if end == "close" else log_dir.abandon()
        assert [segment.open_file() for segment in log.segments] == [None] * len(log.segments)

    def test_the_lock_ends_with_its_process(self, tmp_path: Path) -> None:
        holds = f"import sys; sys.path[:] = {sys.path!r}\nfrom pathlib import Path\n"
        holds += "from ottla_broker.storage.identity import DirectoryLock\n"
        holds += f"lock = DirectoryLock(Path({str(tmp_path)!r})); print('held', flush=True); sys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", holds], stdin=-1, stdout=-1) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"held\n"
            with pytest.raises(OttlaError, match=f"process {other.pid}"):
                DirectoryLock(tmp_path)
            other.kill()
        DirectoryLock(tmp_path).release()


class TestRestart:
    @pytest.mark.rule(58)
    @pytest.mark.parametrize("clean", [True, False])
    def test_all_logs_are_there_again(self, tmp_path: Path, clean: bool) -> None:
        log_dir = opened(tmp_path)
        for number, partition in enumerate((ONE, TWO)):
            fill(log_dir.create(partition, "flights", SMALL, now_ms=NOON), 10 + number)
        if clean:
            log_dir.close({ONE: 30, TWO: 20}, now_ms=NOON)
        else:
            log_dir.checkpoint({ONE: 30, TWO: 20})
            crash(log_dir)
        assert (tmp_path / ".kafka_cleanshutdown").exists() == clean
        again = opened(tmp_path)
        assert set(again.logs) == {ONE, TWO}
        assert all_records(again.logs[TWO]) == offsets_as_values(0, 33)
        assert (again.high_watermark(ONE), again.high_watermark(TWO)) == (30, 20)
        assert again.logs[TWO].recovery_point == (33 if clean else 0)
        assert not (tmp_path / ".kafka_cleanshutdown").exists(), "from now on a crash is a crash"

    def test_a_crash_after_a_clean_stop_is_a_crash(self, tmp_path: Path) -> None:
        log_dir = opened(tmp_path)
        log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        log_dir.close({}, now_ms=NOON)
        log_dir = opened(tmp_path)
        fill(log_dir.logs[ONE], 5)
        crash(log_dir)
        path = log_dir.logs[ONE].directory / f"{0:020d}.log"
        Path(path).write_bytes(Path(path).read_bytes()[:-1] + b"?")
        assert opened(tmp_path).logs[ONE].log_end_offset == 12

    @pytest.mark.rule(60)
    def test_a_cut_log_takes_back_its_recovery_point_before_an_append(self, tmp_path: Path) -> None:
        log_dir = opened(tmp_path)
        log = log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        fill(log, 5)
        log.flush(NOON)
        log_dir.checkpoint({})
        assert (tmp_path / RECOVERY_POINTS).read_text() == f"0\n1\n{TOPIC.hex()} 0 15\n"
        crash(log_dir)
        path = log.directory / f"{0:020d}.log"
        Path(path).write_bytes(Path(path).read_bytes()[:-1])
        opened(tmp_path)
        assert (tmp_path / RECOVERY_POINTS).read_text() == f"0\n1\n{TOPIC.hex()} 0 12\n"

    @pytest.mark.rule(16)
    def test_logs_are_recovered_side_by_side(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log_dir = opened(tmp_path)
        for number in range(4):
            fill(log_dir.create(PartitionId(TOPIC, number), "t", SMALL, now_ms=NOON), 20 + number)
        crash(log_dir)
        together, open_log = Barrier(2), Log.open

        def open_beside_another(*args: Any, **options: Any) -> Log:
            together.wait(timeout=10)
            return open_log(*args, **options)

        monkeypatch.setattr(Log, "open", open_beside_another)
        again = LogDir.open(tmp_path, ME, SMALL, now_ms=NOON, threads=2)
        assert {p.partition: log.log_end_offset for p, log in again.logs.items()} == {n: 60 + 3 * n for n in range(4)}
        again.close({}, now_ms=NOON)

    def test_one_log_that_can_not_be_opened_stops_the_start(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = opened(tmp_path)
        for number in range(4):
            fill(log_dir.create(PartitionId(TOPIC, number), "t", SMALL, now_ms=NOON), 5)
        log_dir.close({}, now_ms=NOON)
        open_log = Log.open

        def open_most(directory: Path, *args: Any, **options: Any) -> Log:
            if directory.name.endswith("-2"):
                raise OSError(errno.EIO, "Input/output error")
            return open_log(directory, *args, **options)

        monkeypatch.setattr(Log, "open", open_most)
        with pytest.raises(OttlaError) as failure:
            LogDir.open(tmp_path, ME, SMALL, now_ms=NOON, threads=2)
        assert failure.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        monkeypatch.undo()
        again = opened(tmp_path)
        assert {log.log_end_offset for log in again.logs.values()} == {15}
        again.close({}, now_ms=NOON)

    def test_a_checkpointed_high_watermark_is_a_lower_bound_within_the_log(self, tmp_path: Path) -> None:
        log_dir = opened(tmp_path)
        fill(log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 5)
        log_dir.checkpoint({ONE: 99})
        assert log_dir.high_watermark(ONE) == 15
        log_dir.checkpoint({ONE: 3})
        log_dir.logs[ONE].delete_records_before(6, HighWatermark(15))
        assert log_dir.high_watermark(ONE) == 6
        log_dir.secure_starts()
        log_dir.checkpoint({})
        crash(log_dir)
        again = opened(tmp_path)
        assert again.high_watermark(ONE) == 6
        assert again.logs[ONE].log_start_offset == 6
        assert again.logs[ONE].log_end_offset == 15, "never used to truncate"

    @pytest.mark.rule(61)
    @pytest.mark.parametrize("torn", ["", "0\n3\n", "\0" * 50, f"0\n1\n{TOPIC.hex()} 0 nonsense\n", "9\n0\n"])
    def test_torn_checkpoints_stop_nobody(self, tmp_path: Path, torn: str) -> None:
        log_dir = opened(tmp_path)
        fill(log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 5)
        log_dir.checkpoint({ONE: 15})
        crash(log_dir)
        for name in (RECOVERY_POINTS, LOG_STARTS, "replication-offset-checkpoint"):
            (tmp_path / name).write_text(torn)
        again = opened(tmp_path)
        assert all_records(again.logs[ONE]) == offsets_as_values(0, 15)
        assert again.high_watermark(ONE) == 0

    def test_a_failed_stop_leaves_no_marker(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log_dir = opened(tmp_path)
        fill(log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 5)

        def broken(_: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(DataFile, "sync", broken)
        monkeypatch.setattr(files, "sync_file_system", broken)
        with pytest.raises(OttlaError, match="goes offline"):
            log_dir.close({}, now_ms=NOON)
        monkeypatch.undo()
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        assert opened(tmp_path).logs[ONE].log_end_offset == 15


class TestPartitions:
    @pytest.mark.rule(58)
    def test_many_are_made_with_one_sync_which_comes_before_they_take_records(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir, real, known = opened(tmp_path), files.sync_file_system, []
        monkeypatch.setattr(files, "sync_file_system", lambda path: known.append(len(log_dir.logs)) or real(path))
        wanted = [NewLog(PartitionId(ONE.topic_id, n), "flights", SMALL) for n in range(50)]
        logs = log_dir.create_all(wanted, now_ms=NOON)
        assert known == [0], "one sync, and none of them is known before it"
        assert log_dir.create_all(wanted, now_ms=NOON) == logs == list(log_dir.logs.values())
        for log in logs:
            assert isinstance(log, Log)
            fill(log, 2)
        log_dir.close({}, now_ms=NOON)
        assert [log.log_end_offset for log in opened(tmp_path).logs.values()] == [6] * 50

    def test_a_log_that_is_as_it_was_is_closed_without_a_write(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = opened(tmp_path)
        fill(log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 20)
        fill(log_dir.create(TWO, "flights", SMALL, now_ms=NOON), 20)
        log_dir.close({}, now_ms=NOON)
        again, opens, real = opened(tmp_path), [], os.open
        again.logs[TWO].truncate_to(59)
        fill(again.logs[TWO], 1)
        assert again.logs[TWO].log_end_offset == again.logs[ONE].log_end_offset, "and as long as before"
        monkeypatch.setattr(os, "open", lambda name, *rest: opens.append(str(name)) or real(name, *rest))
        again.close({}, now_ms=NOON)
        assert not [name for name in opens if str(ONE) in name]
        assert [name for name in opens if str(TWO) in name]
        assert all_records(opened(tmp_path).logs[TWO]) == offsets_as_values(0, 57) + offsets_as_values(57, 60)

    def test_checkpoints_are_written_where_something_changed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir, written, real = opened(tmp_path), [], checkpoint.write_offsets
        log = log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        fill(log, 20)
        log_dir.checkpoint({ONE: 30})

        def write(disk: Disk, path: Path, *rest: Any) -> None:
            written.append(path.name)
            real(disk, path, *rest)

        monkeypatch.setattr(checkpoint, "write_offsets", write)
        log_dir.checkpoint({ONE: 30})
        assert not written
        log_dir.checkpoint({ONE: 33})
        assert written == [checkpoint.HIGH_WATERMARKS]
        log.flush(NOON)
        log_dir.checkpoint({})
        assert written[1:] == [checkpoint.RECOVERY_POINTS]

    def test_one_that_can_not_be_made_keeps_no_other_from_it(self, tmp_path: Path) -> None:
        log_dir = opened(tmp_path)
        wanted = [NewLog(PartitionId(ONE.topic_id, n), "flights", SMALL) for n in range(20)]
        (tmp_path / str(wanted[7].partition)).write_text("in the way")
        logs = log_dir.create_all(wanted, now_ms=NOON)
        assert [n for n, log in enumerate(logs) if isinstance(log, OttlaError)] == [7]
        assert "making" in str(logs[7])
        assert len(log_dir.logs) == 19

    def test_none_is_known_where_they_could_not_be_synced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(path: Path) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        log_dir = opened(tmp_path)
        wanted = [NewLog(PartitionId(ONE.topic_id, n), "flights", SMALL) for n in range(20)]
        monkeypatch.setattr(files, "sync_file_system", fails)
        with pytest.raises(OttlaError, match="syncing the file system"):
            log_dir.create_all(wanted, now_ms=NOON)
        assert not log_dir.logs
        monkeypatch.undo()
        assert len(log_dir.create_all(wanted, now_ms=NOON)) == len(log_dir.logs) == 20

    @pytest.mark.rule(23)
    def test_directories_are_named_by_topic_id_and_say_whose_they_are(self, tmp_path: Path) -> None:
        log_dir = opened(tmp_path)
        log = log_dir.create(TWO, "flights", SMALL, now_ms=NOON)
        assert log_dir.create(TWO, "flights", SMALL, now_ms=NOON) is log
        assert log.directory == tmp_path / "000102030405060708090a0b0c0d0e0f-1"
        metadata = (log.directory / "partition.metadata").read_text().splitlines()
        assert metadata[:2] == ["version: 0", "topic_id: AAECAwQFBgcICQoLDA0ODw"], "all that Kafka reads"
        assert metadata[2:] == ["topic: flights", "partition: 1"]

    def test_a_deleted_partition_is_gone_at_once_and_its_space_later(self, tmp_path: Path) -> None:
        log_dir = opened(tmp_path)
        log = log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        fill(log, 40)
        all_records(log)  # its sealed segments are open
        log_dir.delete([ONE])
        assert ONE not in log_dir.logs
        with pytest.raises(OttlaError, match="is closed"):
            log.read(0, 100, 120)
        fresh = log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        assert fresh.log_end_offset == 0
        left = [path.name for path in tmp_path.glob("*-delete")]
        assert len(left) == 1
        assert log_dir.remove_deleted() == 1
        assert not list(tmp_path.glob("*-delete"))
        open_paths = [
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if fd.isdigit() and os.path.lexists(f"/proc/self/fd/{fd}")
        ]
        assert not [path for path in open_paths if "-delete" in path and str(tmp_path) in path], "the space is free"

    def test_a_deletion_that_a_crash_interrupted_is_finished(self, tmp_path: Path) -> None:
        log_dir = opened(tmp_path)
        log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        log_dir.delete([ONE])
        crash(log_dir)
        again = opened(tmp_path)
        assert not again.logs
        assert again.remove_deleted() == 1
        assert not list(tmp_path.glob("*-delete"))

    @pytest.mark.story("sync-for-each-deleted-partition")
    def test_many_are_deleted_under_one_sync_and_removed_a_few_at_a_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = opened(tmp_path)
        many = [PartitionId(TOPIC, n) for n in range(110)]
        for partition in many:
            log_dir.create(partition, "flights", SMALL, now_ms=NOON)
        synced: list[Path] = []
        monkeypatch.setattr(files, "sync_names", synced.append)
        rename = files.rename

        def all_but_one(path: PurePath, target: PurePath) -> None:
            if path.name == str(many[3]):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            rename(path, target)

        monkeypatch.setattr(files, "rename", all_but_one)
        with pytest.raises(OttlaError, match="renaming"):
            log_dir.delete(many)
        assert synced == [tmp_path]
        assert set(log_dir.logs) == {many[3]}, "one that could not be renamed keeps no other"
        monkeypatch.undo()
        log_dir.delete(many[3:4])
        assert not log_dir.logs
        assert [log_dir.remove_deleted() for _ in range(3)] == [100, 10, 0]
        assert not list(tmp_path.glob("*-delete"))

    @pytest.mark.story("strays-of-no-date")
    @pytest.mark.rule(24)
    def test_a_partition_that_the_cluster_does_not_know_is_set_aside(self, tmp_path: Path) -> None:
        log_dir = opened(tmp_path)
        for partition in (ONE, TWO):
            fill(log_dir.create(partition, "flights", SMALL, now_ms=NOON), 5)
        crash(log_dir)
        again = opened(tmp_path)
        (renamed,) = again.set_strays_aside({TWO}, now_ms=NOON)
        assert set(again.logs) == {TWO}
        assert renamed.name.startswith(f"{ONE}.")
        assert renamed.name.endswith("-stray")
        assert ".20231114T221320Z-" in renamed.name, "since when"
        assert again.measure_strays() == (1, sum(path.stat().st_size for path in Path(renamed).iterdir()))
        assert (Path(renamed / f"{0:020d}.log")).stat().st_size > 0
        crash(again)
        assert set(opened(tmp_path).logs) == {TWO}, "nor is it served after a restart"
        assert again.remove_deleted() == 0
        assert Path(renamed).exists()

    def test_foreign_files_are_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "lost+found").mkdir()
        (tmp_path / f"{TOPIC.hex()}-0").write_text("a file, not a directory")
        log_dir = opened(tmp_path)
        assert not log_dir.logs
        with pytest.raises(OttlaError) as caught:
            log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    def test_figures_of_the_file_system(self, tmp_path: Path) -> None:
        log_dir = opened(tmp_path)
        figures = log_dir.sizes()
        assert figures.path == str(tmp_path)
        assert 0 < figures.usable_bytes < figures.total_bytes
        log = log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        fill(log, 40)
        assert log.size_bytes == sum(path.stat().st_size for path in Path(log.directory).glob("*.log"))


class TestWithOthers:
    """What other threads do beside a stop, and what failed before it."""

    def test_nothing_is_promised_before_the_sync_of_a_stop(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A checkpoint that is written meanwhile would vouch for what a power cut takes."""
        log_dir = opened(tmp_path)
        fill(log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 3)
        promised = []

        def beside_a_checkpoint(path: Path) -> None:
            log_dir.checkpoint({})
            promised.append(checkpoint.read_offsets(tmp_path / RECOVERY_POINTS))

        monkeypatch.setattr(files, "SYNCS_FILE_SYSTEMS", True)
        monkeypatch.setattr(files, "sync_file_system", beside_a_checkpoint)
        log_dir.close({}, now_ms=NOON)
        assert promised == [{}]
        assert checkpoint.read_offsets(tmp_path / RECOVERY_POINTS) == {ONE: 9}

    def test_a_log_that_is_made_while_all_are_closed_disturbs_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = opened(tmp_path)
        log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        close = Log.close

        def beside_a_creation(log: Log, now_ms: int) -> None:
            log_dir.create(TWO, "flights", SMALL, now_ms=NOON)
            close(log, now_ms)

        monkeypatch.setattr(Log, "close", beside_a_creation)
        log_dir.close({}, now_ms=NOON)
        assert (tmp_path / ".kafka_cleanshutdown").exists()

    def test_a_log_that_could_not_be_deleted_keeps_no_other_from_a_clean_stop(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def denied(path: PurePath, target: PurePath) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        log_dir = opened(tmp_path)
        for partition in (ONE, TWO):
            fill(log_dir.create(partition, "flights", SMALL, now_ms=NOON), 3)
        with monkeypatch.context() as patched:
            patched.setattr(files, "rename", denied)
            with pytest.raises(OttlaError, match="Permission denied"):
                log_dir.delete([ONE])
        log_dir.close({}, now_ms=NOON)
        assert (tmp_path / ".kafka_cleanshutdown").exists()

    @pytest.mark.rule(60)
    def test_a_promise_that_could_not_be_taken_back_is_before_the_next_append(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*arguments: object) -> None:
            raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

        log_dir = opened(tmp_path)
        fill(log := log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 10)
        log.flush(NOON)
        log_dir.checkpoint({ONE: 30})
        with monkeypatch.context() as patched:
            patched.setattr(checkpoint, "write_offsets", full)
            with pytest.raises(OttlaError, match="no space left"):
                log.truncate_to(9)
            with pytest.raises(OttlaError, match="no space left"):
                fill(log, 1)
        fill(log, 1)
        assert checkpoint.read_offsets(tmp_path / RECOVERY_POINTS) == {ONE: 9}

    def test_whether_a_log_is_whole_is_known_without_a_look_at_the_disk(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The loop asks of thousands of partitions, each beside thousands of directories."""
        log_dir = opened(tmp_path)
        log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        log_dir.set_strays_aside(set(), now_ms=NOON)
        log_dir.vouch()
        again = (log_dir.close({}, now_ms=NOON), opened(tmp_path))[1]
        again.create(ONE, "flights", SMALL, now_ms=NOON)
        monkeypatch.setattr(files, "names_in", None)
        assert not again.has_all_of(ONE)
        assert again.has_all_of(TWO)

    def test_a_reader_that_came_late_keeps_no_file_of_a_deleted_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its space would not be free until thousands of other files were opened."""
        log_dir = opened(tmp_path)
        fill(log := log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 30)
        rename = files.rename

        def beside_a_reader(path: PurePath, target: PurePath) -> None:
            log.segments[1].file()
            rename(path, target)

        monkeypatch.setattr(files, "rename", beside_a_reader)
        log_dir.delete([ONE])
        assert [segment.open_file() for segment in log.segments] == [None] * len(log.segments)

    def test_a_stop_writes_no_file_of_a_log_that_is_as_the_last_stop_left_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = opened(tmp_path)
        fill(log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 3)
        log_dir.close({}, now_ms=NOON)
        again = opened(tmp_path)
        before = {path: path.stat().st_ino for path in (tmp_path / str(ONE)).iterdir()}
        again.close({}, now_ms=NOON)
        assert {path: path.stat().st_ino for path in (tmp_path / str(ONE)).iterdir()} == before

    @pytest.mark.rule(4, 60)
    def test_epochs_that_a_killed_process_left_are_not_taken_for_synced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may have been killed in a stop, before the one sync of all."""
        log_dir = opened(tmp_path)
        fill(log := log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 3)
        with log_dir.disk.syncing_once():
            log._store_epochs()
        crash(log_dir)
        again = opened(tmp_path).logs[ONE]
        written: list[object] = []
        monkeypatch.setattr(checkpoint, "write_epochs", lambda *arguments: written.append(arguments))
        again.flush(NOON)
        assert len(written) == 1
