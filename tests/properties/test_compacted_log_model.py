"""A compacted log against a dict: whatever is appended, truncated, cleaned, closed or killed at any step of that, the
newest value of each key is there, at the offset that it got; a tombstone is there for its time."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from batches import NOON, sealed
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from logs import headers_of, open_log
from platter import STEPS

from ottla_broker.compaction.candidate import Candidate
from ottla_broker.compaction.cleaning import clean
from ottla_broker.compaction.job import CleanedGroup, CleaningJob, SourceSegment
from ottla_broker.machines.cleanable import Cleanable
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.segment import ranges_of
from ottla_core.records.compression import Codec
from ottla_core.records.reader import read_records

RETENTION_MS = 1_000
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
ROWS = st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=4)


class Killed(BaseException):
    """The process is gone, in between."""


class EndedError(Exception):
    """The worker is gone, and the broker is not."""


class Row(NamedTuple):
    key: bytes
    value: bytes | None


class CompactedLog(RuleBasedStateMachine):
    """The model is `history`: every record by its offset, whatever was cleaned since."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.CRITICAL)
        self.path = Path(tempfile.mkdtemp(dir="/dev/shm"))
        self.history: dict[int, Row] = {}
        self.cleaned_at: dict[int, int] = {}
        """When a tombstone was cleaned first, or was about to be."""
        self.reached = 0
        """Up to where a cleaning may have come, if it was killed before it noted that."""
        self.now_ms = NOON
        self.committed = 0
        self.config = LogConfig()

    def teardown(self) -> None:
        shutil.rmtree(self.path)
        logging.disable(logging.NOTSET)

    @initialize(segment_bytes=st.integers(250, 900))
    def open(self, segment_bytes: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=100, compacts=True)
        self.log = open_log(self.path / "log", self.config)

    @rule(batches=st.lists(ROWS, min_size=4, max_size=16), codec=st.sampled_from([Codec.NONE, Codec.ZSTD]))
    def append(self, batches: list[list[tuple[bytes, bool]]], codec: Codec) -> None:
        """Batches of records with keys; each third or so removes its key."""
        for batch in batches:
            offset = self.log.log_end_offset
            rows = [Row(key, None if gone else b"%d" % (offset + n)) for n, (key, gone) in enumerate(batch)]
            data = sealed([(n, self.now_ms, row.key, row.value, []) for n, row in enumerate(rows)], codec)
            self.log.append(data, 1, self.now_ms)
            self.history.update(enumerate(rows, start=offset))

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        """Another leader has less of what is not committed."""
        end = self.log.truncate_to(self.committed + int(share * (self.log.log_end_offset - self.committed)))
        self.history = {offset: row for offset, row in self.history.items() if offset < end}
        self.cleaned_at = {offset: at for offset, at in self.cleaned_at.items() if offset < end}
        self.committed, self.reached = min(self.committed, end), min(self.reached, end)
        assert self.log.compaction.first_dirty_offset <= end

    @rule(
        uncommitted=st.sampled_from([0, 0, 3, 10]),
        later_ms=st.sampled_from([0, 1, RETENTION_MS, 5 * RETENTION_MS]),
        keys=st.sampled_from([2, 4, 1000]),
        groups=st.sampled_from([1, 2, 1000, 1000]),
    )
    def compact(self, uncommitted: int, later_ms: int, keys: int, groups: int) -> None:
        """Clean the log; the worker may be ended after some groups of segments, which then count."""
        self.committed = max(self.committed, self.log.log_end_offset - uncommitted)
        self.now_ms += later_ms
        with suppress(EndedError):
            self._compact(keys, groups)

    @rule(step=st.integers(0, 30), keys=st.sampled_from([2, 1000]), recovery=st.floats(0, 1))
    def be_killed_while_it_is_compacted(self, step: int, keys: int, recovery: float) -> None:
        self.committed = self.log.log_end_offset
        with _killed_at(step), suppress(Killed):
            self._compact(keys)
        self.be_killed(recovery)

    @rule(recovery=st.floats(0, 1))
    def be_killed(self, recovery: float) -> None:
        """Kill the broker: what was written stays, and the recovery point on disk is an earlier one, but not below what
        a cleaning may have taken."""
        on_disk, dirty = self.log.compaction.recovery_point, self.log.compaction.first_dirty_offset
        point = on_disk + int(recovery * (self.log.recovery_point - on_disk))
        self.log.abandon()
        self.log = open_log(self.path / "log", self.config, recovery_point=point)
        self.log.compaction.first_dirty_offset = min(dirty, self.log.log_end_offset)

    @rule()
    def restart(self) -> None:
        dirty = self.log.compaction.first_dirty_offset
        self.log.close(self.now_ms)
        self.log = open_log(self.path / "log", self.config, clean=True)
        self.log.compaction.first_dirty_offset = dirty

    def _compact(self, keys: int, groups: int = 1000) -> None:
        """Clean as the log cleaner does, with room for so many `keys`. Raises EndedError after so many `groups`."""
        log, end = self.log, min(self.committed, self.log.segments[-1].base_offset)
        log.secure_sealed()
        sources = [(s, e) for s, e in ranges_of(log.segments, log.log_end_offset)[:-1] if s.base_offset < end]
        if not sources or log.compaction.first_dirty_offset >= end:
            return
        job = CleaningJob(
            directory=log.directory,
            segments=[SourceSegment(s.base_offset, e, s.size_bytes) for s, e in sources],
            log_start_offset=0,
            first_dirty_offset=log.compaction.first_dirty_offset,
            end_offset=end,
            now_ms=self.now_ms,
            delete_retention_ms=RETENTION_MS,
            segment_bytes=self.config.segment_bytes,
            segment_index_bytes=self.config.segment_index_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
            map_bytes=max(96, 24 * keys),
            most_bytes_per_s=0,
            newest_batches=frozenset(),
            drops_keyless=True,
        )
        self.reached = max(self.reached, end)
        for offset, row in self.history.items():
            if row.value is None and offset < end:
                self.cleaned_at.setdefault(offset, self.now_ms)
        part = Cleanable(job.first_dirty_offset, end, len(sources), 0, 0, is_overdue=False)
        candidate = Candidate(log, part, sources, log.compaction.truncations)
        passed = 0

        def take(group: CleanedGroup) -> None:
            nonlocal passed
            candidate.swap(group)
            candidate.on_passed(group)
            passed += 1
            if passed == groups:
                raise EndedError

        candidate.hold()
        try:
            clean(job, take)
        finally:
            candidate.release()

    def present(self) -> dict[int, Row]:
        found, offset, log = {}, 0, self.log
        while offset < log.log_end_offset:
            data = log.read(offset, 1 << 20, log.log_end_offset)
            for header in headers_of(data):
                offset = header.next_offset
            at = 0
            for header in headers_of(data):
                batch, at = data[at : at + header.size_bytes], at + header.size_bytes
                found.update({record[0]: Row(record[2] or b"", record[3]) for record in read_records(batch)})
        return found

    @invariant()
    def the_newest_of_each_key_is_there(self) -> None:
        if not hasattr(self, "log"):
            return
        present = self.present()
        assert present.items() <= self.history.items(), "nothing comes back, nothing changes, no offset is another"
        newest = {row.key: offset for offset, row in sorted(self.history.items())}
        compacted: dict[bytes, int] = {}
        for offset in newest.values():
            cleaned_at = self.cleaned_at.get(offset)
            is_over = cleaned_at is not None and self.now_ms >= cleaned_at + RETENTION_MS
            assert offset in present or (self.history[offset].value is None and is_over)
        for offset, row in present.items():
            assert newest[row.key] in present, "a value does not outlive the tombstone that deleted it"
            if offset < self.log.compaction.first_dirty_offset:
                assert compacted.setdefault(row.key, offset) == offset, "what counts as compacted has a key once"
        assert all(offset in present for offset in range(self.reached, self.log.log_end_offset)), "nothing else goes"
        names = set(os.listdir(self.log.directory))
        assert {name for name in names if name.endswith(".log")} == {s.path.name for s in self.log.segments}


@contextmanager
def _killed_at(step: int) -> Iterator[None]:
    """At that step that changes names or bytes, and at each after it: nothing is done any more."""
    done = 0

    def counted(do: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done > step:
                raise Killed
            return do(*arguments, **options)

        return act

    hooks: dict[str, Any] = {name: counted(getattr(os, name)) for name in STEPS}
    with patch.multiple(os, **hooks):
        yield


CompactedLog.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestCompactedLog = pytest.mark.rule(62)(CompactedLog.TestCase)
