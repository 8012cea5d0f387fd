"""Logs for the cleaner: segments written batch by batch, and cleaned files put in place of their sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from batches import NOON, sealed, with_fresh_crc

from ottla_broker.compaction import cleaning
from ottla_broker.compaction.job import CleaningJob, CleaningResult, SourceSegment
from ottla_core.records.batch import BatchHeader, iter_headers, read_header, write_header
from ottla_core.records.compression import Codec
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord

DAY_MS = 24 * 3600 * 1000

Pair = tuple[bytes | None, bytes | None]


def placed(batch: bytes, base_offset: int, **fields: int) -> bytes:
    """`batch` at its offset in a log; `fields` replace header fields."""
    header = read_header(batch)._replace(base_offset=base_offset, leader_epoch=3, **fields)
    return with_fresh_crc(write_header(header) + batch[61:])


def pairs(base_offset: int, *records: Pair, codec: Codec = Codec.NONE, at_ms: int = NOON, **fields: int) -> bytes:
    """A batch of keys with values, a second apart."""
    rows: list[RawRecord] = [(n, at_ms + 1000 * n, key, value, []) for n, (key, value) in enumerate(records)]
    return placed(sealed(rows, codec), base_offset, **fields)


def header_of(batch: bytes) -> BatchHeader:
    return read_header(batch)


def write_segments(directory: Path, *segments: Sequence[bytes]) -> list[SourceSegment]:
    """The files; each begins where the one before it ends."""
    sources = []
    base_offset = read_header(segments[0][0]).base_offset
    for batches in segments:
        data, next_offset = b"".join(batches), read_header(batches[-1]).next_offset
        (directory / f"{base_offset:020d}.log").write_bytes(data)
        sources.append(SourceSegment(base_offset, next_offset, len(data)))
        base_offset = next_offset
    return sources


def job_for(directory: Path, sources: Sequence[SourceSegment], **fields: Any) -> CleaningJob:
    """All of it is dirty, and goes into one segment; `fields` replace that."""
    job = CleaningJob(
        directory=directory,
        segments=tuple(sources),
        log_start_offset=sources[0].base_offset,
        first_dirty_offset=sources[0].base_offset,
        end_offset=sources[-1].next_offset,
        now_ms=NOON,
        delete_retention_ms=DAY_MS,
        segment_bytes=1 << 20,
        segment_index_bytes=10 << 20,
        index_interval_bytes=4096,
        map_bytes=1 << 16,
        most_bytes_per_s=0,
        newest_batches=frozenset(),
        drops_keyless=True,
    )
    return replace(job, **fields)


def clean(job: CleaningJob) -> CleaningResult:
    """Clean all groups, whose files stay beside their sources; `swap` puts them in their places."""
    return cleaning.clean(job, lambda group: None)


def swap(job: CleaningJob, result: CleaningResult) -> list[SourceSegment]:
    """Put the cleaned files in place of what they replace; the segments of the log then."""
    left = {source.base_offset: source for source in job.segments}
    for cleaned in result.segments:
        for base_offset in cleaned.replaced:
            del left[base_offset]
            for suffix in (".log", ".index", ".timeindex"):
                (Path(job.directory / f"{base_offset:020d}{suffix}")).unlink(missing_ok=True)
        for suffix in (".log", ".index", ".timeindex"):
            path = job.directory / f"{cleaned.base_offset:020d}{suffix}"
            Path(path.with_name(path.name + ".cleaned")).rename(path)
        left[cleaned.base_offset] = SourceSegment(cleaned.base_offset, cleaned.next_offset, cleaned.size_bytes)
    return [left[base_offset] for base_offset in sorted(left)]


def batches_in(directory: Path, sources: Iterable[SourceSegment]) -> list[bytes]:
    """Every batch of the segments, in order."""
    found = []
    for source in sources:
        data = (directory / f"{source.base_offset:020d}.log").read_bytes()
        found += [data[at : at + header.size_bytes] for at, header in iter_headers(data)]
    return found


def rows_of(*batches: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of each record of data."""
    return [
        (offset, key, value)
        for batch in batches
        if not read_header(batch).is_control
        for offset, _, key, value, _ in read_records(batch)
    ]
