"""What a broker does beside serving, with a real data directory and a clock that a test moves."""

from __future__ import annotations

import asyncio
import errno
import gc
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from logs import SMALL, fill
from produced import produced
from replicas import replica_context
from waiting import until

from ottla_broker.config import BrokerConfig
from ottla_broker.maintenance import background_work
from ottla_broker.maintenance.background_work import Maintenance
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.storage import checkpoint
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log_dir import LogDir
from ottla_core.clock import ManualClock
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId

ID = PartitionId(TopicId(b"t" * 16), 0)
HOUR_MS = 3_600_000


class OneReplica:
    """As much of `ReplicaTable` as maintenance looks at."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.others: list[Any] = []
        self.flushed_by_time = {replica: None}

    def all(self) -> list[Replica]:
        return [*self.others, self.replica]

    def get(self, partition: PartitionId) -> Replica | None:
        return next((replica for replica in self.all() if replica.id == partition), None)

    def high_watermarks(self) -> dict[PartitionId, int]:
        return {ID: self.replica.offsets.high_watermark}


class Kept:
    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        config = replace(SMALL, retention_ms=HOUR_MS, flush_ms=60_000)
        self.path = path
        self.log_dir = LogDir.open(path, DirectoryIdentity("c", 1, "d" * 22), config, now_ms=self.clock.wall_ms())
        self.log = self.log_dir.create(ID, "t", config, now_ms=self.clock.wall_ms())
        self.failures: list[OttlaError] = []
        threads = DiskThreads()
        self.replica = Replica(ID, "t", self.log, replica_context(1, self.clock, threads, self.failures.append))
        settings = BrokerConfig(checkpoint_interval_s=5, retention_check_interval_s=300)
        self.replicas = OneReplica(self.replica)
        self.maintenance = Maintenance(
            settings, cast(ReplicaTable, self.replicas), lambda: self.log_dir, self.clock, threads, self.failures.append
        )

    def fill(self, batches: int) -> None:
        """Append, then lead alone: all of it is committed."""
        fill(self.log, batches)
        self.replica.step_back()
        self.replica.become_leader(Partition(replicas=(1,), leader=1, leader_epoch=1, isr=(1,)))

    def checkpointed(self, name: str) -> int | None:
        return checkpoint.read_offsets(self.path / name).get(ID)


@pytest.fixture
async def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kept]:
    monkeypatch.setattr(background_work, "_TICK_S", 0.005)
    kept = Kept(tmp_path / "data")
    await kept.maintenance.start()
    yield kept
    await kept.maintenance.stop()
    kept.log_dir.close({}, now_ms=kept.clock.wall_ms())


@pytest.mark.rule(16)
async def test_high_watermarks_and_recovery_points_are_written_down_every_few_seconds(kept: Kept) -> None:
    kept.fill(5)
    assert kept.checkpointed(checkpoint.HIGH_WATERMARKS) is None
    kept.clock.advance(6)
    await until(lambda: kept.checkpointed(checkpoint.HIGH_WATERMARKS) == kept.log.log_end_offset)
    assert kept.checkpointed(checkpoint.RECOVERY_POINTS) is not None


@pytest.mark.rule(4, 60)
async def test_log_starts_are_written_down_once_their_epochs_are(kept: Kept) -> None:
    kept.fill(5)
    kept.log.delete_records_before(5, kept.replica.offsets.high_watermark)
    kept.clock.advance(6)
    await until(lambda: kept.checkpointed(checkpoint.LOG_START_OFFSETS) == 5)
    assert checkpoint.read_epochs(kept.log.directory / checkpoint.LEADER_EPOCHS)


async def test_what_waits_longer_than_flush_ms_is_flushed(kept: Kept) -> None:
    kept.fill(1)
    await until(lambda: kept.log.recovery_point == int(kept.log.log_end_offset))
    kept.fill(1)
    assert not kept.log.is_flush_due(kept.clock.wall_ms())
    kept.clock.advance(61)
    await until(lambda: kept.log.recovery_point == int(kept.log.log_end_offset))


async def test_a_flush_that_fails_time_after_time_is_one_line_of_the_log(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing waits for it: its error was asyncio's to report, once a second, with a traceback each."""
    tries = []

    def full(*_: object) -> None:
        tries.append(1)
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room for the epochs")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_epochs", full)
        kept.fill(1)
        await until(lambda: len(tries) > 2)
    await until(lambda: kept.log.recovery_point == int(kept.log.log_end_offset))
    gc.collect()
    assert "never retrieved" not in caplog.text
    assert caplog.text.count("no room for the epochs") == 1


class Due:
    """A replica whose flush is due, and takes the loop as long as it takes to hand it to a thread."""

    def __init__(self, started: list[int]) -> None:
        self.log, self.disk, self._started = self, self, started

    def is_flush_due(self, now_ms: int) -> bool:
        return True

    def start_flush(self) -> None:
        self._started[-1] += 1
        time.sleep(0.0001)


async def test_thousands_of_flushes_are_started_in_slices(kept: Kept) -> None:
    started = [0]
    kept.replicas.flushed_by_time = {cast(Replica, Due(started)): None for _ in range(500)}
    flushing = asyncio.ensure_future(kept.maintenance._flush_by_time())
    while not flushing.done():
        await asyncio.sleep(0)
        started.append(0)
    assert sum(started) >= 500
    assert max(started) < 250


@pytest.mark.rule(63)
@pytest.mark.feature(86, 87)
async def test_what_is_older_than_its_retention_goes_and_its_space_is_freed(kept: Kept) -> None:
    kept.fill(60)
    assert len(kept.log.segments) > 3
    kept.clock.advance(2 * HOUR_MS / 1000)
    await until(lambda: kept.log.log_start_offset == kept.log.log_end_offset)
    await until(lambda: len(list((kept.path / str(ID)).glob("*.log*"))) == 1)


@pytest.mark.rule(29, 63)
async def test_what_is_due_goes_once_a_thread_has_written_down_its_producers(kept: Kept) -> None:
    kept.log.append(produced(0), 1, kept.clock.wall_ms())
    kept.fill(60)
    kept.clock.advance(2 * HOUR_MS / 1000)
    await until(lambda: kept.log.log_start_offset == kept.log.log_end_offset)
    assert [int(path.stem) for path in (kept.path / str(ID)).glob("*.snapshot")] == [kept.log.log_start_offset]


@pytest.mark.rule(63)
async def test_a_disk_that_has_no_room_for_producers_gets_room_in_the_same_turn(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    kept.log.append(produced(0), 1, kept.clock.wall_ms())
    kept.fill(60)
    with monkeypatch.context() as patched:
        patched.setattr(kept.log_dir.disk, "_write_anew", full)
        kept.clock.advance(2 * HOUR_MS / 1000)
        await until(lambda: kept.log.log_start_offset > 0)
        assert len(kept.log.segments) == 2, "the last sealed one shows where the log ends"


async def test_securing_many_logs_leaves_the_other_steps_their_turns(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each log takes as long as one turn may. The one that has waited longest comes first."""
    turns = list[str]()

    async def slow(replica: Replica, *_: object) -> None:
        turns.append(str(replica))
        kept.clock.advance(1)

    class Waiting(Sick):
        log = SimpleNamespace(unsecured_until=1)

        def __init__(self, number: int) -> None:
            self.id = PartitionId(ID.topic_id, number)

        def tidy(self, now_ms: int) -> None:
            pass

        def __str__(self) -> str:
            return str(self.id.partition)

    monkeypatch.setattr(background_work, "secure_and_tidy", slow)
    monkeypatch.setattr(kept.log_dir, "remove_deleted", lambda: turns.append("removal"))
    kept.replicas.others += [Waiting(1), Waiting(2), Waiting(3)]
    kept.clock.advance(2 * HOUR_MS / 1000)
    await until(lambda: "3" in turns)
    of_securing = turns[turns.index("1") : turns.index("3") + 1]
    assert of_securing == ["1", "removal", "2", "removal", "3"]


class Sick:
    """A replica that fails in ways that nobody has foreseen."""

    id = PartitionId(ID.topic_id, 7)
    log = SimpleNamespace(unsecured_until=0)

    def tidy(self, now_ms: int) -> None:
        raise AssertionError("nobody has foreseen it")

    def __str__(self) -> str:
        return "sick-0"


@pytest.mark.story("one-log-ends-retention-for-all")
async def test_one_partition_or_step_that_fails_keeps_no_other_from_its_turn(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_room(*_: object) -> None:
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room for a checkpoint")

    monkeypatch.setattr(kept.log_dir, "checkpoint", no_room)
    kept.replicas.others.append(Sick())
    kept.fill(60)
    for _ in range(3):
        kept.clock.advance(2 * HOUR_MS / 1000)
        kept.fill(1)
    await until(lambda: kept.log.log_start_offset > 0)
    await until(lambda: not list((kept.path / str(ID)).glob("*.deleted")))
    await until(lambda: "nobody has foreseen it" in caplog.text)
    assert caplog.text.count("no room for a checkpoint") == 1
    monkeypatch.undo()
