"""Measures how much room on the disk a clean by the broker's own worker and swap needs beside its log."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Final

from loadtest.log.offline import append, keyed_batches, now_ms, offline_log
from ottla_broker.compaction.candidate import Candidate
from ottla_broker.compaction.job import CleanedGroup
from ottla_broker.compaction.settings import CleanerSettings
from ottla_broker.compaction.worker import run_worker
from ottla_broker.machines.offsets import LastStableOffset
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.compression import Codec

_SEGMENT_BYTES: Final = 16 << 20
_KEYS: Final = 150_000
"""So many that each segment loses a little, and is written again."""
_EVERY_S: Final = 0.002


def room(directory: Path, size_bytes: int) -> dict[str, int]:
    """Return the most bytes that the log's directory had beyond the log's own, and those of the largest group."""
    partition = PartitionId(TopicId(bytes(range(16))), 0)
    config = LogConfig(segment_bytes=_SEGMENT_BYTES, compacts=True, deletes=False)
    with offline_log(directory, partition, "table", config) as log:
        for batch in keyed_batches(size_bytes, _KEYS, Codec.NONE, seed=1):
            append(log, batch)
        log.secure_sealed()
        return asyncio.run(_clean(log))


async def _clean(log: Log) -> dict[str, int]:
    candidate = Candidate.of(log, LastStableOffset(log.log_end_offset), now_ms())
    directory = Path(log.directory)
    before, peak, groups = _bytes_in(directory), 0, [0]
    is_over = Event()

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(_EVERY_S):
            peak = max(peak, _bytes_in(directory) - before)

    async def take(group: CleanedGroup) -> None:
        nonlocal peak
        peak = max(peak, _bytes_in(directory) - before)
        groups.append(sum(segment.size_bytes for segment, end in candidate.sources if end <= group.next_offset))
        await asyncio.get_running_loop().run_in_executor(None, partial(candidate.swap, group))
        candidate.on_passed(group)

    watching = Thread(target=watch)
    watching.start()
    try:
        await run_worker(candidate.job(CleanerSettings(), now_ms()), take)
    finally:
        is_over.set()
        watching.join()
    assert len(groups) > 2, "a group is to be less than the log"
    return {"peak_bytes": peak, "largest_group_bytes": max(groups), "log_bytes": before}


def _bytes_in(directory: Path) -> int:
    total = 0
    for entry in os.scandir(directory):
        try:
            total += entry.stat().st_size
        except FileNotFoundError:
            continue  # it has taken its place just now
    return total
