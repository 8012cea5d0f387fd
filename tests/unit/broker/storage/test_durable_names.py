"""A file whose name is not on the platter is not there after a power cut: when directories are synced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from batches import NOON
from logs import SMALL, fill, open_log
from produced import produced

from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir
from ottla_core.model import PartitionId, TopicId

ME = DirectoryIdentity("cluster-a", 3, "AAAAAAAAAAAAAAAAAAAAAA")
ONE = PartitionId(TopicId(bytes(range(16))), 0)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the storage does to names and to the platter, in order: `sync <file>`, `remove <file>`, `cut <file>`."""
    steps: list[str] = []

    def name_of(fd: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{fd}")).name

    fsync, fdatasync, ftruncate, unlink = os.fsync, os.fdatasync, os.ftruncate, os.unlink

    def record_fsync(fd: int) -> None:
        steps.append(f"sync {name_of(fd)}")
        fsync(fd)

    def record_fdatasync(fd: int) -> None:
        steps.append(f"sync {name_of(fd)}")
        fdatasync(fd)

    def record_ftruncate(fd: int, size_bytes: int) -> None:
        steps.append(f"cut {name_of(fd)}")
        ftruncate(fd, size_bytes)

    def record_unlink(path: Path) -> None:
        unlink(path)
        steps.append(f"remove {Path(path).name}")

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "fdatasync", record_fdatasync)
    monkeypatch.setattr(os, "ftruncate", record_ftruncate)
    monkeypatch.setattr(os, "unlink", record_unlink)
    return steps


def directly_after(steps: list[str], first: str) -> str:
    return steps[steps.index(first) + 1]


@pytest.mark.rule(58)
def test_the_marker_of_an_orderly_stop_is_gone_from_the_platter_before_anything_is_written(
    tmp_path: Path, steps: list[str]
) -> None:
    data = tmp_path / "data"
    LogDir.open(data, ME, SMALL, now_ms=NOON).close({}, now_ms=NOON)
    steps.clear()
    LogDir.open(data, ME, SMALL, now_ms=NOON)
    assert steps[:3] == ["cut .lock", "remove .kafka_cleanshutdown", "sync data"]


@pytest.mark.rule(58)
def test_a_partitions_directory_is_on_the_platter_before_it_takes_records(tmp_path: Path, steps: list[str]) -> None:
    data = tmp_path / "data"
    log_dir = LogDir.open(data, ME, SMALL, now_ms=NOON)
    log_dir.vouch()
    steps.clear()
    log = log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
    assert steps[:3] == ["sync partition.metadata.tmp", f"sync {log.directory.name}", "sync data"]
    steps.clear()
    log_dir.delete([ONE])
    assert steps == ["sync data"], "nor does a deleted one come back"


@pytest.mark.rule(58)
def test_a_flush_keeps_the_name_of_a_new_segment(tmp_path: Path, steps: list[str]) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill(log, 1)
    steps.clear()
    log.flush(NOON)
    active = log.segments[-1].path.name
    epochs = ["sync leader-epoch-checkpoint.tmp", "sync log"]
    assert steps == [f"sync {active}", "sync log", *epochs], "and its epochs last before a start relies on them"
    steps.clear()
    fill(log, 1)
    log.flush(NOON)
    assert steps == [f"sync {active}"], "once is enough"
    fill(log, 30)
    steps.clear()
    log.flush(NOON)
    newest = log.segments[-1].path.name
    assert newest != active
    assert steps[-2:] == [f"sync {newest}", "sync log"]
    snapshot = f"{log.segments[-1].base_offset:020d}.snapshot"
    assert steps[:2] == [f"sync {snapshot}.tmp", "sync log"], "and that of a snapshot"


@pytest.mark.rule(58)
def test_what_recovery_cuts_off_is_gone_from_the_platter(tmp_path: Path, steps: list[str]) -> None:
    log = open_log(tmp_path / "log", LogConfig())
    fill(log, 5)
    path = log.segments[-1].path
    Path(path).write_bytes(Path(path).read_bytes()[:-1])
    steps.clear()
    open_log(log.directory, LogConfig())
    assert directly_after(steps, f"cut {path.name}") == f"sync {path.name}"


@pytest.mark.rule(29)
def test_a_snapshot_of_a_lost_tail_is_gone_from_the_platter_before_the_tail_is_written_anew(
    tmp_path: Path, steps: list[str]
) -> None:
    log = open_log(tmp_path / "log", LogConfig())
    log.append(produced(0, 15, producer_id=1), 1, NOON)
    log.close(NOON)
    path = log.segments[-1].path
    Path(path).write_bytes(Path(path).read_bytes()[:-1])
    steps.clear()
    open_log(log.directory, LogConfig())
    removed = steps.index(f"remove {15:020d}.snapshot")
    assert "sync log" in steps[removed:]


@pytest.mark.rule(60)
def test_a_cut_is_on_the_platter_before_it_returns(tmp_path: Path, steps: list[str]) -> None:
    log = open_log(tmp_path / "log", SMALL)
    for epoch in (1, 2):
        fill(log, 30, leader_epoch=epoch)
    log.flush(NOON)
    hit = [segment.path.name for segment in log.segments if segment.base_offset < 70][-1]
    snapshot = sorted(path.name for path in Path(log.directory).glob("*.snapshot"))[-1]
    steps.clear()
    log.truncate_to(70)
    assert steps.pop(0) == "sync log", "the segments after it are gone, or a power cut could leave them behind a hole"
    wanted = [f"cut {hit}", f"sync {hit}", f"remove {snapshot}", "sync log", "sync leader-epoch-checkpoint.tmp"]
    found = [steps.index(step) for step in wanted]
    assert found == sorted(found)


@pytest.mark.rule(21)
def test_nobody_vouches_for_a_short_directory_even_after_a_power_cut(tmp_path: Path, steps: list[str]) -> None:
    data = tmp_path / "data"
    LogDir.open(data, ME, SMALL, now_ms=NOON).vouch()
    (data / "boot-id").write_text("another boot\n")
    (data / ".lock").unlink()
    steps.clear()
    LogDir.open(data, ME, SMALL, now_ms=NOON)
    assert directly_after(steps, "remove boot-id-2") == "sync data"
