"""What an idempotent producer repeats is written once: through restarts, crashes, lost snapshots (rules 25 to 30)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from batches import NOON, raw_batch, raw_record
from logs import SMALL, all_records, fill, open_log, values_batch
from produced import known, produced, stored_bytes, stored_headers, told_by

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage import producer_snapshot
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log import AppendResult, Log
from ottla_broker.storage.log_config import DAY_MS, LogConfig, TimestampType
from ottla_broker.storage.producer_snapshot import ProducerSnapshot
from ottla_broker.storage.segment import Segment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import TRANSACTIONAL


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "log", LogConfig())


def fill_with_producers(log: Log, batches: int, *, start: int = 0, producers: int = 3) -> None:
    """Batches of two records, the producers in turn; flushed now and then."""
    for n in range(start, start + batches):
        log.append(produced(n // producers * 2, 2, producer_id=n % producers), 1, NOON)
        if n % 10 == 0:
            log.flush(NOON)


def snapshots(log: Log) -> list[int]:
    return producer_snapshot.offsets_in(os.listdir(log.directory))


def refused(log: Log, records: bytes) -> ErrorCode:
    """The code of the error, which must leave the log as it was."""
    before = stored_bytes(log), log.log_end_offset, known(log.producers)
    with pytest.raises(OttlaError) as caught:
        log.append(records, 1, NOON)
    assert (stored_bytes(log), log.log_end_offset, known(log.producers)) == before
    return ErrorCode(caught.value.code)


@pytest.mark.rule(25)
def test_a_repeat_is_not_written_and_answered_as_the_original_was(log: Log) -> None:
    fill(log, 2)
    first, second = produced(0, 3), produced(3, 2)
    answers = [log.append(batch, 1, NOON) for batch in (first, second)]
    data = stored_bytes(log)
    for batch, answer in zip((first, second), answers, strict=True):
        again = log.append(batch, 1, NOON + 5)
        assert again == AppendResult(answer.base_offset, answer.last_offset, -1, 0, 0, rolled=False, duplicate=True)
        assert not answer.duplicate
    assert log.append(first + second, 1, NOON)[:2] == (6, 10)
    assert (stored_bytes(log), log.log_end_offset) == (data, 11)


@pytest.mark.rule(25)
def test_with_append_time_a_repeat_has_the_time_of_the_original(log: Log) -> None:
    log.config = LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert log.append(produced(0, at_ms=5), 1, NOON).log_append_time_ms == NOON
    again = log.append(produced(0, at_ms=5), 1, NOON + 5000)
    assert (again.log_append_time_ms, again.duplicate) == (NOON, True)


@pytest.mark.rule(26, 27, 31)
def test_what_is_out_of_line_is_refused_whole(log: Log) -> None:
    log.append(produced(0, epoch=1), 1, NOON)
    assert refused(log, produced(2, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, produced(1, epoch=1) + produced(3, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, values_batch(b"x") + produced(5, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, produced(1, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, produced(0, epoch=1) + produced(1, epoch=1)) == ErrorCode.INVALID_REQUEST
    assert log.append(produced(1, epoch=1) + produced(2, epoch=1), 1, NOON).base_offset == 1


@pytest.mark.rule(27)
def test_a_batch_that_could_not_be_written_is_no_repeat_when_it_comes_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(os, "pwritev", lambda *_: 20)
        assert refused(log, produced(0)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.append(produced(0), 1, NOON).duplicate


@pytest.mark.rule(26)
@pytest.mark.parametrize(
    "fields",
    [
        {"producer_id": 1, "producer_epoch": -1, "base_sequence": 0},
        {"producer_id": 1, "producer_epoch": 0, "base_sequence": -1},
        {"producer_id": -2, "producer_epoch": 0, "base_sequence": 0},
    ],
)
def test_a_producer_that_is_half_there_is_refused(log: Log, fields: dict[str, int]) -> None:
    assert refused(log, raw_batch(raw_record(0), **fields)) == ErrorCode.INVALID_RECORD


def test_transactions_are_refused_in_words(log: Log) -> None:
    batch = raw_batch(raw_record(0), producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    assert refused(log, batch) == ErrorCode.INVALID_REQUEST


@pytest.mark.rule(29)
@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_forgets_no_producer(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill_with_producers(log, 100)
    before = known(log.producers)
    assert before == told_by(stored_headers(log))
    if clean:
        log.close(NOON)
    again = open_log(log.directory, SMALL, clean=clean)
    assert known(again.producers) == before
    assert again.append(produced(66, 2, producer_id=0), 1, NOON).duplicate
    assert again.append(produced(64, 2, producer_id=0), 1, NOON) == (192, 193, -1, 0, 0, False, True)
    assert refused(again, produced(70, 2, producer_id=0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not again.append(produced(68, 2, producer_id=0), 1, NOON).duplicate


@pytest.mark.rule(29)
def test_a_snapshot_is_taken_where_the_log_rolls_and_written_by_a_flush(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    while len(log.segments) < 3:
        fill_with_producers(log, 1, start=log.log_end_offset // 2)
    last_roll = log.segments[-1].base_offset
    at_the_roll = told_by([header for header in stored_headers(log) if header.base_offset < last_roll])
    fill_with_producers(log, 1, start=log.log_end_offset // 2)
    log.flush(NOON)
    assert snapshots(log)[-1] == last_roll
    path = producer_snapshot.path_of(log.directory, last_roll)
    kept = open_log(tmp_path / "empty", SMALL).producers.__class__(
        producer_snapshot.decode(Path(path).read_bytes()).producers
    )
    assert known(kept) == at_the_roll


@pytest.mark.rule(29)
def test_after_an_orderly_stop_no_batch_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill_with_producers(log, 100)
    log.close(NOON)
    assert snapshots(log)[-1] == 200
    seen: list[int] = []

    def noted(real: Callable[[Segment, int], object]) -> Callable[[Segment, int], object]:
        def walk(segment: Segment, position: int) -> object:
            seen.append(segment.base_offset)
            return real(segment, position)

        return walk

    for walk in ("headers_from", "settled_from"):
        monkeypatch.setattr(Segment, walk, noted(getattr(Segment, walk)))
    again = open_log(log.directory, SMALL, clean=True)
    with_producers = len(seen)
    assert len(known(again.producers)) == 3
    seen.clear()
    for path in Path(log.directory).glob("*.snapshot"):
        path.unlink()
    assert known(open_log(log.directory, SMALL, clean=True).producers) == known(again.producers)
    assert len(seen) == with_producers + len(again.segments)


@pytest.mark.rule(29)
def test_a_log_that_nothing_was_appended_to_keeps_its_snapshot(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill_with_producers(log, 5)
    log.close(NOON)
    path = producer_snapshot.path_of(log.directory, 10)
    written = Path(path).stat().st_mtime_ns
    again = open_log(log.directory, SMALL, clean=True)
    again.close(NOON)
    assert Path(path).stat().st_mtime_ns == written
    more = open_log(log.directory, SMALL, clean=True)
    fill_with_producers(more, 1, start=5)
    more.close(NOON)
    open_log(log.directory, SMALL, clean=True)
    assert snapshots(log) == [12], "one that is neither the newest nor where a segment begins is of no use"


def test_a_log_without_producers_says_so_in_its_snapshot(tmp_path: Path) -> None:
    """Else the next start would have to read all of it to find none."""
    log = open_log(tmp_path / "log", LogConfig())
    log.close(NOON)
    assert snapshots(log) == []
    log = open_log(tmp_path / "log", LogConfig(), clean=True)
    fill(log, 5)
    log.close(NOON)
    assert snapshots(log) == [], "of a few kilobytes it does"
    log = open_log(tmp_path / "log", LogConfig(), clean=True)
    fill(log, 500)
    log.close(NOON)
    assert snapshots(log) == [1515]


@pytest.mark.rule(29)
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "version", "gone", "length"])
def test_a_damaged_snapshot_costs_time_and_no_answer(tmp_path: Path, damage: str) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill_with_producers(log, 100)
    log.close(NOON)
    before, offsets = known(log.producers), snapshots(log)
    assert len(offsets) > 2
    for offset in reversed(offsets):  # one after the other, until none is left
        path = producer_snapshot.path_of(log.directory, offset)
        data = bytearray(Path(path).read_bytes())
        if damage == "flip":
            data[-3] ^= 4
        elif damage == "cut":
            data = data[:-7]
        elif damage == "empty":
            data.clear()
        elif damage == "version":
            data[1] = 1
        elif damage == "length":
            data = bytearray(producer_snapshot.encode(ProducerSnapshot({5: b"too short"})))
        Path(path).write_bytes(data)
        if damage == "gone":
            Path(path).unlink()
        again = open_log(log.directory, SMALL, clean=True)
        assert known(again.producers) == before
        assert offset not in snapshots(again)


@pytest.mark.rule(29)
def test_a_snapshot_of_a_lost_tail_is_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig())
    fill_with_producers(log, 10)
    log.close(NOON)
    assert snapshots(log) == [20]
    path = log.segments[-1].path
    Path(path).write_bytes(Path(path).read_bytes()[:-1])
    again = open_log(log.directory, LogConfig())
    assert again.log_end_offset == 18
    assert snapshots(again) == []
    assert known(again.producers) == told_by(stored_headers(again))
    assert not again.append(produced(6, 2, producer_id=0), 1, NOON).duplicate, "the one that was lost"


@pytest.mark.rule(29)
def test_snapshots_go_with_their_segments_but_for_the_newest(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill_with_producers(log, 150)
    log.flush(NOON)
    kept = log.segments[3].base_offset
    assert snapshots(log)[0] < kept < snapshots(log)[-1]
    log.delete_records_before(kept, HighWatermark(300))
    assert snapshots(log)[0] >= kept
    newest = snapshots(log)[-1]
    log.delete_records_before(300, HighWatermark(300))
    assert snapshots(log) == [newest]
    again = open_log(log.directory, SMALL, log_start_offset=300)
    assert len(known(again.producers)) == 3, "who wrote what retention took is remembered"
    assert again.append(produced(98, 2, producer_id=2), 1, NOON).duplicate


@pytest.mark.rule(29)
def test_the_newest_snapshot_stays_where_a_full_disk_lets_none_follow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill_with_producers(log, 40)
    log.flush(NOON)
    newest = snapshots(log)[-1]
    fill(log, 30)
    end = log.log_end_offset
    log.delete_records_before(end, HighWatermark(end))
    real = Disk._write_anew

    def write_anew(disk: Disk, path: Path, content: str | bytes) -> None:
        if path.suffix == ".snapshot":
            raise OSError(28, "No space left on device")
        real(disk, path, content)

    monkeypatch.setattr(Disk, "_write_anew", write_anew)
    with pytest.raises(OttlaError, match="No space left"):
        log.secure_deletion()
    log.delete_old_segments(HighWatermark(end), NOON)
    assert log.segments[0].base_offset > newest
    assert snapshots(log) == [newest]
    again = open_log(log.directory, SMALL, log_start_offset=end)
    assert known(again.producers) == {}, "what came after the snapshot is gone"
    assert not again.append(produced(1000, producer_id=1), 1, NOON).duplicate


@pytest.mark.rule(29)
def test_a_snapshot_that_can_not_be_written_stops_no_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "log", SMALL)
    real = Disk.replace_file

    def full(disk: Disk, path: Path, content: str | bytes) -> None:
        if path.suffix == ".snapshot":
            raise disk.error(f"writing {path}", OSError(28, "No space left on device"))
        real(disk, path, content)

    monkeypatch.setattr(Disk, "replace_file", full)
    fill(log, 20)
    assert len(log.segments) > 1
    assert log.flush(NOON) == log.recovery_point == int(log.log_end_offset)

    def broken(disk: Disk, path: Path, content: str | bytes) -> None:
        raise disk.error(f"writing {path}", OSError(5, "Input/output error"))

    monkeypatch.setattr(Disk, "replace_file", broken)
    fill(log, 20)
    with pytest.raises(OttlaError, match="is offline"):
        log.flush(NOON)


@pytest.mark.rule(30)
def test_idle_producers_are_forgotten_by_and_by_and_at_a_start(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(producer_expiration_ms=1000))
    log.append(produced(0, producer_id=1), 1, NOON)
    log.append(produced(0, producer_id=2), 1, NOON + 600)
    log.append(produced(0, producer_id=3), 1, NOON + 900)
    assert log.producers.expire(NOON + 999, log.config.producer_expiration_ms) == 0
    assert log.producers.expire(NOON + 1000, log.config.producer_expiration_ms) == 1
    log.close(NOON + 1000)
    again = Log.open(log.directory, Disk(tmp_path), log.config, now_ms=NOON + 1600, clean=True)
    assert set(known(again.producers)) == {3}


@pytest.mark.rule(30)
def test_who_is_read_from_the_log_is_idle_since_its_file_was_written(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig())
    log.append(produced(0, at_ms=5), 1, NOON)
    written_ms = Path(log.segments[0].path).stat().st_mtime_ns // 1_000_000
    for late_ms, there in ((DAY_MS - 1, True), (DAY_MS, False)):
        again = Log.open(log.directory, Disk(tmp_path), LogConfig(), now_ms=written_ms + late_ms)
        assert (again.producers.get(7) is not None) == there
    assert all_records(again) == [(0, b"v")]
