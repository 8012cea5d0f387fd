"""Importing into copies: several partitions at once, each by one thread at a time, which takes all that waits for it.

So a source that is written record by record costs the target no call for each record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import Final

import ottla
from ottla_core.errors import ErrorCode, OttlaError
from ottla_mirror.machines.copying import KeptBatch, KeptBlock
from ottla_mirror.machines.encoding import Run
from ottla_mirror.machines.progress import CopiedPartition

_AT_ONCE: Final = 4
"""Partitions."""

_MOST_BATCHES: Final = 1000
"""Of one import."""

_MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
_BATCH_BYTES: Final = 512
"""What a batch takes in memory beside its data."""

_IMPORT_S: Final = 5.0


class Import:
    """A block on its way into a copy: an `Outcome`. `begins_at` is where the copy's log begins once it is there; None
    where that has begun before."""

    __slots__ = ("_error", "_is_done", "begins_at", "block", "memory_bytes")

    def __init__(self, block: KeptBlock, begins_at: int | None = None) -> None:
        self.block: Final = block
        self.begins_at: Final = begins_at
        self.memory_bytes: Final = block.size_bytes + _BATCH_BYTES * len(block.batches)
        self._error: OttlaError | None = None
        self._is_done = False

    def end(self, error: OttlaError | None) -> None:
        self._error = error
        self._is_done = True

    def done(self) -> bool:
        return self._is_done

    def runs(self) -> Sequence[Run]:
        if self._error is not None:
            raise self._error
        return self.block.runs


class Imports:
    """What waits to be imported into the copies of a flow, and the threads that import it."""

    def __init__(self, target: ottla.Admin) -> None:
        self.target: Final = target
        self.changed: Final = Condition()
        """Guards all that waits, and is told where that has become less."""
        self.pool: Final = ThreadPoolExecutor(_AT_ONCE, "ottla-mirror-import")
        self.waiting_bytes = 0

    def wait_for_room(self, timeout: float) -> bool:
        """Whether there is room for another block, within `timeout` seconds."""
        return self._wait(lambda: self.waiting_bytes < _MOST_WAITING_BYTES, timeout)

    def wait_until_done(self, timeout: float) -> bool:
        """Whether nothing waits any more, within `timeout` seconds."""
        return self._wait(lambda: self.waiting_bytes == 0, timeout)

    def close(self) -> None:
        """End the threads; what they import now is waited for."""
        self.pool.shutdown(cancel_futures=True)

    def _wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        with self.changed:
            return self.changed.wait_for(condition, timeout)


class Importer:
    """Imports the blocks of one partition in their order."""

    def __init__(self, partition: CopiedPartition, imports: Imports) -> None:
        self.generation: Final = partition.generation
        self._partition: Final = partition
        self._imports: Final = imports
        self._target: Final = imports.target
        self._waiting: Final[deque[Import]] = deque()
        self._is_at_work = False
        self._end: int | None = None
        """Where the copy ends; None where this mirror has not written to it."""

    def add(self, waiting: Import) -> None:
        """Import it behind what waits already."""
        with self._imports.changed:
            self._waiting.append(waiting)
            self._imports.waiting_bytes += waiting.memory_bytes
            if not self._is_at_work:
                self._is_at_work = True
                self._imports.pool.submit(self._work)

    def clear(self) -> None:
        """Import nothing of what waits."""
        with self._imports.changed:
            self._drop(self._waiting)
            self._waiting.clear()

    def _work(self) -> None:
        while taken := self._take():
            error: OttlaError | None = None
            try:
                self._import([batch for each in taken for batch in each.block.batches])
                if (begins_at := taken[0].begins_at) is not None:
                    copy = self._partition.copy
                    self._target.topics.delete_records(copy.topic, {copy.partition: begins_at})
            except OttlaError as failure:
                error = failure
            except Exception as bug:
                error = OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(bug).__name__}: {bug}")
            with self._imports.changed:
                for each in taken:
                    each.end(error)
                self._drop(taken)
                if error is not None:  # what waits behind it is read again
                    self._drop(self._waiting)
                    self._waiting.clear()

    def _take(self) -> list[Import]:
        """All that waits, as far as one import has room for it."""
        with self._imports.changed:
            taken, room = list[Import](), _MOST_BATCHES
            while self._waiting and (not taken or len(self._waiting[0].block.batches) <= room):
                taken.append(self._waiting.popleft())
                room -= len(taken[-1].block.batches)
            self._is_at_work = bool(taken)
            return taken

    def _drop(self, gone: Sequence[Import] | deque[Import]) -> None:
        self._imports.waiting_bytes -= sum(each.memory_bytes for each in gone)
        self._imports.changed.notify_all()

    def _import(self, batches: Sequence[KeptBatch]) -> None:
        """All of them, in as many requests as it takes. What is there already is compared."""
        end, left = self._end, list(batches)
        if end is None:  # a predecessor has got that far, but for a gap
            end = 0 if self._partition.position is None else self._partition.position.offset
        while left:
            try:
                end = self._import_at(min(end, left[0].base_offset), left[:_MOST_BATCHES])
            except OttlaError as error:
                if error.code != ErrorCode.OFFSET_MISMATCH:
                    raise
                end = self._end_after_mismatch(end, left)
            left = [batch for batch in left if batch.next_offset > end]
        self._end = end

    def _end_after_mismatch(self, end: int, left: Sequence[KeptBatch]) -> int:
        """Where the copy ends in truth, if it can go on from there with what is left. Raises OFFSET_MISMATCH."""
        found, base_offset = self._end_of_copy(), left[0].base_offset
        is_resumed = self._end is None and self._partition.position is not None
        between = not any(batch.base_offset < found < batch.next_offset for batch in left)
        goes_on = 0 < found <= base_offset or (between and self._is_compacted())
        if found == min(end, base_offset) or not (is_resumed and goes_on):
            reason = f"other records end there at offset {found}" if found else "it was emptied"
            raise conflict(self._partition, reason)
        return found

    def _end_of_copy(self) -> int:
        copy = self._partition.copy
        return self._target.topics.offsets(copy.topic)[copy.partition] or 0

    def _is_compacted(self) -> bool:
        """What a predecessor has imported and not committed may have been cleaned in the source since, and differ."""
        return "compact" in str(self._target.configs.get(topic=self._partition.copy.topic)["cleanup.policy"].value)

    def _import_at(self, end: int, batches: Sequence[KeptBatch]) -> int:
        return self._target.partitions.import_records(
            *self._partition.copy,
            b"".join(batch.data for batch in batches),
            expected_offset=end,
            log_start_offset=0 if end else batches[0].base_offset,
            timeout=_IMPORT_S,
        )


def conflict(partition: CopiedPartition, reason: str) -> OttlaError:
    """What is in a copy can't be continued by its source: for the caller to raise."""
    return OttlaError(
        ErrorCode.OFFSET_MISMATCH,
        f"{partition.copy} can't have the offsets of {partition.source}: {reason}",
        hint=f"delete {partition.copy.topic}, and all of it is copied again",
    )
