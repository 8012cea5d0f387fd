"""The cleaner against a list: whatever was appended, and however often it is cleaned, what is left is what the rules of
compaction leave of it (rules 30, 58, 62): each key's newest record, tombstones for their time, all at their offsets.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from batches import NOON, sealed
from cleanings import batches_in, clean, header_of, job_for, placed, swap
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from logs import open_log

from ottla_broker.compaction.job import SourceSegment
from ottla_broker.compaction.offset_map import SLOT_BYTES
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.scan import sound_batches
from ottla_core.records.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, NO_PRODUCER_ID, TRANSACTIONAL, BatchHeader
from ottla_core.records.compression import Codec
from ottla_core.records.control import EndTransactionMarker, encode_marker
from ottla_core.records.fence import ShardFence, fence_of, seal_fence
from ottla_core.records.reader import read_records

RETENTION_MS = 100

KEYS = st.sampled_from([b"%d" % n for n in range(5)])
VALUES = st.one_of(st.none(), st.binary(max_size=9).map(lambda value: value * 40))  # so that codecs shrink them
MARKER = encode_marker(EndTransactionMarker(committed=False, coordinator_epoch=1))


class Row(NamedTuple):
    """A record of the model, with the first and the last offset of its batch."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None
    batch_base: int
    batch_last: int


class CleanerMachine(RuleBasedStateMachine):
    """The model: `rows` that must be there, `horizons` of batches, `fences`, `markers`, and each batch's header."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.WARNING)
        self.path = Path(tempfile.mkdtemp())
        self.directory = self.path / "log"
        self.directory.mkdir()
        self.sealed: list[SourceSegment] = []
        self.active: list[bytes] = []
        self.rows: list[Row] = []
        self.headers: dict[int, BatchHeader] = {}
        self.horizons: dict[int, int] = {}
        self.fences: list[int] = []
        self.markers: list[int] = []
        self.newest_of: dict[int, int] = {}
        self.base = self.end = self.dirty = 0
        self.now_ms = NOON

    def teardown(self) -> None:
        shutil.rmtree(self.path)
        logging.disable(logging.NOTSET)

    @initialize(segment_bytes=st.sampled_from([300, 900, 1 << 20]), interval=st.integers(0, 500))
    def configure(self, segment_bytes: int, interval: int) -> None:
        self.limits = {"segment_bytes": segment_bytes, "index_interval_bytes": interval}

    # ---- what may happen ----------------------------------------------------------------------------------------

    @rule(
        records=st.lists(st.tuples(KEYS, VALUES, st.integers(-500, 500)), min_size=1, max_size=6),
        codec=st.sampled_from(Codec),
        producer=st.sampled_from([NO_PRODUCER_ID, NO_PRODUCER_ID, 1, 2]),
        transactional=st.booleans(),
    )
    def append(
        self,
        records: list[tuple[bytes, bytes | None, int]],
        codec: Codec,
        producer: int,
        transactional: bool,
    ) -> None:
        batch = sealed(((0, NOON + shift, key, value, []) for key, value, shift in records), codec)
        attributes = header_of(batch).attributes | (TRANSACTIONAL if transactional and producer >= 0 else 0)
        base, last = self.end, self.end + len(records) - 1
        self.rows += [
            Row(base + n, NOON + shift, key, value, base, last) for n, (key, value, shift) in enumerate(records)
        ]
        self._put(batch, attributes=attributes, producer_id=producer, base_sequence=base)
        if producer >= 0:
            self.newest_of[producer] = last

    @rule(epoch=st.integers(0, 9))
    def fence(self, epoch: int) -> None:
        self.fences.append(self.end)
        self._put(seal_fence(ShardFence(epoch, 1), NOON))

    @rule(producer=st.integers(1, 2))
    def end_transaction(self, producer: int) -> None:
        self.markers.append(self.end)
        batch = sealed([(0, NOON, *MARKER, [])], attributes=CONTROL | TRANSACTIONAL)
        self._put(batch, producer_id=producer)

    @rule()
    def roll(self) -> None:
        if self.active:
            data = b"".join(self.active)
            (self.directory / f"{self.base:020d}.log").write_bytes(data)
            self.sealed.append(SourceSegment(self.base, self.end, len(data)))
            self.base, self.active = self.end, []

    @rule(
        rolls=st.sampled_from([True, True, False]),
        passed_ms=st.sampled_from([0, 1, 50, RETENTION_MS - 1, RETENTION_MS, 3 * RETENTION_MS]),
        below=st.sampled_from([0, 0, 0, 1, 3, 12]),
        slots=st.sampled_from([4, 8, 40, 40]),
        loses_checkpoint=st.sampled_from([False, False, False, True]),
    )
    def clean(self, rolls: bool, passed_ms: int, below: int, slots: int, loses_checkpoint: bool) -> None:
        self.now_ms += passed_ms
        if rolls:
            self.roll()
        dirty = 0 if loses_checkpoint else self.dirty
        end = max(self.base - below, dirty)
        if not self.sealed:
            return
        before = batches_in(self.directory, self.sealed)
        job = job_for(
            self.directory,
            self.sealed,
            first_dirty_offset=dirty,
            end_offset=end,
            now_ms=self.now_ms,
            delete_retention_ms=RETENTION_MS,
            map_bytes=slots * SLOT_BYTES,
            newest_batches=frozenset(self.newest_of.values()),
            **self.limits,
        )
        result = clean(job)
        assert dirty <= result.end_offset <= end
        assert result.end_offset > dirty or not any(dirty <= row.offset and row.batch_last < end for row in self.rows)
        self.sealed, self.dirty = swap(job, result), result.end_offset
        assert sorted(path.suffix for path in self.directory.iterdir() if path.suffix == ".cleaned") == []
        self._clean_model(result.end_offset)
        self._clean_markers([header_of(b) for b in before if header_of(b).base_offset < result.end_offset])
        after = batches_in(self.directory, self.sealed)
        assert [b for b in after if header_of(b).base_offset >= end] == [
            b for b in before if header_of(b).base_offset >= end
        ]

    # ---- what must hold -----------------------------------------------------------------------------------------

    @invariant()
    def what_is_left_is_what_the_rules_leave(self) -> None:
        found, fences, markers = [], [], []
        for batch in (*batches_in(self.directory, self.sealed), *self.active):
            header = header_of(batch)
            if not header.is_control:
                found += [record[:4] for record in read_records(batch)]
            elif fence_of(batch):
                fences.append(header.base_offset)
            elif header.record_count:
                markers.append(header.base_offset)
        assert found == [row[:4] for row in self.rows]
        assert (fences, markers) == (self.fences, self.markers)

    @invariant()
    def batches_are_who_they_were(self) -> None:
        batches = (*batches_in(self.directory, self.sealed), *self.active)
        left = [header_of(batch) for batch in batches]
        for header, batch in zip(left, batches, strict=True):
            before = self.headers[header.base_offset]
            largest_ms = before.max_timestamp
            if header.record_count < before.record_count:
                largest_ms = max((ms for _, ms, *_ in read_records(batch)), default=-1)
            bits = CODEC_MASK | DELETE_HORIZON
            assert header.attributes & ~bits == before.attributes & ~bits
            assert header.codec in (before.codec, 0 if header.record_count == 0 else before.codec)
            assert header.base_timestamp == self.horizons.get(header.base_offset, before.base_timestamp)
            assert header == before._replace(
                attributes=header.attributes,
                base_timestamp=header.base_timestamp,
                batch_length=header.batch_length,
                crc=header.crc,
                max_timestamp=largest_ms,
                record_count=header.record_count,
            )
        assert set(self.newest_of.values()) <= {header.last_offset for header in left}

    @invariant()
    def segments_are_whole_and_without_gaps(self) -> None:
        expected = 0
        for source in self.sealed:
            file = DataFile(self.directory / f"{source.base_offset:020d}.log")
            found = list(sound_batches(file, source.size_bytes))
            assert sum(header.size_bytes for _, header in found) == source.size_bytes == file.size_bytes()
            assert (source.base_offset, source.next_offset) == (expected, found[-1][1].next_offset)
            expected = source.next_offset
        assert expected == self.base

    @rule()
    def is_recovered(self) -> None:
        """As after a crash, of a copy."""
        copy = self.path / "copy"
        shutil.copytree(self.directory, copy)
        log = open_log(copy, LogConfig(index_interval_bytes=self.limits["index_interval_bytes"]))
        assert log.log_end_offset == self.base
        assert [segment.size_bytes for segment in log.segments][: len(self.sealed)] == [
            source.size_bytes for source in self.sealed
        ]
        shutil.rmtree(copy)

    # ---- the model ----------------------------------------------------------------------------------------------

    def _put(self, batch: bytes, **fields: int) -> None:
        batch = placed(batch, self.end, **fields)
        header = self.headers[self.end] = header_of(batch)
        self.active.append(batch)
        self.end = header.next_offset

    def _clean_markers(self, before: list[BatchHeader]) -> None:
        """One with no batch of its transaction before it gets a horizon, and goes when that is over."""
        seen: set[int] = set()
        for header in before:
            if not header.is_control and header.is_transactional:
                seen.add(header.producer_id)
            elif header.is_control and header.producer_id >= 0 and header.record_count:
                offset, horizon_ms = header.base_offset, self.horizons.get(header.base_offset)
                if header.producer_id not in seen and offset not in self.newest_of.values():
                    self.horizons.setdefault(offset, self.now_ms + RETENTION_MS)
                    if horizon_ms is not None and self.now_ms >= horizon_ms:
                        self.markers.remove(offset)
                seen.discard(header.producer_id)

    def _clean_model(self, end: int) -> None:
        newest = {row.key: row.offset for row in self.rows if row.offset < end}
        left = []
        for row in self.rows:
            is_whole = row.batch_last < end
            is_over = is_whole and self.now_ms >= self.horizons.get(row.batch_base, self.now_ms + 1)
            if row.offset >= end or (row.offset >= newest[row.key] and not (row.value is None and is_over)):
                left.append(row)
        self.rows = left
        for row in left:
            if row.batch_last < end and row.value is None:
                self.horizons.setdefault(row.batch_base, self.now_ms + RETENTION_MS)
        self.fences = [*[at for at in self.fences if at < end][-1:], *(at for at in self.fences if at >= end)]


CleanerMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=25)
TestCleanerModel = pytest.mark.rule(30, 58, 62)(CleanerMachine.TestCase)
