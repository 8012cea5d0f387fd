"""An importer thread takes all that waits for one partition, and several partitions are imported at once.

So if a source is written record by record, the target needs no call for each record.
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
"""This many partitions are imported at once."""

_MOST_BATCHES: Final = 1000
"""One import has at most this many batches."""

_MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
_BATCH_BYTES: Final = 512
"""A batch takes this much memory besides its data."""

_IMPORT_S: Final = 5.0


class Import:
    """An import brings a block into a copy, and is its `Outcome`. `begins_at` is the log start offset that the copy
    then gets, or None if the copy has begun already."""

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

    def refusal(self) -> str:
        """Return "", because an import that is refused fails within seconds."""
        return ""


class Imports:
    """The imports of a flow are the blocks that wait, and the threads that import them into the copies."""

    def __init__(self, target: ottla.Admin) -> None:
        self.target: Final = target
        self.changed: Final = Condition()
        """This guards all waiting imports, and is notified when there are fewer."""
        self.pool: Final = ThreadPoolExecutor(_AT_ONCE, "ottla-mirror-import")
        self.waiting_bytes = 0

    def wait_for_room(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for room for another block; tell whether there is."""
        return self._wait(lambda: self.waiting_bytes < _MOST_WAITING_BYTES, timeout)

    def wait_until_done(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until nothing waits any more; tell whether that is true."""
        return self._wait(lambda: self.waiting_bytes == 0, timeout)

    def close(self) -> None:
        """End the threads, and wait for what they import now."""
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
        """The copy ends at this offset. It is None if this mirror has not written to it."""

    def add(self, waiting: Import) -> None:
        """Queue an import after those that wait already."""
        with self._imports.changed:
            self._waiting.append(waiting)
            self._imports.waiting_bytes += waiting.memory_bytes
            if not self._is_at_work:
                self._is_at_work = True
                self._imports.pool.submit(self._work)

    def clear(self) -> None:
        """Drop all waiting imports."""
        with self._imports.changed:
            self._drop_waiting(OttlaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "it was dropped"))

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
                if error is not None:  # imports that wait behind it are read again
                    self._drop_waiting(error)

    def _drop_waiting(self, error: OttlaError) -> None:
        for each in self._waiting:
            each.end(error)
        self._drop(self._waiting)
        self._waiting.clear()

    def _take(self) -> list[Import]:
        """Take all that waits, as far as one import has room for it."""
        with self._imports.changed:
            taken, room = list[Import](), _MOST_BATCHES
            while self._waiting and (not taken or len(self._waiting[0].block.batches) <= room):
                taken.append(self._waiting.popleft())
                room -= len(taken[-1].block.batches)
            self._is_at_work = bool(taken)
            return taken

    def _drop(self, gone: Sequence[Import] | deque[Import]) -> None:
        """Take these off the bytes that wait. The lock is held."""
        self._imports.waiting_bytes -= sum(each.memory_bytes for each in gone)
        self._imports.changed.notify_all()

    def _import(self, batches: Sequence[KeptBatch]) -> None:
        """Import all batches, in as many requests as needed. Those that the copy has already are compared."""
        end, left = self._end, list(batches)
        if end is None:  # a predecessor has got that far, except for a gap
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
        """Return where the copy really ends, if the batches that are left can follow there. Raises OFFSET_MISMATCH
        otherwise."""
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
        """Tell whether the copy is compacted: then uncommitted imports of a predecessor may differ, since the source
        was cleaned."""
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
    """Build the error for a copy that its source can't continue; the caller raises it."""
    return OttlaError(
        ErrorCode.OFFSET_MISMATCH,
        f"{partition.copy} can't have the same offsets as {partition.source}: {reason}",
        hint=f"delete {partition.copy.topic}; the mirror then makes a complete new copy",
    )
