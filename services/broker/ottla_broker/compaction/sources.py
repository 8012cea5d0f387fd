"""Reading the segments that are cleaned: batch by batch, with CRCs and offsets checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla_broker.compaction.job import CleaningJob, SourceSegment
from ottla_broker.compaction.throttle import Throttle
from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage import files
from ottla_broker.storage.scan import sound_batches
from ottla_broker.storage.swap import segment_path
from ottla_broker.storage.transactions import aborted_index
from ottla_broker.storage.transactions.aborted_index import AbortedIndex
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import BatchHeader, check_stored, corrupt

_DAMAGED: Final = (
    "the log is left as it is; if another replica's log is sound there, stop the broker, move the partition's "
    "directory away and start it: it copies the partition from its leader. If every replica says this, the batch's "
    "producer wrote it like that, and the log is compacted again only once that batch is gone"
)


class Sources:
    """Reads the segments of a job. It takes the memory for a megabyte and a batch."""

    def __init__(self, job: CleaningJob, throttle: Throttle) -> None:
        self.bytes_read = 0
        self._directory: Final = job.directory
        self._throttle: Final = throttle
        self._position = ("", 0, 0)

    def batches(self, segment: SourceSegment) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield each batch of a segment. Raises CORRUPT_MESSAGE before the first that can't be read, and OSError."""
        path = segment_path(self._directory, segment.base_offset)
        file = files.open_file(path)
        position, next_offset = 0, segment.base_offset
        self._position = (path.name, position, next_offset)
        for position, header in sound_batches(file, segment.size_bytes):
            self._position = (path.name, position, header.base_offset)
            if header.base_offset < next_offset or header.next_offset > segment.next_offset:
                raise corrupt(f"its offsets are not within [{next_offset}, {segment.next_offset})")
            batch = _checked(file.read(position, header.size_bytes))
            self.bytes_read += len(batch)
            self._throttle.take(len(batch))
            yield header, batch
            position, next_offset = position + len(batch), header.next_offset
        self._position = (path.name, position, next_offset)
        if position != segment.size_bytes:
            raise corrupt(f"none of the {segment.size_bytes - position} bytes to its end are a whole batch")

    def located(self, error: OttlaError) -> OttlaError:
        """Return the error with the position of the batch that was read last, and with what to do. An error of the disk
        needs neither."""
        if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
            return error
        name, position, offset = self._position
        message = f"the batch at position {position} of {name}, offset {offset}, can't be compacted: {error.message}"
        hint = _DAMAGED if error.code == ErrorCode.CORRUPT_MESSAGE else error.hint
        return OttlaError(error.code, message, hint=hint)


def _checked(batch: bytes) -> bytes:
    """Return a batch that is what was written. The read that found it is not the one that is copied, and a bad disk may
    return other bytes: copied, they would count as sound. Raises CORRUPT_MESSAGE."""
    check_stored(batch)
    return batch


def aborted_in(job: CleaningJob) -> Iterator[AbortedTransaction]:
    """Yield the aborted transactions of the part to be cleaned. Their markers may lie behind it."""
    first = job.segments[0].base_offset
    for name in sorted(files.names_in(job.directory)):
        path = job.directory / name
        if path.suffix == aborted_index.SUFFIX and int(path.stem) >= first:
            yield from (each for each in AbortedIndex(path).entries() if each.first_offset < job.end_offset)
