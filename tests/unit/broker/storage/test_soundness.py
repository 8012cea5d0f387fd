"""A start finds out whether everything that this broker had acknowledged is still there (rule C15, KIP-966)."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from batches import NOON
from logs import SMALL, fill

from ottla_broker.storage import checkpoint, files, soundness
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log_dir import LogDir, NewLog
from ottla_broker.storage.soundness import Incarnation
from ottla_core.errors import OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.batch import iter_headers

ME = DirectoryIdentity("cluster-a", 3, "AAAAAAAAAAAAAAAAAAAAAA")
ONE = PartitionId(TopicId(bytes(range(16))), 0)
TWO = PartitionId(ONE.topic_id, 1)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


def opened(path: Path) -> LogDir:
    return LogDir.open(path, ME, SMALL, now_ms=NOON)


@pytest.fixture
def running(tmp_path: Path) -> LogDir:
    """A directory that the cluster trusts, with a log of 30 records of which 20 are known to be committed."""
    log_dir = opened(tmp_path)
    log_dir.vouch()
    fill(log_dir.create(ONE, "flights", SMALL, now_ms=NOON), 10)
    log_dir.checkpoint({ONE: 20})
    return log_dir


def lose(log_dir: LogDir, size_bytes: int) -> None:
    """The end of the log is gone."""
    path = Path(log_dir.logs[ONE].segments[-1].path)
    path.write_bytes(path.read_bytes()[:-size_bytes])


def reboot(monkeypatch: pytest.MonkeyPatch, boot: str = "another boot") -> None:
    monkeypatch.setattr(files, "boot_id", lambda: boot)


def test_the_kernel_names_its_boot() -> None:
    assert files.boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip() != ""


@pytest.mark.rule(21)
def test_a_killed_process_loses_nothing(running: LogDir, tmp_path: Path) -> None:
    assert not running.may_have_lost_tail
    running.abandon()
    again = opened(tmp_path)
    assert not again.may_have_lost_tail
    again.abandon()
    assert not opened(tmp_path).may_have_lost_tail, "nor does it the second time"


def _a_bit(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 64]) + data[at + 1 :]


DAMAGES: dict[str, Callable[[bytes, int], bytes]] = {
    "a record": lambda data, begin: _a_bit(data, len(data) - 1),
    "a header": lambda data, begin: _a_bit(data, begin + 30),
    "the magic": lambda data, begin: _a_bit(data, begin + 16),
    "a length that goes beyond the file": lambda data, begin: _a_bit(data, begin + 8),
    "a length that is too small": lambda data, begin: data[: begin + 8] + bytes(4) + data[begin + 12 :],
}


@pytest.mark.rule(21, 58)
@pytest.mark.story("damage-passed-for-a-torn-append")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("number", [1, 2])
def test_what_a_disk_has_damaged_may_have_been_acknowledged(
    running: LogDir, tmp_path: Path, damage: str, number: int
) -> None:
    """Though the log still reaches what the checkpoints promise. No kill leaves such bytes."""
    path = Path(running.logs[ONE].segments[-1].path)
    begins = [at for at, _ in iter_headers(path.read_bytes())]
    data = DAMAGES[damage](path.read_bytes(), begins[-number])
    path.write_bytes(data)
    running.abandon()
    again = opened(tmp_path)
    assert again.logs[ONE].log_end_offset >= 20
    assert again.may_have_lost_tail


@pytest.mark.rule(21, 58)
@pytest.mark.story("orderly-start-trusted-the-last-header")
@pytest.mark.parametrize("damage", [*DAMAGES, "a base offset that is too large", "a base offset that is too small"])
def test_an_orderly_start_finds_damage_of_the_last_batch(running: LogDir, tmp_path: Path, damage: str) -> None:
    """The header of that batch says where the log ends. The CRC does not cover its base offset."""
    running.close({ONE: 30}, now_ms=NOON)
    path = Path(running.logs[ONE].segments[-1].path)
    data = path.read_bytes()
    *_, begin = [at for at, _ in iter_headers(data)]
    if damage.startswith("a base offset"):
        base = 27 + 2**20 if damage.endswith("large") else 25
        path.write_bytes(data[:begin] + base.to_bytes(8) + data[begin + 8 :])
    else:
        path.write_bytes(DAMAGES[damage](data, begin))
    again = opened(tmp_path)
    assert again.logs[ONE].log_end_offset == 27
    assert again.may_have_lost_tail


@pytest.mark.rule(58)
@pytest.mark.story("orderly-start-trusted-the-last-header")
@pytest.mark.parametrize("at", [5, 26, 70])
def test_a_bit_that_one_read_flips_at_an_orderly_start_does_no_harm(
    running: LogDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """In the base offset, in the last offset delta, or in a record of the last batch."""
    running.close({ONE: 30}, now_ms=NOON)
    path = Path(running.logs[ONE].segments[-1].path)
    *_, begin = [at for at, _ in iter_headers(path.read_bytes())]
    read, flips = files.DataFile.read, [begin + at]

    def flipped(file: files.DataFile, position: int, size_bytes: int) -> bytes:
        data = read(file, position, size_bytes)
        if file.path == path and flips and position <= flips[0] < position + len(data):
            data = _a_bit(data, flips.pop() - position)
        return data

    monkeypatch.setattr(files.DataFile, "read", flipped)
    again = opened(tmp_path)
    assert not flips
    assert (again.logs[ONE].log_end_offset, again.may_have_lost_tail) == (30, False)


@pytest.mark.rule(21)
def test_an_append_that_the_kill_cut_short_was_acknowledged_to_nobody(running: LogDir, tmp_path: Path) -> None:
    lose(running, 1)
    running.abandon()
    again = opened(tmp_path)
    assert again.logs[ONE].log_end_offset == 27
    assert not again.may_have_lost_tail


@pytest.mark.rule(21)
def test_a_machine_that_went_down_may_have_taken_a_tail_along(
    running: LogDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.abandon()
    reboot(monkeypatch)
    assert opened(tmp_path).may_have_lost_tail


@pytest.mark.rule(21)
def test_an_orderly_stop_outlives_the_machine(running: LogDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running.close({ONE: 30}, now_ms=NOON)
    reboot(monkeypatch)
    again = opened(tmp_path)
    assert not again.may_have_lost_tail
    assert (tmp_path / "boot-id").read_text().startswith("another boot\n")
    again.abandon()
    reboot(monkeypatch, "a third")
    assert opened(tmp_path).may_have_lost_tail, "it was vouched for under the second boot"


@pytest.mark.rule(16, 21)
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_ends_before_its_high_watermark_has_lost_something(
    running: LogDir, tmp_path: Path, clean: bool
) -> None:
    if clean:
        running.close({}, now_ms=NOON)
    else:
        running.abandon()
    path = Path(running.logs[ONE].segments[-1].path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    again = opened(tmp_path)
    assert again.logs[ONE].log_end_offset < 20
    assert again.may_have_lost_tail


@pytest.mark.story("directory-of-a-partition-is-gone")
@pytest.mark.rule(16, 21)
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_whose_directory_is_gone_has_lost_everything(running: LogDir, tmp_path: Path, clean: bool) -> None:
    if clean:
        running.close({}, now_ms=NOON)
    else:
        running.abandon()
    shutil.rmtree(tmp_path / str(ONE))
    for _ in range(2):
        again = opened(tmp_path)
        assert again.may_have_lost_tail, "also the second time, although no checkpoint tells of it any more"
        again.abandon()


@pytest.mark.story("directory-gone-before-a-checkpoint")
@pytest.mark.rule(21)
def test_a_log_that_no_checkpoint_told_of_is_missed_by_the_cluster_alone(running: LogDir, tmp_path: Path) -> None:
    running.create(TWO, "flights", SMALL, now_ms=NOON)
    running.abandon()
    shutil.rmtree(tmp_path / str(TWO))
    again = opened(tmp_path)
    assert not again.may_have_lost_tail, "by its own evidence"
    again.expect({ONE, TWO}, {TWO})
    again.create(TWO, "flights", SMALL, now_ms=NOON)
    assert again.may_have_lost_tail
    assert not again.has_all_of(TWO)
    again.abandon()
    third = opened(tmp_path)
    third.expect({ONE, TWO}, {TWO})
    assert third.may_have_lost_tail, "the log that was made in its place is not that one"


def test_a_log_that_nobody_counts_on_may_be_missing(running: LogDir, tmp_path: Path) -> None:
    running.abandon()
    again = opened(tmp_path)
    again.expect({ONE, TWO}, {ONE})
    assert not again.may_have_lost_tail
    again.create(TWO, "flights", SMALL, now_ms=NOON)
    assert again.has_all_of(ONE)
    assert not again.has_all_of(TWO)


@pytest.mark.rule(21)
def test_a_flushed_log_whose_directory_is_gone_had_something_committed_perhaps(running: LogDir, tmp_path: Path) -> None:
    running.logs[ONE].flush(NOON)
    running.checkpoint({ONE: 0})
    running.abandon()
    shutil.rmtree(tmp_path / str(ONE))
    assert opened(tmp_path).may_have_lost_tail


@pytest.mark.rule(21)
@pytest.mark.parametrize("freed", [True, False])
def test_a_partition_that_was_deleted_is_no_loss(running: LogDir, tmp_path: Path, freed: bool) -> None:
    running.delete([ONE])
    if freed:
        assert running.remove_deleted() == 1
    running.abandon()
    again = opened(tmp_path)
    assert not again.may_have_lost_tail
    again.remove_deleted()
    again.abandon()
    assert not opened(tmp_path).may_have_lost_tail


@pytest.mark.rule(21)
@pytest.mark.parametrize("clean", [True, False])
def test_a_loss_stays_known_until_the_cluster_is_told(running: LogDir, tmp_path: Path, clean: bool) -> None:
    """A start that ends before it has registered must not hide what it found."""
    running.abandon()
    (tmp_path / "boot-id").write_text("another boot\n")
    for _ in range(2):
        again = opened(tmp_path)
        assert again.may_have_lost_tail
        if clean:
            again.close({}, now_ms=NOON)
        else:
            again.abandon()
    last = opened(tmp_path)
    last.vouch()
    assert not last.may_have_lost_tail
    last.abandon()
    assert not opened(tmp_path).may_have_lost_tail


@pytest.mark.rule(21)
def test_a_new_directory_has_nothing_that_another_disk_may_have_had(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    assert log_dir.may_have_lost_tail
    log_dir.close({}, now_ms=NOON)
    assert opened(tmp_path).may_have_lost_tail


@pytest.mark.rule(20, 21)
def test_after_a_failed_fsync_nobody_vouches(running: LogDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may have dropped the pages: the next process of the same boot finds less than was acknowledged."""

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fails)
        with pytest.raises(OttlaError, match="goes offline"):
            running.logs[ONE].flush(NOON)
    running.abandon()
    assert opened(tmp_path).may_have_lost_tail


@pytest.mark.rule(21)
@pytest.mark.parametrize("kernel", ["", "same"])
def test_without_a_boot_id_only_an_orderly_stop_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    reboot(monkeypatch, kernel)
    log_dir = opened(tmp_path)
    log_dir.vouch()
    log_dir.abandon()
    killed = opened(tmp_path)
    assert killed.may_have_lost_tail == (not kernel)
    killed.vouch()
    killed.close({}, now_ms=NOON)
    assert not opened(tmp_path).may_have_lost_tail


@pytest.mark.rule(60)
def test_a_replica_that_comes_back_is_not_taken_for_its_former_self(running: LogDir, tmp_path: Path) -> None:
    running.logs[ONE].flush(NOON)
    running.checkpoint({})
    running.delete([ONE])
    log = running.create(ONE, "flights", SMALL, now_ms=NOON)
    assert running.high_watermark(ONE) == 0
    for name in (checkpoint.RECOVERY_POINTS, checkpoint.HIGH_WATERMARKS):
        assert checkpoint.read_offsets(tmp_path / name).get(ONE, 0) == 0
    fill(log, 15)
    running.abandon()
    again = opened(tmp_path)
    assert (again.high_watermark(ONE), again.logs[ONE].recovery_point) == (0, 0)
    assert not again.may_have_lost_tail


# ---- another incarnation's directory is an old copy (rule C17) -------------------------------------------------------

FIRST, SECOND = Incarnation("first", 10), Incarnation("second", 20)


@pytest.mark.rule(21)
@pytest.mark.parametrize("clean", [True, False])
def test_a_directory_names_the_life_that_it_has_everything_of(running: LogDir, tmp_path: Path, clean: bool) -> None:
    running.vouch(FIRST)
    if clean:
        running.close({ONE: 20}, now_ms=NOON)
    else:
        running.abandon()
    again = opened(tmp_path)
    assert (again.incarnation, again.may_have_lost_tail) == (FIRST, False)
    assert again.compare(FIRST) is False
    assert not again.may_have_lost_tail
    again.abandon()


@pytest.mark.rule(21)
@pytest.mark.parametrize(
    ("newest", "ahead"),
    [(SECOND, False), (Incarnation("another", 10), False), (Incarnation("former", 9), True), (None, True)],
)
def test_a_life_that_the_cluster_does_not_know_as_the_newest_vouches_for_nothing(
    running: LogDir, tmp_path: Path, newest: Incarnation | None, ahead: bool
) -> None:
    """An old copy of the volume, or a store that is older than the data."""
    running.vouch(FIRST)
    running.close({ONE: 20}, now_ms=NOON)
    again = opened(tmp_path)
    assert again.compare(newest) is ahead
    assert again.may_have_lost_tail
    again.vouch(SECOND)  # the cluster has been told
    again.close({ONE: 20}, now_ms=NOON)
    third = opened(tmp_path)
    assert third.compare(SECOND) is False
    assert not third.may_have_lost_tail


@pytest.mark.story("old-copy-of-a-volume")
@pytest.mark.rule(21)
def test_an_old_copy_of_a_directory_that_was_closed_in_order_names_an_old_life(running: LogDir, tmp_path: Path) -> None:
    running.vouch(FIRST)
    running.close({ONE: 20}, now_ms=NOON)
    shutil.copytree(tmp_path, copy := tmp_path.with_name(f"{tmp_path.name}-copy"))
    again = opened(tmp_path)
    again.vouch(SECOND)
    again.close({ONE: 30}, now_ms=NOON)
    old = opened(copy)
    assert not old.may_have_lost_tail, "by its own evidence"
    assert not old.compare(SECOND)
    assert old.may_have_lost_tail


@pytest.mark.story("copy-of-a-directory-in-use")
@pytest.mark.rule(21)
def test_a_copy_of_a_directory_in_use_vouches_for_nothing(running: LogDir, tmp_path: Path) -> None:
    """The same boot, and another file."""
    running.vouch(FIRST)
    shutil.copytree(tmp_path, copy := tmp_path.with_name(f"{tmp_path.name}-copy"))
    running.abandon()
    assert opened(copy).may_have_lost_tail
    assert not opened(tmp_path).may_have_lost_tail


@pytest.mark.parametrize("text", ["", "no json", "{}", '{"version":0,"brokerEpoch":-1}', '{"directoryId":"another"}'])
def test_a_marker_of_an_older_release_or_another_directory_names_no_life(
    running: LogDir, tmp_path: Path, text: str
) -> None:
    running.close({ONE: 20}, now_ms=NOON)
    (tmp_path / soundness.CLEAN_SHUTDOWN).write_text(text)
    again = opened(tmp_path)
    assert (again.incarnation, again.may_have_lost_tail) == (None, True)


def test_on_a_full_disk_the_vouch_holds_for_this_process_only(
    running: LogDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(soundness, "write_vouch", full)
        running.vouch(SECOND)
    assert not running.may_have_lost_tail
    running.abandon()
    assert opened(tmp_path).may_have_lost_tail


@pytest.mark.story("stray-counts-as-whole")
def test_what_was_set_aside_is_not_all_there(running: LogDir, tmp_path: Path) -> None:
    running.vouch(FIRST)
    running.close({ONE: 20}, now_ms=NOON)
    again = opened(tmp_path)
    assert again.has_all_of(ONE)
    again.set_strays_aside(set(), now_ms=NOON)
    again.create(ONE, "flights", SMALL, now_ms=NOON)
    assert not again.has_all_of(ONE), "an empty log, beside one that was set aside"
    assert not opened_new(tmp_path.with_name(f"{tmp_path.name}-new")).has_all_of(ONE)


def opened_new(path: Path) -> LogDir:
    log_dir = opened(path)
    log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
    return log_dir


# ---- a copy that is put back in place --------------------------------------------------------------------------------


def without_later_segments(copy: Path, path: Path) -> None:
    for segment in path.rglob("*.log"):
        if not (copy / segment.relative_to(path)).exists():
            segment.unlink()


def copied_over(copy: Path, path: Path) -> None:
    """Put a copy back as `cp -a` does: a file that is there keeps its inode, and takes the copy's modification time."""
    for source in (each for each in copy.rglob("*") if each.is_file()):
        target = path / source.relative_to(copy)
        target.write_bytes(source.read_bytes())
        shutil.copystat(source, target)
    without_later_segments(copy, path)


def synchronized(copy: Path, path: Path) -> None:
    """Put a copy back as `rsync -a` does: what seems to be equal is left alone, and other files get a new inode."""
    for source in (each for each in copy.rglob("*") if each.is_file()):
        target = path / source.relative_to(copy)
        there, status = (target.stat() if target.exists() else None), source.stat()
        if there is None or (there.st_size, there.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
            shutil.copy2(source, temporary := target.with_name("rsynced"))
            temporary.rename(target)
    without_later_segments(copy, path)


def work(log_dir: LogDir, end: int) -> None:
    """Append up to that offset, commit it, and have the next checkpoint written, as every few seconds."""
    fill(log_dir.logs[ONE], (end - log_dir.logs[ONE].log_end_offset) // 3)
    log_dir.checkpoint({ONE: end})
    log_dir.renew_vouch()


@pytest.mark.story("copy-put-back-in-place")
@pytest.mark.rule(21)
@pytest.mark.parametrize("checkpoints", [1, 2, 3])
@pytest.mark.parametrize("put_back", [copied_over, synchronized])
def test_a_copy_that_is_put_back_in_place_vouches_for_nothing(
    running: LogDir, tmp_path: Path, put_back: Callable[[Path, Path], None], checkpoints: int
) -> None:
    """The copy is of the same incarnation, boot and inodes, and its logs reach its checkpoints."""
    running.vouch(FIRST)
    work(running, 33)
    shutil.copytree(tmp_path, copy := tmp_path.with_name(f"{tmp_path.name}-copy"))
    for n in range(1, checkpoints + 1):
        work(running, 33 + 3 * n)
    running.abandon()
    put_back(copy, tmp_path)
    again = opened(tmp_path)
    assert again.logs[ONE].log_end_offset == 33
    assert again.may_have_lost_tail


@pytest.mark.story("copy-put-back-beside-the-marker")
@pytest.mark.rule(21)
@pytest.mark.parametrize("put_back", [copied_over, synchronized])
def test_a_copy_that_is_put_back_leaves_the_marker_of_a_clean_stop_without_meaning(
    running: LogDir, tmp_path: Path, put_back: Callable[[Path, Path], None]
) -> None:
    """The copy was made while the broker ran, so it has no marker, and the one that is there stays."""
    running.vouch(FIRST)
    work(running, 33)
    shutil.copytree(tmp_path, copy := tmp_path.with_name(f"{tmp_path.name}-copy"))
    work(running, 36)
    running.close({ONE: 36}, now_ms=NOON)
    put_back(copy, tmp_path)
    assert (tmp_path / soundness.CLEAN_SHUTDOWN).exists()
    again = opened(tmp_path)
    assert again.may_have_lost_tail
    assert not again.has_all_of(ONE)


@pytest.mark.rule(21)
def test_a_log_alone_that_is_put_back_does_not_reach_its_checkpoints(running: LogDir, tmp_path: Path) -> None:
    work(running, 33)
    shutil.copytree(tmp_path / str(ONE), copy := tmp_path.with_name(f"{tmp_path.name}-copy"))
    work(running, 36)
    running.abandon()
    copied_over(copy, tmp_path / str(ONE))
    assert opened(tmp_path).may_have_lost_tail


@pytest.mark.rule(21)
@pytest.mark.parametrize("left_at", range(4))
def test_a_kill_between_any_two_steps_of_a_renewal_loses_no_proof(
    running: LogDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_at: int
) -> None:
    """They are: create a temporary file, write it, and rename it."""
    running.vouch(FIRST)
    work(running, 33)
    running.checkpoint({ONE: 30})
    left = [left_at]

    def killed_at(step: Callable[..., object]) -> Callable[..., object]:
        def stepped(*arguments: object) -> object:
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            return step(*arguments)

        return stepped

    with monkeypatch.context() as patched:
        for owner, name in ((files, "open_empty"), (files.DataFile, "write_all"), (files, "rename")):
            patched.setattr(owner, name, killed_at(getattr(owner, name)))
        try:
            running.renew_vouch()
        except KeyboardInterrupt:
            assert left_at < 3
    running.abandon()
    again = opened(tmp_path)
    assert (again.incarnation, again.may_have_lost_tail) == (FIRST, False)


def test_a_vouch_is_renewed_where_a_checkpoint_was_written_alone(running: LogDir, tmp_path: Path) -> None:
    def vouches() -> list[str]:
        return [files.version(tmp_path / name) for name in soundness.VOUCHES]

    running.renew_vouch()
    before = vouches()
    running.checkpoint({ONE: 20})
    running.renew_vouch()
    assert vouches() == before, "an idle broker writes nothing"
    work(running, 33)
    assert sum(a != b for a, b in zip(before, vouches(), strict=True)) == 1


def test_nobody_renews_what_was_withdrawn(running: LogDir, tmp_path: Path) -> None:
    running.vouch(FIRST)
    work(running, 33)
    running.disk.fail("a test", OSError(errno.EIO, "Input/output error"))
    running._is_renewal_due = True
    running.renew_vouch()
    assert not any((tmp_path / name).exists() for name in soundness.VOUCHES)


def test_a_renewal_for_which_there_is_no_room_is_tried_again(
    running: LogDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.vouch(FIRST)
    fill(running.logs[ONE], 1)
    running.checkpoint({ONE: 33})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(files.DataFile, "write_all", full)
        with pytest.raises(OttlaError, match="no space left"):
            running.renew_vouch()
    before = files.version(tmp_path / soundness.BOOT_ID), files.version(tmp_path / soundness.VOUCHES[1])
    running.renew_vouch()
    assert before != (files.version(tmp_path / soundness.BOOT_ID), files.version(tmp_path / soundness.VOUCHES[1]))
    running.abandon()
    assert not opened(tmp_path).may_have_lost_tail


@pytest.mark.story("snapshot-put-back-under-the-file-system")
@pytest.mark.rule(21)
@pytest.mark.parametrize("starts", [1, 2])
@pytest.mark.parametrize("clean", [True, False])
def test_a_snapshot_below_the_file_system_has_fewer_renewals_than_the_store(
    running: LogDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: bool, starts: int
) -> None:
    """It brings all files back as they were, change times included, and no start of it hides how old it is."""
    monkeypatch.setattr(files, "version", lambda path: "as it was")
    running.vouch(FIRST)
    work(running, 33)
    shutil.copytree(tmp_path, snapshot := tmp_path.with_name(f"{tmp_path.name}-snapshot"))
    snapshot_renewals = running.renewals
    if clean:
        running.close({ONE: 33}, now_ms=NOON)
    else:
        work(running, 36)
        running.abandon()
    reported = running.renewals
    assert reported == snapshot_renewals + 1
    for number in range(starts):
        again = opened(snapshot)
        assert not again.may_have_lost_tail, "by its own evidence"
        if number < starts - 1:
            again.abandon()
    assert not again.compare(FIRST, reported)
    assert (again.may_have_lost_tail, again.has_all_of(ONE)) == (True, False)


@pytest.mark.rule(21)
@pytest.mark.parametrize("clean", [True, False])
def test_a_directory_that_is_no_copy_has_all_renewals_that_were_reported(
    running: LogDir, tmp_path: Path, clean: bool
) -> None:
    running.vouch(FIRST)
    work(running, 33)
    if clean:
        running.close({ONE: 33}, now_ms=NOON)
    else:
        running.abandon()
    for _ in range(2):
        again = opened(tmp_path)
        again.compare(FIRST, running.renewals)
        assert not again.may_have_lost_tail
        again.abandon()


# ---- a log that lacks its end ----------------------------------------------------------------------------------------


@pytest.mark.story("short-log-sound-after-an-orderly-stop")
@pytest.mark.rule(21)
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("short", ["a machine that went down", "a log that is too short", "a log that is gone"])
def test_a_log_that_lacks_its_end_does_until_its_replica_is_in_sync_again(
    running: LogDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: str, clean: bool
) -> None:
    running.create(TWO, "flights", SMALL, now_ms=NOON)
    running.abandon()
    if short == "a machine that went down":
        reboot(monkeypatch)
    elif short == "a log that is too short":
        lose(running, 1000)
    else:
        shutil.rmtree(tmp_path / str(ONE))
    for _ in range(3):
        log_dir = opened(tmp_path)
        log_dir.expect({ONE, TWO}, {ONE})
        log_dir.create(ONE, "flights", SMALL, now_ms=NOON)
        assert not log_dir.has_all_of(ONE)
        log_dir.vouch(FIRST)  # the cluster has been told
        assert not log_dir.has_all_of(ONE)
        if clean:
            log_dir.close({}, now_ms=NOON)
        else:
            log_dir.abandon()
    log_dir = opened(tmp_path)
    assert not log_dir.may_have_lost_tail
    log_dir.on_in_sync([ONE, TWO])
    assert (log_dir.incomplete, log_dir.has_all_of(ONE)) == (0, True)
    log_dir.checkpoint({})
    log_dir.abandon()
    assert opened(tmp_path).has_all_of(ONE)


@pytest.mark.story("old-copy-was-sound")
@pytest.mark.rule(21)
def test_the_logs_of_an_old_copy_may_lack_records_and_those_of_a_restored_store_do_not(
    running: LogDir, tmp_path: Path
) -> None:
    """If the directory knows a later incarnation than the store, its logs are what decides."""
    running.vouch(FIRST)
    running.close({ONE: 30}, now_ms=NOON)
    again = opened(tmp_path)
    assert again.compare(Incarnation("earlier", 5))
    assert again.has_all_of(ONE)
    assert not again.compare(SECOND)
    again.vouch(SECOND)
    assert not again.has_all_of(ONE)
    again.close({ONE: 30}, now_ms=NOON)
    third = opened(tmp_path)
    assert not third.compare(SECOND)
    assert (third.may_have_lost_tail, third.has_all_of(ONE)) == (False, False)


def test_a_new_log_of_a_directory_that_is_trusted_lacks_nothing(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log_dir.expect({ONE}, set())
    log_dir.vouch(FIRST)
    log_dir.create_all([NewLog(ONE, "flights", SMALL), NewLog(TWO, "flights", SMALL)], now_ms=NOON)
    assert not log_dir.has_all_of(ONE), "a former disk may have had it"
    assert log_dir.has_all_of(TWO)
    log_dir.delete([ONE])
    assert log_dir.incomplete == 0
