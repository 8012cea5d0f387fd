"""The recovery point bounds the cleaner: what a start reads anew is what was written, whatever was cleaned before.

Logs, their cleaning and their recovery together, over a data directory. A broker that is killed leaves its files as
they are; its process is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from batches import NOON, sealed
from transactional_logs import end_of, end_transaction

from ottla_broker.compaction.candidate import Candidate, OvertakenError
from ottla_broker.compaction.cleaning import clean
from ottla_broker.compaction.job import CleanedGroup
from ottla_broker.compaction.settings import CleanerSettings
from ottla_broker.machines.offsets import HighWatermark, LastStableOffset
from ottla_broker.machines.partition import find_divergence
from ottla_broker.storage import checkpoint
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.batch import TRANSACTIONAL
from ottla_core.records.record import RawRecord
from ottla_core.records.twins import new_builder

pytestmark = pytest.mark.rule(58, 62)

ME = DirectoryIdentity("c", 0, "d" * 22)
ID = PartitionId(TopicId(b"t" * 16), 0)
DAY_MS = 24 * 3600 * 1000
CONFIG = LogConfig(segment_bytes=2000, compacts=True, deletes=False, least_dirty_ratio=0.0, delete_retention_ms=DAY_MS)


class Broker:
    """One log of a broker that is killed and cleaned at will."""

    def __init__(self, path: Path) -> None:
        self.path, self.now_ms = path, NOON
        self.log_dir = LogDir.open(path, ME, CONFIG, now_ms=NOON)
        self.log_dir.create(ID, "t", CONFIG, now_ms=NOON)

    @property
    def log(self) -> Log:
        return self.log_dir.logs[ID]

    @property
    def stable(self) -> LastStableOffset:
        log = self.log
        return log.producers.last_stable_offset(log.log_start_offset, HighWatermark(log.log_end_offset))

    @property
    def written_recovery_point(self) -> int:
        return checkpoint.read_offsets(self.path / checkpoint.RECOVERY_POINTS).get(ID, 0)

    def put(self, key: bytes, count: int = 1, *, epoch: int = 1) -> None:
        for _ in range(count):
            rows: list[RawRecord] = [(0, self.now_ms, key, b"v%06d" % self.log.log_end_offset + b"x" * 40, [])]
            self.log.append(sealed(rows), epoch, self.now_ms)

    def put_unique(self, count: int = 1) -> None:
        """Records that stay, so that segments do."""
        for _ in range(count):
            self.put(b"u%06d" % self.log.log_end_offset)

    def roll(self) -> None:
        count = len(self.log.segments)
        while len(self.log.segments) == count:
            self.put_unique()

    def put_in_transaction(self, producer_id: int, sequence: int, key: bytes) -> None:
        builder = new_builder(1 << 20)
        builder.append(self.now_ms, key, b"of a transaction")
        batch = builder.seal(
            producer_id=producer_id, producer_epoch=0, base_sequence=sequence, attributes=TRANSACTIONAL
        )
        self.log.append(batch, 1, self.now_ms, transactional=True)

    def checkpoint(self) -> None:
        """Write the checkpoints, as maintenance does every few seconds."""
        self.log_dir.checkpoint({ID: self.log.log_end_offset})

    def delete_before(self, offset: int) -> None:
        """Delete records, and then segments as maintenance does."""
        self.log.delete_records_before(offset, HighWatermark(self.log.log_end_offset))
        self.log.secure_deletion()
        self.log.delete_old_segments(HighWatermark(self.log.log_end_offset), self.now_ms)

    def clean(self) -> int:
        """Clean what may be cleaned of the sealed segments; return where the cleaning ended."""
        log = self.log
        log.secure_sealed()
        candidate = Candidate.of(log, self.stable, self.now_ms)

        def take(group: CleanedGroup) -> None:
            candidate.swap(group)
            candidate.on_passed(group)

        try:
            return clean(candidate.job(CleanerSettings(), self.now_ms), take).end_offset
        finally:
            candidate.release()

    def kill(self) -> None:
        """Kill the broker and start it again."""
        self.log_dir.abandon()
        self.log_dir = LogDir.open(self.path, ME, CONFIG, now_ms=self.now_ms)
        self.log.config = CONFIG

    def clean_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(10):
            self.now_ms += 2 * DAY_MS
            self.roll()
            self.clean()
            if condition():
                return
        raise AssertionError("ten cleanings have not been enough")

    def first_offsets(self, *, control: bool) -> list[int]:
        return [h.base_offset for s in self.log.segments for _, h in s.headers_from(0) if h.is_control == control]


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path / "data")


def test_sealed_segments_are_durable_and_the_disk_says_so_before_they_are_cleaned(broker: Broker) -> None:
    broker.put(b"k", 100)
    log, active = broker.log, broker.log.segments[-1]
    broker.checkpoint()
    assert (log.recovery_point, broker.written_recovery_point) == (0, 0)
    assert not Candidate.of(log, broker.stable, NOON).part.dirty_bytes, "nothing that a start would read anew"
    assert broker.clean() == active.base_offset
    assert log.recovery_point == broker.written_recovery_point == active.base_offset
    assert log.recovery_point < log.log_end_offset, "the active segment is flushed when it is its turn"


@pytest.mark.story("segments-above-the-recovery-point-are-compacted")
def test_no_segment_takes_the_place_of_one_above_the_recovery_point(broker: Broker) -> None:
    broker.put(b"k", 100)
    log = broker.log
    candidate = Candidate.of(log, broker.stable, NOON, log.next_recovery_point)
    with pytest.raises(AssertionError, match="I35"):
        clean(candidate.job(CleanerSettings(), NOON), candidate.swap)
    log.secure_sealed()
    before = log.size_bytes
    clean(candidate.job(CleanerSettings(), NOON), candidate.swap)
    assert log.size_bytes < before


def test_a_checkpoint_that_covers_the_log_is_not_written_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.put(b"k", 100)
    broker.log.flush(NOON)
    broker.checkpoint()
    written: list[object] = []
    monkeypatch.setattr(checkpoint, "write_offsets", lambda *arguments: written.append(arguments))
    assert broker.log.secure_sealed() == broker.log.recovery_point
    assert broker.log.secure_sealed() == broker.log.recovery_point
    assert written == []


@pytest.mark.story("recovery-takes-epochs-from-what-a-clean-left")
@pytest.mark.rule(2, 4)
def test_a_start_after_a_kill_knows_where_epochs_began_whose_first_batches_are_gone(broker: Broker) -> None:
    broker.put(b"a", 45, epoch=1)
    broker.put(b"k", 105, epoch=3)
    broker.put(b"b", 30, epoch=5)
    broker.put(b"k", 130, epoch=5)
    known = broker.log.epochs.entries
    assert known == ((1, 0), (3, 45), (5, 150))
    broker.clean()
    assert 45 not in broker.first_offsets(control=False)
    broker.put(b"k", epoch=6)
    broker.kill()
    assert broker.log.epochs.entries == (*known, (6, 310))
    zombie_end = find_divergence(broker.log.epochs, broker.log.log_end_offset, last_epoch=1, fetch_offset=70)
    assert zombie_end == (1, 45), "a former leader with [45, 70) of its own is found to differ"


@pytest.mark.story("recovery-takes-epochs-from-what-a-clean-left")
@pytest.mark.rule(4)
def test_without_a_recovery_point_the_stored_epochs_are_still_those_that_count(broker: Broker) -> None:
    broker.put(b"a", 50, epoch=1)
    broker.put(b"k", 100, epoch=3)
    known = broker.log.epochs.entries
    broker.clean()
    (broker.path / checkpoint.RECOVERY_POINTS).unlink()
    broker.kill()
    assert broker.log.epochs.entries == known


def end_a_transaction_that_a_snapshot_has_open(broker: Broker) -> None:
    """The transaction is open in a snapshot below the recovery point, and committed in the segment after that."""
    broker.put_unique(10)
    broker.put_in_transaction(7, 0, b"t")
    broker.roll()
    broker.log.flush(broker.now_ms)
    broker.checkpoint()
    broker.put_unique(3)
    end_transaction(broker.log, end_of(7, 0, v2=False))
    broker.put(b"t")
    broker.roll()


def forget_idle_producers(broker: Broker) -> None:
    broker.now_ms += 3 * DAY_MS
    broker.log.producers.expire(broker.now_ms, CONFIG.producer_expiration_ms)


@pytest.mark.story("segments-above-the-recovery-point-are-compacted")
@pytest.mark.rule(29, 37)
def test_a_transaction_that_was_committed_and_cleaned_away_is_not_open_after_a_kill(broker: Broker) -> None:
    end_a_transaction_that_a_snapshot_has_open(broker)
    forget_idle_producers(broker)
    broker.clean_until(lambda: not broker.first_offsets(control=True))
    broker.kill()
    assert broker.stable == int(broker.log.log_end_offset)


@pytest.mark.story("snapshot-older-than-a-clean")
@pytest.mark.rule(29, 37)
@pytest.mark.parametrize("damaged", ["missing", "torn"])
def test_a_snapshot_that_is_older_than_a_clean_is_not_built_upon(broker: Broker, damaged: str) -> None:
    """The newest ones are lost. In the older one a transaction is open whose marker is gone."""
    end_a_transaction_that_a_snapshot_has_open(broker)
    older = {path.name for path in Path(broker.log.directory).glob("*.snapshot")}
    forget_idle_producers(broker)
    broker.put_in_transaction(8, 0, b"open")
    first_open = broker.log.log_end_offset - 1
    for sequence in range(2):
        builder = new_builder(1 << 20)
        builder.append(broker.now_ms, b"i", b"idempotent")
        broker.log.append(builder.seal(producer_id=9, producer_epoch=2, base_sequence=sequence), 1, broker.now_ms)
    stable = broker.stable
    for _ in range(4):
        broker.now_ms += 2 * DAY_MS
        broker.roll()
        broker.log.compaction.first_dirty_offset = 0  # else the open transaction keeps all from being cleaned again
        broker.clean()
    assert stable == broker.stable == first_open
    assert not broker.first_offsets(control=True) or min(broker.first_offsets(control=True)) > first_open
    for path in Path(broker.log.directory).glob("*.snapshot"):
        if path.name not in older:
            path.unlink() if damaged == "missing" else path.write_bytes(path.read_bytes()[:-1])
    broker.now_ms = NOON  # none of them is idle for too long
    broker.kill()
    assert broker.stable == first_open, "what is open is open, and nothing else"
    assert dict(broker.log.producers.transactions._open) == {8: first_open}
    known = broker.log.producers.get(9)
    assert known is not None
    assert (known.epoch, known.batches[-1].last_sequence) == (2, 1)


@pytest.mark.story("snapshot-older-than-a-clean")
@pytest.mark.rule(29, 37)
@pytest.mark.parametrize("lost", ["recovery points", "epochs", "nothing"])
def test_without_a_recovery_point_no_snapshot_is_built_upon_that_is_older_than_a_clean(
    broker: Broker, lost: str
) -> None:
    """The log begins while the transaction is open in a snapshot. A file that tells what was durable is torn."""
    end_a_transaction_that_a_snapshot_has_open(broker)
    forget_idle_producers(broker)
    begin = broker.log.segments[1].base_offset
    broker.log.delete_records_before(begin, HighWatermark(broker.log.log_end_offset))
    broker.clean_until(lambda: not broker.first_offsets(control=True))
    broker.checkpoint()
    assert broker.log.segments[0].base_offset == begin
    for path in Path(broker.log.directory).glob("*.snapshot"):
        if int(path.stem) > begin:
            path.unlink()
    files = {"recovery points": broker.path / checkpoint.RECOVERY_POINTS}
    files["epochs"] = Path(broker.log.directory) / checkpoint.LEADER_EPOCHS
    if lost in files:
        files[lost].write_bytes(bytes(20))
    broker.now_ms = NOON
    broker.kill()
    assert broker.stable == int(broker.log.log_end_offset)


@pytest.mark.story("snapshot-older-than-retention")
@pytest.mark.rule(29, 37)
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_transaction_whose_end_retention_took_is_not_open_after_a_kill(
    broker: Broker, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction is open in the newest snapshot, and the disk had no room for a later one."""
    broker.put_in_transaction(7, 0, b"t")
    broker.roll()
    broker.log.flush(broker.now_ms)
    broker.checkpoint()
    if not goes_on:
        end_transaction(broker.log, end_of(7, 0, v2=False))
    broker.roll()
    broker.roll()
    begin = broker.log.segments[-1].base_offset
    last = broker.log.log_end_offset
    broker.put_in_transaction(7, 1, b"t") if goes_on else broker.put_unique()
    broker.log.delete_records_before(begin, HighWatermark(broker.log.log_end_offset))

    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(broker.log_dir.disk, "_write_anew", full)
        with pytest.raises(OttlaError, match="No space left"):
            broker.log.secure_deletion()
    broker.log.delete_old_segments(HighWatermark(broker.log.log_end_offset), broker.now_ms)
    assert broker.log.segments[0].base_offset == begin
    broker.checkpoint()
    broker.kill()
    assert broker.log.log_start_offset == begin
    assert broker.stable == (last if goes_on else last + 1)
    assert (broker.log.producers.get(7) is not None) == goes_on


@pytest.mark.rule(29, 36, 37)
@pytest.mark.parametrize("end", ["kept", "deleted", "none"])
def test_a_kill_changes_nothing_about_a_transaction_whose_begin_was_deleted(broker: Broker, end: str) -> None:
    broker.put_in_transaction(7, 0, b"t")
    broker.roll()
    broker.log.flush(broker.now_ms)
    broker.checkpoint()
    if end == "deleted":
        end_transaction(broker.log, end_of(7, 0, v2=False))
    broker.roll()
    begin = broker.log.segments[-1].base_offset
    broker.put_unique()
    if end == "kept":
        end_transaction(broker.log, end_of(7, 0, v2=False))
    broker.delete_before(begin)
    assert broker.log.segments[0].base_offset == begin
    stable = broker.stable
    assert stable == (begin if end == "none" else broker.log.log_end_offset)
    for _ in range(2):
        broker.checkpoint()
        broker.kill()
        assert broker.stable == stable
        known = broker.log.producers.get(7)
        assert known is not None
        assert known.batches[-1].last_sequence == 0


@pytest.mark.story("deleted-segments-forgot-their-producers")
@pytest.mark.rule(25, 29)
def test_a_cleaned_log_knows_the_producers_of_segments_that_were_deleted_before(broker: Broker) -> None:
    """The newest snapshot before the clean can't be built upon, and the whole log no longer has these producers."""
    broker.put_in_transaction(7, 0, b"t")
    end_transaction(broker.log, end_of(7, 0, v2=False))
    broker.roll()
    begin = broker.log.segments[-1].base_offset
    broker.put(b"k", 100)
    broker.delete_before(begin)
    assert broker.log.segments[0].base_offset == begin
    broker.clean()
    assert len(broker.first_offsets(control=False)) < 100
    for _ in range(2):
        broker.kill()
        known = broker.log.producers.get(7)
        assert known is not None
        assert known.batches[-1].last_sequence == 0


@pytest.mark.story("snapshot-older-than-a-clean")
@pytest.mark.rule(29)
def test_a_truncation_into_what_was_cleaned_builds_on_no_older_snapshot(broker: Broker) -> None:
    end_a_transaction_that_a_snapshot_has_open(broker)
    broker.put_in_transaction(8, 0, b"later")
    forget_idle_producers(broker)
    for _ in range(6):
        broker.now_ms += 2 * DAY_MS
        end_transaction(broker.log, end_of(8, 0, v2=False))
        broker.roll()
        broker.clean()
    log = broker.log
    markers = broker.first_offsets(control=True)
    for path in sorted(Path(log.directory).glob("*.snapshot"))[1:]:
        path.unlink()
    broker.kill()
    broker.log.truncate_to(broker.log.log_end_offset - 1)
    assert 7 not in broker.log.producers.transactions, markers


def test_a_disk_that_takes_no_flush_has_cleaned_what_was_durable_before(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.put(b"k", 100)
    broker.log.flush(NOON)
    broker.checkpoint()
    durable = broker.written_recovery_point
    broker.put(b"k", 100)

    def full(*arguments: object) -> NoReturn:
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_offsets", full)
        with pytest.raises(OttlaError, match="no space left"):
            broker.log.secure_sealed()
    assert broker.log.compaction.recovery_point == 0, "it is not known yet what the disk says"
    assert broker.written_recovery_point == durable
    assert broker.log.secure_sealed() == broker.log.next_recovery_point


@pytest.mark.rule(60)
def test_a_truncation_beside_a_clean_takes_the_recovery_point_back_with_it(broker: Broker) -> None:
    broker.put(b"k", 200)
    log = broker.log
    log.secure_sealed()
    candidate = Candidate.of(log, broker.stable, NOON)

    def take(group: CleanedGroup) -> None:
        log.truncate_to(log.segments[2].base_offset)
        candidate.swap(group)

    with pytest.raises(OvertakenError):
        clean(candidate.job(CleanerSettings(), NOON), take)
    end = log.log_end_offset
    assert log.compaction.recovery_point == broker.written_recovery_point == int(end)
    broker.put(b"k", 100, epoch=2)
    broker.kill()
    assert broker.log.epochs.entries == ((1, 0), (2, end))
    assert broker.log.log_end_offset == end + 100


def test_logs_that_were_cleaned_keep_no_snapshots_but_those_of_their_segments(broker: Broker) -> None:
    for sequence in range(40):
        builder = new_builder(1 << 20)
        builder.append(broker.now_ms, b"i", b"x" * 900)
        broker.log.append(builder.seal(producer_id=9, producer_epoch=2, base_sequence=sequence), 1, broker.now_ms)
        broker.log.flush(NOON)
    broker.log.config = replace(CONFIG, segment_bytes=100_000)
    broker.clean()
    kept = {int(path.stem) for path in Path(broker.log.directory).glob("*.snapshot")}
    assert len(broker.log.segments) == 2
    assert kept <= {segment.base_offset for segment in broker.log.segments}
