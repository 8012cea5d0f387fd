"""A data directory of which a power cut leaves what was synced: at every step of whatever its broker does.

What is found then is the beginning of each log, at least as far as a flush went. Its epochs begin where their first
batches were appended, whether compaction has left those or not. Where the directory still vouches for itself, nothing
is missing.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from batches import NOON
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from logs import SMALL, headers_of, values_batch
from platter import STEPS, Platter
from produced import stored_headers
from swapped import write_cleaned

from ottla_broker.storage import files
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_dir import LogDir, NewLog
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.batch import BatchHeader
from ottla_core.records.leader_epochs import EpochStart

ME = DirectoryIdentity("cluster-a", 3, "AAAAAAAAAAAAAAAAAAAAAA")
TOPIC = TopicId(bytes(range(16)))
LOGS = st.integers(0, 1)
_CUTS = ((False, False), (True, False), (True, True))
"""Whether names survive that were not synced, and bytes: a journal may be faster than the data."""
_SAME_AS_BEFORE = dict.fromkeys(STEPS, 1) | {"ftruncate": 2, "pwritev": 2}
"""How many of the cuts leave after this step what they left before it: nothing was synced, or no name changed."""


@dataclass(slots=True)
class Expected:
    """What was appended to a log, and up to where it can't be lost."""

    headers: list[BatchHeader] = field(default_factory=list)
    flushed: int = 0
    epochs: list[EpochStart] = field(default_factory=list)
    compacted: list[BatchHeader] | None = None
    """What it is instead, once a swap is decided."""


class PowerCuts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.CRITICAL)
        self.path = Path(tempfile.mkdtemp(dir="/dev/shm"))
        self.stack = ExitStack()
        self.boots = 0
        self.epoch = self.appends = 0
        self.cuts_all_ways = False
        self.logs: dict[PartitionId, Expected] = {}
        self.perhaps: set[PartitionId] = set()
        """Logs that are being made or deleted."""
        self.boot_id, files.boot_id = files.boot_id, lambda: f"boot {self.boots}"

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.path)
        files.boot_id = self.boot_id
        logging.disable(logging.NOTSET)

    @initialize(seed=st.integers(0, 1 << 32), count=st.sampled_from([2, 9]))
    def begin(self, seed: int, count: int) -> None:
        """The logs are made with an fsync for each file, or with one sync for all."""
        self.random = Random(seed)
        (self.path / "0").mkdir()
        self.reopen(self.path / "0")
        self.perhaps = {PartitionId(TOPIC, n) for n in range(count)}
        made = self.log_dir.create_all([NewLog(id_, "flights", SMALL) for id_ in self.perhaps], now_ms=NOON)
        assert all(isinstance(log, Log) for log in made)
        self.logs = {id_: Expected() for id_ in self.perhaps}
        self.perhaps = set()
        self.cut_here("made")

    def opened(self, path: Path) -> LogDir:
        return LogDir.open(path, ME, SMALL, now_ms=NOON)

    # ---- what a power cut leaves ---------------------------------------------------------------------------------

    def cut_here(self, step: str) -> None:
        """The directory that is left is opened, and thrown away: here nothing has happened."""
        differ = _CUTS[_SAME_AS_BEFORE.get(step, 0) :]
        for names_survive, bytes_survive in differ if self.cuts_all_ways else [self.random.choice(differ)]:
            left = self.path / "left"
            self.platter.cut(left, self.random, names_survive=names_survive, bytes_survive=bytes_survive)
            self.look_at(left)

    def look_at(self, left: Path) -> None:
        with self.platter.paused():
            self.boots += 1
            log_dir = self.opened(left)
            try:
                self.check(log_dir)
            finally:
                self.boots -= 1
                log_dir.abandon()
                shutil.rmtree(left)

    def check(self, log_dir: LogDir) -> None:
        assert self.logs.keys() - self.perhaps <= log_dir.logs.keys() <= self.logs.keys() | self.perhaps
        for partition, log in log_dir.logs.items():
            expected = self.logs.get(partition, Expected())
            if partition in self.perhaps:
                expected.flushed = 0
            check_log(log, expected, whole=not log_dir.may_have_lost_tail)

    @rule(which=st.sampled_from(_CUTS))
    def cut(self, which: tuple[bool, bool]) -> None:
        """And this time it has happened."""
        self.log_dir.abandon()
        self.boots += 1
        names_survive, bytes_survive = which
        root = self.path / str(self.boots)
        self.platter.cut(root, self.random, names_survive=names_survive, bytes_survive=bytes_survive)
        self.reopen(root)

    def reopen(self, root: Path) -> None:
        self.stack.close()
        self.platter = self.stack.enter_context(Platter(root, self.cut_here).watched())
        self.log_dir = self.opened(root)
        self.check(self.log_dir)
        self.log_dir.vouch()
        for partition, log in self.log_dir.logs.items():
            epochs = self.logs[partition].epochs if partition in self.logs else []
            self.logs[partition] = Expected(stored_headers(log), log.recovery_point, epochs_before(log, epochs))

    # ---- what a broker does --------------------------------------------------------------------------------------

    @rule(number=LOGS)
    def delete_and_create_again(self, number: int) -> None:
        id_ = PartitionId(TOPIC, number)
        self.perhaps = {id_}
        self.log_dir.delete([id_])
        self.logs[id_] = Expected()
        self.log_dir.create(id_, "flights", SMALL, now_ms=NOON)
        self.perhaps = set()

    @rule(number=LOGS, batches=st.integers(1, 12), elects=st.booleans())
    def append(self, number: int, batches: int, elects: bool) -> None:
        """Some segments may roll."""
        id_, log = self.log(number)
        self.epoch += elects
        for _ in range(batches):
            offset, self.appends = log.log_end_offset, self.appends + 1
            time_ms = NOON + 1000 * offset
            data = values_batch(*(b"%d" % self.appends for _ in range(3)), at_ms=time_ms)
            [header] = headers_of(data)
            expected = self.logs[id_]
            expected.headers.append(header._replace(base_offset=offset, leader_epoch=self.epoch))
            if not expected.epochs or expected.epochs[-1].epoch != self.epoch:
                expected.epochs.append(EpochStart(self.epoch, offset))
            log.append(data, self.epoch, time_ms)

    @rule(number=LOGS)
    def elect(self, number: int) -> None:
        """A leader that may write nothing in its epoch."""
        self.epoch += 1
        self.log(number)[1].assign_epoch(self.epoch)

    @rule(number=LOGS, and_checkpoint=st.booleans())
    def flush(self, number: int, and_checkpoint: bool) -> None:
        id_, log = self.log(number)
        self.logs[id_].flushed = log.flush(NOON)
        self.cut_here("flushed")
        if and_checkpoint:
            self.checkpoint(1.0)

    @rule(number=LOGS, share=st.floats(0, 1))
    def truncate(self, number: int, share: float) -> None:
        id_, log = self.log(number)
        expected, offset = self.logs[id_], int(share * log.log_end_offset)
        kept = [header for header in expected.headers if header.next_offset <= offset]
        expected.flushed = min(expected.flushed, kept[-1].next_offset if kept else 0)
        log.truncate_to(offset)
        expected.headers, expected.epochs = kept, epochs_before(log, expected.epochs)
        self.cut_here("truncated")

    @rule(number=LOGS, first=st.integers(0, 3), count=st.integers(1, 4), every=st.integers(1, 4))
    def compact(self, number: int, first: int, count: int, every: int) -> None:
        """One batch of `every` stays of these segments."""
        id_, log = self.log(number)
        expected, sources = self.logs[id_], log.segments[:-1][first : first + count]
        if not sources:
            return
        kept = write_cleaned(log, sources, lambda header: header.base_offset // 3 % every == 0)
        expected.flushed = max(expected.flushed, log.compaction.recovery_point)
        end = log.segments[first + len(sources)].base_offset
        before = [h for h in expected.headers if h.base_offset < sources[0].base_offset]
        expected.compacted = before + kept + [h for h in expected.headers if h.base_offset >= end]
        assert log.compaction.swap(sources, SMALL)
        expected.headers, expected.compacted = expected.compacted, None
        log.compaction.first_dirty_offset = end
        self.cut_here("compacted")

    @rule(share=st.floats(0, 1))
    def checkpoint(self, share: float) -> None:
        self.log_dir.checkpoint({id_: int(share * log.log_end_offset) for id_, log in self.log_dir.logs.items()})

    @rule()
    def restart(self) -> None:
        """In order, with a thread that writes checkpoints beside it."""
        plain_close = Log.close

        def close(log: Log, now_ms: int) -> None:
            plain_close(log, now_ms)
            with ThreadPoolExecutor(1) as thread:
                thread.submit(self.log_dir.checkpoint, {}).result()

        with patch.object(Log, "close", close):
            self.log_dir.close({id_: log.log_end_offset for id_, log in self.log_dir.logs.items()}, now_ms=NOON)
        for id_, log in self.log_dir.logs.items():
            self.logs[id_].flushed = log.log_end_offset
        self.cut_here("closed")
        self.log_dir = self.opened(self.platter.root)
        assert not self.log_dir.may_have_lost_tail

    def log(self, number: int) -> tuple[PartitionId, Log]:
        id_ = PartitionId(TOPIC, number)
        return id_, self.log_dir.logs[id_]


def epochs_before(log: Log, epochs: Sequence[EpochStart]) -> list[EpochStart]:
    """Return the epochs of which the log has a batch, or had one before a clean."""
    return [each for each in epochs if each.start_offset < log.log_end_offset]


def check_log(log: Log, expected: Expected, *, whole: bool) -> None:
    found = stored_headers(log)
    if expected.compacted is not None and found != expected.headers[: len(found)]:
        expected = Expected(expected.compacted, expected.flushed, expected.epochs)
    assert found == expected.headers[: len(found)]
    assert log.log_end_offset >= expected.flushed
    assert log.log_end_offset >= log.recovery_point
    assert all(
        before.next_offset == h.base_offset for before, h in pairwise(found) if h.base_offset > log.recovery_point
    )
    if whole:
        assert found == expected.headers
    assert found == [header for segment in log.segments for _, header in segment.headers_from(0)]
    for header in (*found[::5], *found[-1:]):
        at = header.max_timestamp
        assert log.offset_for_time(at, log.log_end_offset) == (header.base_offset, at)
        assert headers_of(log.read(header.last_offset, 1, log.log_end_offset)) == [header]
    assert list(log.epochs.entries) == epochs_before(log, expected.epochs)


@pytest.mark.rule(4, 58, 60, 61, 62)
@pytest.mark.parametrize("logs", [2, 9])
def test_power_may_be_cut_at_each_step_of_a_life(logs: int) -> None:
    life = PowerCuts()
    life.cuts_all_ways = True
    try:
        life.begin(seed=logs, count=logs)
        for elects in (True, False, True):
            life.append(0, 9, elects)
        life.flush(0, and_checkpoint=True)
        life.compact(0, first=1, count=3, every=2)
        life.compact(0, first=0, count=1, every=4)
        life.truncate(0, 0.7)
        life.append(0, 9, elects=True)
        life.append(1, 9, elects=False)
        life.restart()
        life.append(0, 9, elects=True)
        life.flush(0, and_checkpoint=True)
        life.cut((True, True))
        life.elect(1)
        life.append(1, 9, elects=True)
        life.flush(1, and_checkpoint=True)
        life.delete_and_create_again(1)
        life.append(1, 9, elects=False)
    finally:
        life.teardown()


PowerCuts.TestCase.settings = settings(max_examples=4, stateful_step_count=12)
TestPowerCuts = pytest.mark.rule(4, 58, 60, 61, 62)(PowerCuts.TestCase)
