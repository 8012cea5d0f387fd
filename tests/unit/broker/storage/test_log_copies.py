"""A copy of a leader's log knows what its batches do not show: where epochs began, and where the log starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from batches import NOON
from logs import SMALL, fill, headers_of, open_log, records_of, values_batch

from ottla_broker.machines.epochs import shown_by
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log import Log
from ottla_broker.storage.positioned import in_epoch
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.leader_epochs import EpochStart


def at_offset(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


@pytest.fixture
def leader(tmp_path: Path) -> Log:
    """Batches of ten records each, up to 60, in segments of a few batches; everything before 15 is deleted."""
    log = open_log(tmp_path / "leader")
    fill(log, 6, records=10)
    log.delete_records_before(15, log.log_end_offset)  # type: ignore[arg-type]  # all of it is committed
    return log


@pytest.fixture
def follower(tmp_path: Path) -> Log:
    """A log that is empty where the leader's starts."""
    log = open_log(tmp_path / "follower")
    log.truncate_fully_and_start_at(15)
    log.take_epoch(1)
    return log


# ---- a log that starts within a batch -------------------------------------------------------------------------------


@pytest.mark.story("start-within-a-batch-was-never-copied")
def test_a_log_that_starts_within_a_batch_is_copied_from_the_batch_on(leader: Log, follower: Log) -> None:
    records = leader.read(15, 1 << 20, 60)
    assert headers_of(records)[0].base_offset == 10
    assert not follower.is_shown(records, ())
    follower.copy(records, (), 15, NOON)
    assert (follower.log_start_offset, follower.log_end_offset) == (15, 60)
    assert [segment.base_offset for segment in follower.segments] == [10]
    assert follower.read(15, 1 << 20, 60) == records
    assert follower.epochs.entries == leader.epochs.entries == ((1, 15),)
    found = follower.offset_for_time(NOON, 60)
    assert found is not None
    assert found.offset >= 15


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("flushes", [True, False])
def test_a_copy_that_starts_within_a_batch_survives_a_restart(
    leader: Log, follower: Log, *, clean: bool, flushes: bool
) -> None:
    records = leader.read(15, 1 << 20, 60)
    follower.copy(records, (), 15, NOON)
    if flushes:
        follower.flush(NOON)
    assert follower.recovery_point == (60 if flushes else 10)
    if clean:
        follower.close(NOON)
    point = follower.recovery_point
    again = open_log(follower.directory, clean=clean, recovery_point=point, log_start_offset=15)
    assert (again.log_start_offset, again.log_end_offset) == (15, 60)
    assert again.read(15, 1 << 20, 60) == records
    assert again.epochs.entries == ((1, 15),)
    again.truncate_to(30)
    assert (again.log_start_offset, again.log_end_offset) == (15, 30)


def test_a_copy_whose_first_append_failed_ends_where_it_ended_and_may_try_again(
    tmp_path: Path, leader: Log, follower: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = leader.read(15, 1 << 20, 60)

    def full(*args: object) -> None:
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room", hint="")

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "append", full)
        with pytest.raises(OttlaError, match="no room"):
            follower.copy(records, (), 15, NOON)
    assert (follower.log_start_offset, follower.log_end_offset) == (15, 15)
    assert follower.epochs.entries == ((1, 15),)
    found = open_log(follower.directory, log_start_offset=15)  # a crash at this moment
    assert (found.log_start_offset, found.log_end_offset) == (15, 15)
    assert found.epochs.entries == ((1, 15),)
    for log in (follower, found):
        log.copy(records, (), 15, NOON)
        assert (log.log_start_offset, log.log_end_offset) == (15, 60)


def test_a_copy_truncated_within_its_first_batch_begins_anew_before_it(leader: Log, follower: Log) -> None:
    follower.copy(leader.read(15, 1 << 20, 60), (), 15, NOON)
    assert follower.truncate_to(17) == 10
    assert follower.log_start_offset == 10


def test_records_of_another_history_go_when_the_leader_starts_within_a_batch(tmp_path: Path, leader: Log) -> None:
    former = open_log(tmp_path / "former")
    fill(former, 3, records=5)
    records = leader.read(15, 1 << 20, 60)
    with pytest.raises(OttlaError, match="begins at offset 10") as refused:
        former.copy(records, (), 14, NOON)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    former.copy(records, (), 15, NOON)
    assert (former.log_start_offset, former.log_end_offset) == (15, 60)
    assert former.read(15, 1 << 20, 60) == records


def test_a_first_batch_leaves_what_is_too_far_away_for_its_segment(follower: Log) -> None:
    first = in_epoch(at_offset(values_batch(*[b"x"] * 10), 10), 1)
    distant = in_epoch(at_offset(values_batch(b"y"), 10 + 2**31), 1)
    assert follower.copy(first + distant, (), 15, NOON).last_offset == 19
    assert follower.append_replicated(distant, NOON).rolled
    assert [offset for offset, _ in records_of(follower.read(20, 1 << 20, 2**32))] == [10 + 2**31]


# ---- epochs that the batches do not show ----------------------------------------------------------------------------


@pytest.fixture
def compacted(tmp_path: Path) -> bytes:
    """What a clean has left of a log: epoch 1 from 0 to 19, nothing from 20 to 39, epoch 4 from 40 on."""
    log = open_log(tmp_path / "source")
    fill(log, 2, records=10)
    first = log.read(0, 1 << 20, 20)
    return first + in_epoch(at_offset(values_batch(*[b"v"] * 10), 40), 4)


TOLD = (EpochStart(1, 0), EpochStart(2, 25), EpochStart(4, 30))
"""Nothing is left of epoch 2, nor of the first ten records of epoch 4."""


@pytest.mark.story("epochs-of-a-copy-began-later")
@pytest.mark.parametrize("flushes", [True, False])
def test_a_copy_has_the_epochs_of_its_source(tmp_path: Path, compacted: bytes, *, flushes: bool) -> None:
    log = open_log(tmp_path / "copy")
    assert not log.is_shown(compacted, TOLD)
    log.copy(compacted, TOLD, 0, NOON)
    assert log.epochs.entries == TOLD
    if flushes:
        log.flush(NOON)
    again = open_log(log.directory, SMALL, recovery_point=log.recovery_point)
    assert again.epochs.entries == TOLD


def test_epochs_of_records_that_a_crash_took_are_not_found(tmp_path: Path, compacted: bytes) -> None:
    log = open_log(tmp_path / "copy")
    log.copy(compacted, TOLD, 0, NOON)
    path = Path(log.segments[0].path)
    path.write_bytes(path.read_bytes()[:-1])
    assert open_log(log.directory).epochs.entries == TOLD[:1]


def test_epochs_that_are_known_or_come_later_are_not_taken(tmp_path: Path, compacted: bytes) -> None:
    log = open_log(tmp_path / "copy")
    log.append_replicated(headers_and(compacted, 1), NOON)
    log.copy(headers_and(compacted, 2)[len(headers_and(compacted, 1)) :], (*TOLD, EpochStart(6, 50)), 0, NOON)
    assert log.epochs.entries == TOLD[:1]


def headers_and(records: bytes, batches: int) -> bytes:
    """The leading batches."""
    return records[: sum(header.size_bytes for header in headers_of(records)[:batches])]


def test_epochs_that_the_batches_show_need_nothing_on_disk(tmp_path: Path, leader: Log) -> None:
    leader.append(values_batch(b"later"), 3, NOON)
    log = open_log(tmp_path / "copy")
    log.truncate_fully_and_start_at(20)
    log.take_epoch(1)
    records = leader.read(20, 1 << 20, 61)
    assert log.is_shown(records, leader.epochs.between(1, 61))
    assert log.is_shown(records, ())
    log.append_replicated(records, NOON)
    assert log.epochs.entries == ((1, 20), (3, 60))
    assert open_log(log.directory).epochs.entries == ((1, 20), (3, 60))


def test_an_epoch_begins_where_the_last_batch_before_it_ends(tmp_path: Path) -> None:
    """A leader imports behind a gap, and is killed before its epochs are on disk."""
    log = open_log(tmp_path / "log")
    fill(log, 2, records=10)
    log.assign_epoch(3)
    imported = in_epoch(at_offset(values_batch(b"a", b"b"), 40), 3)
    assert shown_by(headers_of(imported), 20, 1) == [(3, 20)]
    log.append_replicated(imported, NOON)
    assert log.epochs.entries == ((1, 0), (3, 20))
    assert open_log(log.directory).epochs.entries == ((1, 0), (3, 20))
