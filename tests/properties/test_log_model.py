"""A log against a list: whatever is appended, rolled, deleted, closed or killed, reads tell what the list tells."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from batches import NOON, sealed
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from logs import headers_of, open_log, records_of

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.log_config import LogConfig
from ottla_core.errors import OttlaError
from ottla_core.model import MAX_TIMESTAMP
from ottla_core.records.batch import BatchHeader, body_crc


class Row(NamedTuple):
    """A record of the model, with the end of its batch."""

    offset: int
    timestamp_ms: int
    value: bytes
    batch_end: int


def sound_headers(data: bytes) -> list[BatchHeader]:
    """Garbage may happen to be the byte that was lost."""
    headers, at = [], 0
    for header in headers_of(data):
        if body_crc(data[at : at + header.size_bytes]) != header.crc:
            break
        headers.append(header)
        at += header.size_bytes
    return headers


class LogMachine(RuleBasedStateMachine):
    """The model is `rows`, all that was ever appended and not lost, and the log's start."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.WARNING)
        self.path = Path(tempfile.mkdtemp())
        self.rows: list[Row] = []
        self.start = self.end = self.flushed = 0
        self.config = LogConfig()

    def teardown(self) -> None:
        shutil.rmtree(self.path)
        logging.disable(logging.NOTSET)

    @initialize(segment_bytes=st.integers(400, 3000), interval=st.integers(1, 600), index_bytes=st.integers(36, 500))
    def open(self, segment_bytes: int, interval: int, index_bytes: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, segment_index_bytes=index_bytes, segment_ms=500
        )
        self.log = open_log(self.path / "log", self.config)

    @property
    def visible(self) -> list[Row]:
        return [row for row in self.rows if row.offset >= self.start]

    # ---- what may happen ----------------------------------------------------------------------------------------

    @rule(
        batches=st.lists(
            st.lists(st.tuples(st.integers(0, 999), st.integers(0, 60)), min_size=1, max_size=4), min_size=1, max_size=3
        )
    )
    def append(self, batches: list[list[tuple[int, int]]]) -> None:
        """Batches of records, each with a time and the size of its value."""
        data, rows, offset = b"", [], self.end
        for batch in batches:
            end = offset + len(batch)
            values = [b"%d." % (offset + n) + b"x" * size for n, (_, size) in enumerate(batch)]
            times = [NOON + time for time, _ in batch]
            data += sealed((n, at, None, value, []) for n, (at, value) in enumerate(zip(times, values, strict=True)))
            rows += [Row(offset + n, times[n], values[n], end) for n in range(len(batch))]
            offset = end
        if len(data) > self.config.segment_bytes:
            return
        done = self.log.append(data, 1, NOON)
        assert (done.base_offset, done.last_offset) == (self.end, offset - 1)
        self.rows += rows
        self.end = offset

    @rule(taken=st.integers(0, 200), failure=st.sampled_from([None, OSError(28, "No space left"), KeyboardInterrupt()]))
    def append_in_vain(self, taken: int, failure: BaseException | None) -> None:
        """The disk takes a part of it, or something comes in between when it has."""

        def write(file: DataFile, buffers: list[bytes], position: int) -> int:
            data = b"".join(buffers)[:taken]
            os.pwrite(file._fd, data, position)
            if failure is not None:
                raise failure
            return len(data)

        data = sealed([(0, NOON, None, b"refused" * 50, [])])
        with patch.object(DataFile, "write", write), pytest.raises((OttlaError, KeyboardInterrupt)):
            self.log.append(data if len(data) <= self.config.segment_bytes else data[:0], 1, NOON)

    @rule()
    def flush(self) -> None:
        self.flushed = self.log.flush(NOON)
        assert self.flushed == self.end

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.start = self.log.delete_records_before(
            self.start + int(share * (self.end - self.start)), HighWatermark(self.end)
        )

    @rule(keep=st.integers(0, 4000), share=st.floats(0, 1))
    def retain(self, keep: int, share: float) -> None:
        high_watermark = self.start + int(share * (self.end - self.start))
        self.log.config = LogConfig(retention_bytes=keep, retention_ms=-1)
        self.log.delete_old_segments(HighWatermark(high_watermark), NOON)
        self.log.config = self.config
        assert self.start <= self.log.log_start_offset <= max(self.start, high_watermark)
        self.start = self.log.log_start_offset

    @rule()
    def restart(self) -> None:
        self.log.close(NOON)
        self.log = open_log(self.path / "log", self.config, clean=True, log_start_offset=self.start)
        self.flushed = self.end

    @rule(share=st.floats(0, 1))
    def crash(self, share: float) -> None:
        """Killed; the recovery point on disk is some earlier one."""
        self.log.abandon()
        point = int(share * min(self.flushed, self.end))
        self.log = open_log(self.path / "log", self.config, recovery_point=point, log_start_offset=self.start)

    @precondition(lambda self: self.rows)
    @rule(lost=st.integers(1, 400), garbage=st.binary(max_size=80), zeroes=st.booleans())
    def crash_and_lose_the_tail(self, lost: int, garbage: bytes, zeroes: bool) -> None:
        """Power is cut: the last segment's end is gone, and what lies there now is anything."""
        self.log.abandon()
        file = max((self.path / "log").glob("*.log"))
        data = file.read_bytes()[: max(0, file.stat().st_size - lost)]
        data += bytes(len(garbage)) if zeroes else garbage
        file.write_bytes(data)
        kept = max((header.next_offset for header in sound_headers(data)), default=int(file.stem))
        self.end = max(kept, self.start)
        self.rows = [row for row in self.rows if row.batch_end <= kept]
        self.flushed = min(self.flushed, self.end)
        self.log = open_log(self.path / "log", self.config, log_start_offset=self.start)

    # ---- what is true -------------------------------------------------------------------------------------------

    @rule(share=st.floats(0, 1), limit_share=st.floats(0, 1), max_bytes=st.integers(0, 2000), hot=st.booleans())
    def read(self, share: float, limit_share: float, max_bytes: int, hot: bool) -> None:
        offset = self.start + int(share * (self.end - self.start))
        limit = offset + int(limit_share * (self.end - offset))
        data = self.log.read_hot(offset, max_bytes, limit) if hot else None
        if data is None:
            data = self.log.read(offset, max_bytes, limit)
        headers = headers_of(data)
        assert sum(header.size_bytes for header in headers) == len(data)
        assert len(data) <= max_bytes or len(headers) == 1
        got = [record for record in records_of(data) if record[0] >= offset]
        expected = [(row.offset, row.value) for row in self.rows if offset <= row.offset and row.batch_end <= limit]
        assert got == expected[: len(got)]
        assert bool(got) == bool(expected)

    @rule(time=st.integers(-1, 1000))
    def look_up(self, time: int) -> None:
        first = next((row for row in self.visible if row.timestamp_ms >= NOON + time), None)
        found = self.log.offset_for_time(NOON + time, self.end)
        assert found == (first and (first.offset, first.timestamp_ms))

    @precondition(lambda self: self.rows and self.start == 0)
    @rule()
    def look_up_the_newest(self) -> None:
        newest = max(self.rows, key=lambda row: row.timestamp_ms)
        assert self.log.offset_for_time(MAX_TIMESTAMP, self.end) == (newest.offset, newest.timestamp_ms)

    @invariant()
    def ends_agree(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
            assert self.log.recovery_point <= self.end
            active = self.log.segments[-1]
            assert Path(active.path).stat().st_size == active.size_bytes, "nothing lies behind the log's end"


LogMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestLogModel = pytest.mark.rule(57, 58, 59)(pytest.mark.feature(82, 83, 94)(LogMachine.TestCase))
