"""Which logs are compacted, when, and what becomes of what their workers write; with real worker processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from batches import raw_batch, sealed
from images import Metadata, image_of
from logs import SMALL, headers_of
from produced import produced, stored_headers
from replicas import replica_context
from waiting import until

from ottla_broker.compaction import cleaner as cleaner_module
from ottla_broker.compaction import worker as worker_module
from ottla_broker.compaction.cleaner import LogCleaner
from ottla_broker.compaction.job import CleanedGroup, CleaningJob, CleaningResult, SourceSegment
from ottla_broker.compaction.room import Room
from ottla_broker.compaction.worker import Run, Take, run_worker
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log_config import MAX_INT64, LogConfig
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.segment import Segment
from ottla_broker.storage.validator import Walk
from ottla_core.clock import ManualClock
from ottla_core.cluster.image import Partition, ResourceConfigs
from ottla_core.errors import OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.reader import read_records

pytestmark = pytest.mark.rule(62)

COMPACTED = replace(SMALL, compacts=True, deletes=False, retention_ms=-1)


class Compacted:
    """A broker's logs, and what compacts them."""

    def __init__(self, path: Path) -> None:
        self.clock, self.threads, self.path = ManualClock(), DiskThreads(), path
        self.run: Run = run_worker
        now_ms = self.clock.wall_ms()
        self.log_dir = LogDir.open(path, DirectoryIdentity("c", 1, "d" * 22), COMPACTED, now_ms=now_ms)
        self.metadata = Metadata()
        self.metadata.become(self.image({"log.cleaner.backoff.ms": "100"}))
        self.replicas = ReplicaTable(cast(Any, self.metadata))
        self.cleaner = LogCleaner(
            cast(Any, self.metadata),
            self.replicas,
            lambda: 1,
            self.clock,
            self.threads,
            lambda job, take: self.run(job, take),
        )

    @staticmethod
    def image(configs: dict[str, str]) -> Any:
        image = image_of(1)
        return replace(image, configs={**image.configs, ("broker", ""): ResourceConfigs(configs)})

    def add(self, number: int, config: LogConfig = COMPACTED) -> Replica:
        id_ = PartitionId(TopicId(bytes([number]) * 16), 0)
        log = self.log_dir.create(id_, f"t{number}", config, now_ms=self.clock.wall_ms())
        replica = Replica(id_, f"t{number}", log, replica_context(1, self.clock, self.threads, lambda error: None))
        replica.step_back()
        replica.become_leader(Partition(replicas=(1,), leader=1, leader_epoch=1, isr=(1,)))
        self.replicas.add(replica)
        self.replicas.compacted[replica] = None
        return replica

    @property
    def failure(self) -> str:
        return next(replica.log.compaction.failure for replica in self.replicas.all())

    async def produce(self, replica: Replica, batches: int, *, keys: int = 7, key: bytes | None = b"k") -> None:
        """Batches of one record, whose values are their offsets."""
        for _ in range(batches):
            offset, now_ms = replica.log.log_end_offset, self.clock.wall_ms()
            name = None if key is None else key + b"%d" % (offset % keys)
            batch = sealed([(0, now_ms, name, b"%d" % offset + b"." * 20, [])])
            replica.log.append(batch, 1, now_ms, walk=Walk.DONE)
        replica.step_back()
        replica.become_leader(Partition(replicas=(1,), leader=1, leader_epoch=1, isr=(1,)))  # all of it is committed
        assert replica.offsets.high_watermark == int(replica.log.log_end_offset)


@pytest.fixture
async def logs(tmp_path: Path) -> AsyncIterator[Compacted]:
    logs = Compacted(tmp_path / "data")
    yield logs
    await logs.cleaner.stop()
    logs.log_dir.close({}, now_ms=logs.clock.wall_ms())


def table_of(replica: Replica) -> dict[bytes | None, bytes | None]:
    log = replica.log
    table: dict[bytes | None, bytes | None] = {}
    for header in stored_headers(log):
        batch = log.read(header.base_offset, 1, log.log_end_offset)
        if headers_of(batch)[0].record_count:
            table |= {key: value for _, _, key, value, _ in read_records(batch)}
    return table


def sealed_end(replica: Replica) -> int:
    return replica.log.segments[-1].base_offset


def watch_workers(logs: Compacted, then: Callable[[CleaningJob], None] = lambda job: None) -> list[CleaningJob]:
    """The jobs that are given to workers; `then` is called when each has written a group that is not in its place."""
    jobs: list[CleaningJob] = []

    async def run(job: CleaningJob, take: Take) -> CleaningResult:
        jobs.append(job)

        async def take_then(group: CleanedGroup) -> None:
            then(job)
            await take(group)

        return await run_worker(job, take_then)

    logs.run = run
    return jobs


async def test_what_stays_is_the_newest_value_of_each_key(logs: Compacted) -> None:
    replica = logs.add(1)
    await logs.produce(replica, 100)
    before, size_bytes, end = table_of(replica), replica.log.size_bytes, sealed_end(replica)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.totals.runs == 1)
    assert replica.log.compaction.first_dirty_offset == end
    assert table_of(replica) == before
    assert replica.log.log_end_offset == 100
    assert logs.cleaner.totals.bytes_saved == size_bytes - replica.log.size_bytes > 0
    await logs.produce(replica, 100)
    await until(lambda: replica.log.compaction.first_dirty_offset == sealed_end(replica))
    assert table_of(replica).keys() == before.keys()
    assert len(stored_headers(replica.log)) < 40


@pytest.mark.feature(96)
async def test_the_dirtiest_comes_first_and_one_that_waits_too_long_before_it(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = watch_workers(logs)
    clean, dirty = logs.add(1), logs.add(2)
    overdue = logs.add(3, replace(COMPACTED, max_compaction_lag_ms=1000, least_dirty_ratio=1.0))
    await logs.produce(overdue, 60)
    logs.clock.advance(2)
    for replica in (clean, dirty):
        await logs.produce(replica, 100)
    clean.log.compaction.first_dirty_offset = clean.log.segments[3].base_offset
    overdue.log.compaction.first_dirty_offset = overdue.log.segments[1].base_offset
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.totals.runs == 3)
    assert [job.directory for job in jobs] == [r.log.directory for r in (overdue, dirty, clean)]


@pytest.mark.feature(97)
async def test_a_log_that_is_not_dirty_enough_is_left_alone(logs: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = watch_workers(logs)
    replica = logs.add(1, replace(COMPACTED, least_dirty_ratio=0.9))
    await logs.produce(replica, 100)
    replica.log.compaction.first_dirty_offset = replica.log.segments[2].base_offset
    await logs.cleaner.start()
    await until(lambda: 0.0 < logs.cleaner.dirtiest_ratio < 0.9)
    assert not jobs


async def test_nothing_above_the_high_watermark_is_cleaned(logs: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = watch_workers(logs)
    replica = logs.add(1)
    await logs.produce(replica, 50)
    for offset in range(50, 100):
        replica.log.append(sealed([(0, 1, b"k", b"%d" % offset, [])]), 1, 1, walk=Walk.DONE)
    await logs.cleaner.start()
    await until(lambda: replica.log.compaction.first_dirty_offset > 0)
    assert jobs[0].end_offset == 50
    await until(lambda: logs.cleaner.dirtiest_ratio < 0.5)
    assert len(jobs) == 1
    assert not logs.cleaner.uncleanable, "it waits for the high watermark"
    assert [h.base_offset for h in stored_headers(replica.log)][-50:] == list(range(50, 100))


async def test_what_was_truncated_meanwhile_is_given_up(logs: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = logs.add(1)
    await logs.produce(replica, 100)
    cut_to = replica.log.segments[2].base_offset + 1

    def truncate(job: CleaningJob) -> None:
        if len(jobs) == 1:
            replica.log.truncate_to(cut_to)

    jobs = watch_workers(logs, truncate)
    await logs.cleaner.start()
    await until(lambda: len(jobs) >= 2 and not logs.cleaner._running)
    assert jobs[1].end_offset <= cut_to
    assert replica.log.log_end_offset == cut_to
    assert replica.log.compaction.first_dirty_offset <= sealed_end(replica)
    assert not logs.cleaner.uncleanable
    assert not list(Path(replica.log.directory).glob("*.cleaned"))
    assert not list(Path(replica.log.directory).glob("*.swap"))


async def test_a_log_that_can_not_be_cleaned_stays_and_holds_up_no_other(
    logs: Compacted, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not compacted when records without a key came. Named once; and cleaned when they are gone."""
    monkeypatch.setattr(cleaner_module, "_TRY_AGAIN_FIRST_S", 5.0)
    bad, good = logs.add(1, replace(COMPACTED, drops_keyless=False)), logs.add(2)
    await logs.produce(bad, 3, key=None)
    for replica in (bad, good):
        await logs.produce(replica, 100)
    before = stored_headers(bad.log)
    await logs.cleaner.start()
    await until(lambda: good.log.compaction.first_dirty_offset > 0 and logs.cleaner.uncleanable == 1)
    assert stored_headers(bad.log) == before
    assert not list(Path(bad.log.directory).glob("*.cleaned"))
    reason = bad.log.compaction.failure
    assert "no key" in reason or "without a key" in reason
    assert "offset 0" in reason
    bad.log.delete_records_before(bad.log.segments[1].base_offset, bad.offsets.high_watermark)
    logs.clock.advance(1)
    await asyncio.sleep(0.3)
    assert logs.cleaner.uncleanable
    logs.clock.advance(10)
    await until(lambda: not logs.cleaner.uncleanable)
    assert bad.log.compaction.first_dirty_offset == sealed_end(bad)
    assert len([r for r in caplog.records if "can't be compacted" in r.message]) == 1


async def test_a_log_with_a_batch_that_no_one_can_read_stays_and_holds_up_no_other(logs: Compacted) -> None:
    """The batch is from before brokers looked inside."""
    bad, good = logs.add(1), logs.add(2)
    await logs.produce(bad, 3)
    bad.log.append(raw_batch(b"no records at all, really", 3), 1, logs.clock.wall_ms(), walk=Walk.DONE)
    for replica in (bad, good):
        await logs.produce(replica, 100)
    before = stored_headers(bad.log)
    await logs.cleaner.start()
    await until(lambda: good.log.compaction.first_dirty_offset > 0 and logs.cleaner.uncleanable == 1)
    assert stored_headers(bad.log) == before
    assert "offset 3, can't be compacted" in bad.log.compaction.failure
    assert "every replica" in bad.log.compaction.failure


async def test_a_log_that_can_not_even_be_looked_at_holds_up_no_other(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone has removed a file of it. It is no longer named once it is no longer compacted."""
    bad, good = logs.add(1, replace(COMPACTED, max_compaction_lag_ms=1)), logs.add(2)
    for replica in (bad, good):
        await logs.produce(replica, 100)
    bad.log._disk.files.forget(bad.log.segments[0].path)
    Path(bad.log.segments[0].path).unlink()
    await logs.cleaner.start()
    await until(lambda: good.log.compaction.first_dirty_offset > 0)
    await until(lambda: bool(bad.log.compaction.failure))
    assert logs.cleaner.uncleanable == 1
    logs.replicas.compacted.pop(bad)
    await until(lambda: not logs.cleaner.uncleanable)
    assert not bad.log.compaction.failure
    Path(bad.log.segments[0].path).touch()


async def test_a_log_on_a_disk_that_is_offline_is_left_alone(logs: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = watch_workers(logs)
    replica = logs.add(1)
    await logs.produce(replica, 100)
    monkeypatch.setattr(replica.log._disk, "failure", "fsync failed")
    await logs.cleaner.start()
    await asyncio.sleep(0.3)
    assert not jobs
    monkeypatch.setattr(replica.log._disk, "failure", "")
    await until(lambda: replica.log.compaction.first_dirty_offset > 0)


async def test_what_a_failed_worker_left_and_can_not_be_removed_is_no_reason_to_try_on_without_end(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[CleaningJob] = []

    async def fail(job: CleaningJob, take: Take) -> CleaningResult:
        jobs.append(job)
        raise OSError(30, "Read-only file system")

    logs.run = fail
    monkeypatch.setattr("ottla_broker.storage.swap.remove_cleaned", fail_to_remove)
    await logs.produce(logs.add(1), 100)
    await logs.cleaner.start()
    await until(lambda: bool(jobs))
    await asyncio.sleep(0.3)
    assert len(jobs) == 1
    assert logs.cleaner.uncleanable == 1


def fail_to_remove(directory: Path) -> None:
    raise OSError(30, "Read-only file system")


async def test_a_worker_that_is_killed_costs_a_try(logs: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner_module, "_TRY_AGAIN_FIRST_S", 5.0)
    replica = logs.add(1)
    await logs.produce(replica, 100)
    before = table_of(replica)
    pids: list[int] = []

    def create_and_kill(*arguments: Any, **options: Any) -> Any:
        process = subprocess.Popen(*arguments, **options)
        if not pids:
            os.kill(process.pid, signal.SIGKILL)
        pids.append(process.pid)
        return process

    monkeypatch.setattr(worker_module, "Popen", create_and_kill)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.uncleanable == 1)
    assert "-9" in logs.failure
    logs.clock.advance(10)
    await until(lambda: replica.log.compaction.first_dirty_offset > 0 and not logs.cleaner.uncleanable)
    assert table_of(replica) == before


async def test_a_stop_ends_the_workers(logs: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = logs.add(1)
    await logs.produce(replica, 100)
    processes: list[Any] = []

    def create_stopped(*arguments: Any, **options: Any) -> Any:
        process = subprocess.Popen(*arguments, **options)
        os.kill(process.pid, signal.SIGSTOP)
        processes.append(process)
        return process

    monkeypatch.setattr(worker_module, "Popen", create_stopped)
    await logs.cleaner.start()
    await until(lambda: bool(processes))
    async with asyncio.timeout(5):
        await logs.cleaner.stop()
    assert processes[0].returncode == -signal.SIGKILL


async def test_configs_act_at_once(logs: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = watch_workers(logs)
    logs.metadata.become(logs.image({"log.cleaner.enable": "false"}))
    first, second = logs.add(1), logs.add(2)
    for replica in (first, second):
        await logs.produce(replica, 100)
    await logs.cleaner.start()
    await asyncio.sleep(0.2)
    assert not jobs
    logs.metadata.become(
        logs.image({"log.cleaner.dedupe.buffer.size": "1048576", "log.cleaner.io.max.bytes.per.second": "8000000"})
    )
    await until(lambda: logs.cleaner.totals.runs == 2)
    assert max(job.map_bytes for job in jobs) < 20_000, "a key an offset at most"
    assert {job.most_bytes_per_s for job in jobs} == {8_000_000}


async def test_all_maps_together_take_no_more_than_their_buffer(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = watch_workers(logs)
    monkeypatch.setattr("ottla_broker.compaction.candidate.bytes_for", lambda keys: keys << 20)
    logs.metadata.become(logs.image({"log.cleaner.dedupe.buffer.size": "4000000", "log.cleaner.threads": "2"}))
    await logs.produce(logs.add(1), 100)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.totals.runs == 1)
    assert jobs[0].map_bytes == 2_000_000


@pytest.mark.feature(96)
@pytest.mark.parametrize("threads", [1, 2])
async def test_as_many_run_at_once_as_there_are_threads(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    running, most = set(), 0

    async def run(job: CleaningJob, take: Take) -> CleaningResult:
        nonlocal most
        running.add(job.directory)
        most = max(most, len(running))
        await until(lambda: most >= threads)
        await asyncio.sleep(0.05)  # one too many would begin now
        running.discard(job.directory)
        return await run_worker(job, take)

    logs.run = run
    logs.metadata.become(logs.image({"log.cleaner.threads": str(threads)}))
    for number in range(1, 5):
        await logs.produce(logs.add(number), 100)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.totals.runs == 4)
    assert most == threads


async def test_a_map_that_is_too_small_is_named_and_not_tried_without_end(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[CleaningJob] = []

    async def run(job: CleaningJob, take: Take) -> CleaningResult:
        jobs.append(job)
        return CleaningResult((), job.first_dirty_offset, 0, 0, 0, 0, 0, 0)

    logs.run = run
    await logs.produce(logs.add(1), 100)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.uncleanable == 1)
    await asyncio.sleep(0.3)
    assert len(jobs) == 1
    assert "offset map" in logs.failure


async def test_a_partition_that_is_deleted_meanwhile_is_no_failure(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = logs.add(1)
    await logs.produce(replica, 100)

    def delete(job: CleaningJob) -> None:
        del logs.replicas._replicas[replica.id]
        logs.replicas.compacted.pop(replica)
        replica.close()
        logs.log_dir.delete([replica.id])

    watch_workers(logs, delete)
    await logs.cleaner.start()
    await until(lambda: replica.id not in logs.replicas._replicas and not logs.cleaner._running)
    assert not logs.cleaner.uncleanable
    assert logs.cleaner.totals.runs == 0


async def test_a_worker_that_hangs_is_ended(logs: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla_broker.compaction.worker._LEAST_LIMIT_S", 0.2)

    def create_stopped(*arguments: Any, **options: Any) -> Any:
        process = subprocess.Popen(*arguments, **options)
        os.kill(process.pid, signal.SIGSTOP)
        return process

    monkeypatch.setattr(worker_module, "Popen", create_stopped)
    await logs.produce(logs.add(1), 100)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.uncleanable == 1)
    assert "did not answer" in logs.failure


async def test_an_error_of_a_worker_has_its_words(tmp_path: Path) -> None:
    gone = [SourceSegment(0, 9, 100)]
    job = CleaningJob(tmp_path, gone, 0, 0, 9, 0, 0, 1, 1, 1, 96, 0, frozenset(), drops_keyless=True)
    with pytest.raises(OttlaError):
        await run_worker(replace(job, directory=tmp_path / "none"), taken_by_none)


async def taken_by_none(group: CleanedGroup) -> None:
    raise AssertionError("there is nothing to clean")


GROUPS = replace(COMPACTED, segment_bytes=600)
"""A segment of a few batches each: a cleaning has many groups."""


@pytest.mark.story("retention-spoils-a-cleaning")
async def test_retention_leaves_alone_what_is_cleaned_and_takes_what_was(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaning counts, whatever retention and DeleteRecords would delete meanwhile."""
    replica = logs.add(1, replace(GROUPS, deletes=True))
    await logs.produce(replica, 200, keys=1000)
    log = replica.log
    passed: list[int] = []

    def want_nearly_all(job: CleaningJob) -> None:
        log.config = replace(log.config, retention_bytes=700)
        replica.tidy(logs.clock.wall_ms())
        if passed:
            replica.led_in(None).begin_at(passed[-1] + 1)
        assert log.segments[0].base_offset <= log.compaction.held_from
        passed.append(log.compaction.held_from)

    jobs = watch_workers(logs, want_nearly_all)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.totals.runs == 1)
    assert len(jobs) == 1
    assert len(set(passed)) > 3, "it went on, group by group"
    assert log.compaction.first_dirty_offset == jobs[0].end_offset
    assert log.segments[0].base_offset > passed[1], "what it had passed could go meanwhile"
    replica.tidy(logs.clock.wall_ms())
    assert log.size_bytes <= 2 * 700


@pytest.mark.story("cleaned-before-it-is-deleted")
async def test_retention_has_its_turn_before_a_cleaning(logs: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The producers of what goes are first written down."""
    jobs = watch_workers(logs)
    replica = logs.add(1, replace(GROUPS, deletes=True, retention_bytes=2000))
    replica.log.append(produced(0), 1, logs.clock.wall_ms(), walk=Walk.DONE)
    await logs.produce(replica, 200, keys=1000)
    assert replica.log.size_bytes > 10_000
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.totals.runs == 1)
    assert sum(segment.size_bytes for segment in jobs[0].segments) < 3000


@pytest.mark.story("deleted-records-are-cleaned-without-end")
async def test_segments_whose_records_are_all_deleted_are_not_cleaned(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last sealed one stays until retention has secured what only that segment shows."""
    jobs, look = watch_workers(logs), logs.cleaner._dirtiest
    found: list[object] = []

    async def noted_look() -> Any:
        found.append(await look())
        return found[-1]

    monkeypatch.setattr(logs.cleaner, "_dirtiest", noted_look)
    replica = logs.add(1, replace(COMPACTED, deletes=True))
    await logs.produce(replica, 100)
    end = replica.log.log_end_offset
    assert sealed_end(replica) < end
    replica.led_in(None).begin_at(end)
    assert replica.log.unsecured_until
    await logs.cleaner.start()
    await until(lambda: bool(found))
    assert found[0] is None
    assert jobs == []


@pytest.mark.story("all-cleaned-segments-beside-their-log")
async def test_a_group_takes_its_place_before_the_next_one_is_written(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = logs.add(1, GROUPS)
    await logs.produce(replica, 200, keys=1000)
    await logs.produce(replica, 50, keys=7)
    beside: list[int] = []

    def measure(job: CleaningJob) -> None:
        directory, kinds = replica.log.directory, ("cleaned", "swap", "deleted")
        beside.append(sum(f.stat().st_size for kind in kinds for f in Path(directory).glob(f"*.log.{kind}")))

    watch_workers(logs, measure)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.totals.runs == 1)
    assert len(beside) > 10
    assert max(beside) <= GROUPS.segment_bytes


@pytest.mark.story("worker-that-ends-loses-all-its-work")
async def test_what_a_worker_has_done_counts_when_it_is_killed(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All before the end of the last group in its place is compacted, and the next cleaning goes on behind it."""
    monkeypatch.setattr(cleaner_module, "_TRY_AGAIN_FIRST_S", 5.0)
    replica = logs.add(1, GROUPS)
    await logs.produce(replica, 300, keys=100)
    before, groups = table_of(replica), 0
    processes: list[subprocess.Popen[bytes]] = []

    def create(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        processes.append(subprocess.Popen(*arguments, **options))
        return processes[-1]

    def kill_the_first(job: CleaningJob) -> None:
        nonlocal groups
        groups += 1
        if groups == 5:
            os.kill(processes[0].pid, signal.SIGKILL)

    monkeypatch.setattr(worker_module, "Popen", create)
    jobs = watch_workers(logs, kill_the_first)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.uncleanable == 1)
    counted = replica.log.compaction.first_dirty_offset
    assert 0 < counted < jobs[0].end_offset
    assert logs.cleaner.totals.bytes_saved > 0
    await until(lambda: replica.log.compaction.held_from == MAX_INT64)  # retention may have all of it again
    assert table_of(replica) == before
    logs.clock.advance(10)
    await until(lambda: logs.cleaner.totals.runs == 1)
    assert jobs[1].first_dirty_offset == counted
    assert table_of(replica) == before
    found = keys_before(replica, replica.log.compaction.first_dirty_offset)
    assert len(found) == len(set(found)), "a key is there once"


def keys_before(replica: Replica, end: int) -> list[bytes | None]:
    keys: list[bytes | None] = []
    for header in stored_headers(replica.log):
        if header.next_offset <= end and header.record_count:
            keys += [key for _, _, key, *_ in read_records(replica.log.read(header.base_offset, 1, end))]
    return keys


@pytest.mark.story("cleaning-fills-the-disk")
async def test_without_room_for_a_segment_a_log_is_named_and_left_alone(
    logs: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room is checked before and during a cleaning, which is tried again and goes on where it was."""
    monkeypatch.setattr(cleaner_module, "_TRY_AGAIN_FIRST_S", 5.0)
    jobs, usable = watch_workers(logs), [100]
    monkeypatch.setattr(Room, "usable_bytes", property(lambda self: usable[0]))
    replica = logs.add(1, GROUPS)
    await logs.produce(replica, 100)
    before = stored_headers(replica.log)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.uncleanable == 1)
    assert not jobs
    assert "room for 100 bytes" in logs.failure
    assert "free space" in logs.failure
    assert stored_headers(replica.log) == before
    assert not list(Path(replica.log.directory).glob("*.cleaned"))
    usable[0] = 2 * GROUPS.segment_bytes
    logs.clock.advance(10)
    await until(lambda: logs.cleaner.totals.runs == 1)
    assert jobs[0].segment_bytes == GROUPS.segment_bytes


@pytest.mark.story("segments-are-read-on-the-loop")
async def test_timestamps_are_looked_up_in_a_thread(logs: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    look_up = Segment.headers_from

    def noted(segment: Segment, position: int) -> Any:
        threads.add(threading.current_thread().name.split("_")[0])
        return look_up(segment, position)

    replica = logs.add(1, replace(COMPACTED, max_compaction_lag_ms=1000, least_dirty_ratio=1.0))
    await logs.produce(replica, 60)
    for segment in replica.log.segments:
        segment.first_timestamp_ms = -1  # as after a start
    logs.clock.advance(2)
    monkeypatch.setattr(Segment, "headers_from", noted)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.totals.runs == 1)
    assert "look-up" in threads
    assert "MainThread" not in threads


async def test_records_without_a_key_are_dropped_and_counted(logs: Compacted, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    replica = logs.add(1)
    await logs.produce(replica, 3, key=None)
    await logs.produce(replica, 100)
    await logs.cleaner.start()
    await until(lambda: logs.cleaner.totals.runs == 1)
    assert None not in table_of(replica)
    assert "compaction dropped records without a key: 3" in caplog.text
