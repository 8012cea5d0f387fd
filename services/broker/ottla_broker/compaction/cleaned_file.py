"""The output of a clean: a segment's file and indexes, under names that no log takes for its own."""

from __future__ import annotations

from typing import Final

from ottla_broker.compaction.job import CleanedSegment, CleaningJob, SourceSegment
from ottla_broker.compaction.room import Room
from ottla_broker.compaction.survivors import Survivors
from ottla_broker.compaction.throttle import Throttle
from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage import files
from ottla_broker.storage.index import SegmentIndexes
from ottla_broker.storage.log_config import MAX_INT32
from ottla_broker.storage.swap import BESIDE_LOG, CLEANED, LOG_SUFFIX, path_of, segment_path
from ottla_broker.storage.transactions import aborted_index
from ottla_broker.storage.transactions.aborted_index import AbortedIndex
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import HEADER_SIZE, BatchHeader, iter_headers

_CHUNK_BYTES: Final = 1 << 20
_INDEX_ENTRY_BYTES: Final = 12  # an entry of the time index, which is the larger one


class CleanedFile:
    """The file stands for one source or for more. It ends with the last batch of the last source even if that batch is
    empty, because recovery takes a gap between two segments for a loss."""

    def __init__(self, job: CleaningJob, base_offset: int, throttle: Throttle) -> None:
        log_path = segment_path(job.directory, base_offset)
        self.base_offset: Final = base_offset
        self.size_bytes = 0
        self._job: Final = job
        self._throttle: Final = throttle
        self._room: Final = Room(job.directory)
        self._sources: list[SourceSegment] = []
        self._is_changed = False
        self._withheld: tuple[BatchHeader, bytes] | None = None
        self._chunk: list[bytes] = []
        self._chunk_bytes = 0
        self._indexes: Final = SegmentIndexes(log_path, base_offset, job.index_interval_bytes, ending=CLEANED)
        self._aborted: list[AbortedTransaction] = []
        self._markers_gone: Final[set[int]] = set()
        self._paths: Final = [path_of(log_path.with_suffix(kind), CLEANED) for kind in (LOG_SUFFIX, *BESIDE_LOG)]
        for path in self._paths:
            files.remove_if_there(path)  # an earlier clean may have left something in it
        for path in self._paths[1:-1]:
            files.open_empty(path)
        self._file: Final = files.open_empty(self._paths[0])

    def takes(self, source: SourceSegment) -> bool:
        """Return whether `source` fits behind what is written so far, even if it loses nothing."""
        job, size_bytes = self._job, self.size_bytes + source.size_bytes
        most_entries = size_bytes // max(job.index_interval_bytes, HEADER_SIZE) + 2
        return (
            size_bytes <= job.segment_bytes
            and source.next_offset - 1 - self.base_offset <= MAX_INT32
            and most_entries * _INDEX_ENTRY_BYTES <= job.segment_index_bytes
        )

    def stand_for(self, source: SourceSegment) -> None:
        """Note that the batches that are added from now on come from `source`."""
        self._sources.append(source)
        path = segment_path(self._job.directory, source.base_offset)
        if files.exists(path.with_suffix(aborted_index.SUFFIX)):
            files.open_file(self._paths[-1], write=True)  # it takes the place of the source's index even if it is empty
            self._aborted += AbortedIndex(path).entries()

    def add(self, header: BatchHeader, batch: bytes, left: Survivors, *, stays: bool) -> None:
        """Add what is left of `batch`. Unless it `stays`, it is added only if no other batch follows. Raises OSError,
        and MESSAGE_TOO_LARGE if the file would grow beyond the positions of an index."""
        if self._withheld is not None:
            self._is_changed, self._withheld = True, None
        if header.is_control and not left.record_count:
            self._markers_gone.add(header.last_offset)
        if left.batch is batch:
            parts = [(header, batch)]
        else:
            self._is_changed = True
            parts = [(h, left.batch[at : at + h.size_bytes]) for at, h in iter_headers(left.batch)]
        if stays:
            for part in parts:
                self._write(*part)
        else:
            [self._withheld] = parts

    @property
    def next_offset(self) -> int:
        """Return the offset after the last of its sources."""
        return self._sources[-1].next_offset

    def close(self) -> CleanedSegment | None:
        """Return the segment, fsynced. If its only source loses nothing, return None and leave no files. Raises
        OSError."""
        if self._withheld is not None:
            self._write(*self._withheld)
        if len(self._sources) == 1 and not self._is_changed:
            self.remove()
            return None
        self._flush()
        self._indexes.seal()
        index = AbortedIndex(segment_path(self._job.directory, self.base_offset), CLEANED)
        index.replace_from(0, (each for each in self._aborted if each.last_offset not in self._markers_gone))
        for path in filter(files.exists, self._paths):
            files.open_file(path, write=True).sync()
        replaced = tuple(source.base_offset for source in self._sources)
        return CleanedSegment(self.base_offset, self.next_offset, self.size_bytes, replaced)

    def remove(self) -> None:
        """Unlink the files."""
        for path in self._paths:
            files.remove_if_there(path)

    def _write(self, header: BatchHeader, batch: bytes) -> None:
        position, self.size_bytes = self.size_bytes, self.size_bytes + len(batch)
        if self.size_bytes > MAX_INT32:
            raise OttlaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"storing the delete horizons of tombstones would make a segment larger than {MAX_INT32} bytes",
                hint="the segment stays unchanged; set a smaller segment.bytes for future segments",
            )
        self._indexes.note(position, len(batch), header.last_offset, header.max_timestamp)
        self._chunk.append(batch)
        self._chunk_bytes += len(batch)
        if self._chunk_bytes >= _CHUNK_BYTES:
            self._flush()

    def _flush(self) -> None:
        chunk, self._chunk = b"".join(self._chunk), []
        self._room.check(len(chunk))
        self._file.write_all([chunk], self.size_bytes - len(chunk), len(chunk))
        self._throttle.take(len(chunk))
        self._chunk_bytes = 0
