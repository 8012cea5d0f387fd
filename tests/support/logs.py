"""Logs for tests: opened in a directory, filled with batches that say who they are, read back record by record."""

from __future__ import annotations

from pathlib import Path, PurePath

from batches import NOON, sealed

from ottla_broker.machines.offsets import RecoveryPoint
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_core.records.batch import BatchHeader, iter_headers
from ottla_core.records.reader import read_records

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)
"""A few batches a segment, every other batch indexed."""


def open_log(
    directory: PurePath,
    config: LogConfig = SMALL,
    *,
    disk: Disk | None = None,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> Log:
    """The log of `directory`, as after a crash unless `clean`."""
    Path(directory).mkdir(exist_ok=True)
    return Log.open(
        directory,
        disk or Disk(directory.parent),
        config,
        now_ms=NOON,
        clean=clean,
        recovery_point=RecoveryPoint(recovery_point),
        log_start_offset=log_start_offset,
    )


def values_batch(*values: bytes, at_ms: int = NOON) -> bytes:
    """One batch with a record for each value, all of one time."""
    return sealed((n, at_ms, None, value, []) for n, value in enumerate(values))


def fill(log: Log, batches: int, *, records: int = 3, leader_epoch: int = 1) -> None:
    """Append batches of `records` records whose values are their offsets and whose times are a second apart."""
    for _ in range(batches):
        start = log.log_end_offset
        values = [b"%d" % n for n in range(start, start + records)]
        log.append(values_batch(*values, at_ms=NOON + start * 1000), leader_epoch, NOON + start * 1000)


def close_files(log: Log) -> None:
    """As if so many others had been in use since that none of its descriptors is left."""
    for segment in log.segments:
        log._disk.files.forget(segment.path)


def headers_of(data: bytes) -> list[BatchHeader]:
    return [header for _, header in iter_headers(data)]


def records_of(data: bytes) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record in whole batches."""
    return [
        (record[0], record[3])
        for at, header in iter_headers(data)
        for record in read_records(data[at : at + header.size_bytes])
    ]


def all_records(log: Log, *, max_bytes: int = 300) -> list[tuple[int, bytes | None]]:
    """Every record from the log's start to its end, read as a consumer reads: on from where the last read ended."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = records_of(log.read(offset, max_bytes, log.log_end_offset))
        assert records, f"nothing came at offset {offset} of {log.log_end_offset}"
        found += [record for record in records if record[0] >= offset]
        offset = records[-1][0] + 1
    return found


def offsets_as_values(start: int, end: int) -> list[tuple[int, bytes | None]]:
    """What `fill` wrote from offset `start` to before `end`."""
    return [(offset, b"%d" % offset) for offset in range(start, end)]
