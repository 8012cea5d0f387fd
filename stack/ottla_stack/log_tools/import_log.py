"""`ottla log import`: the log of a partition, Kafka's or an export of ottla's, into an empty partition of a cluster.

It goes through the partition's leader, which appends the batches at the offsets that they have. So the replicas copy it
as they copy everything, and no broker stops (ADR 0018). Offsets, times and compression stay, and so does the result of
compaction. The leader's epoch replaces theirs. Producer ids are removed, because they belong to other producers here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ottla.admin.admin import Admin
from ottla.errors import ErrorCode, FatalError, config_error
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.log_config import MAX_INT32
from ottla_broker.storage.scan import headers
from ottla_broker.storage.validator import MOST_IMPORTED_BATCHES
from ottla_core.records.batch import BatchHeader, of_no_producer
from ottla_core.rpc.status import MAX_MESSAGE_BYTES
from ottla_stack.log_tools.log_files import LogFiles, find_logs, name_of, reading
from ottla_stack.log_tools.verify import LogVerifier, SegmentReport

_NOTHING: Final = "nothing was imported"
_CHUNK_BYTES: Final = 1 << 20
"""The size of a chunk. A leader writes it into one segment, which exceeds segment.bytes by this at most, or by one
larger batch."""
_MOST_BYTES: Final = MAX_MESSAGE_BYTES - (1 << 16)


class Source(NamedTuple):
    """A sound log, as far as its segments went when they were read. `partition` is its destination."""

    log: LogFiles
    partition: int
    segments: Sequence[SegmentReport]

    @property
    def start_offset(self) -> int:
        return self.segments[0].base_offset

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset

    @property
    def records(self) -> int:
        return sum(report.records for report in self.segments)

    @property
    def size_bytes(self) -> int:
        return sum(report.size_bytes for report in self.segments)


class Imported(NamedTuple):
    directory: Path
    partition: int
    start_offset: int
    next_offset: int
    records: int
    bytes: int
    seconds: float


class Chunk(NamedTuple):
    """Whole batches that one segment can hold from `expected_offset` on, where the previous ones end."""

    expected_offset: int
    records: bytes


def sources_of(paths: Sequence[Path], partition: int | None, *, compacted: bool) -> list[Source]:
    """Return the logs in these directories, each checked whole: every byte of its segments, and what they may hold.

    `partition` is the destination of a single log. None sends each log to the number in its name. Raises NotFoundError,
    ConfigError, and FatalError for a log that is damaged or can't be imported.
    """
    logs = [found for path in paths for found in find_logs(path)]
    if any(not found.is_whole for found in logs):
        raise config_error("a single segment is not a log", hint="pass the directory of a partition")
    if partition is not None and len(logs) > 1:
        raise config_error(
            f"{len(logs)} logs can't become one partition", hint="leave out --partition, or pass only one log"
        )
    numbers = [name_of(found.directory).partition if partition is None else partition for found in logs]
    for found, number in zip(logs, numbers, strict=True):
        if number < 0:
            raise config_error(
                f"the name {found.directory} contains no partition number",
                hint="pass a single directory, and its partition number with --partition",
            )
        if numbers.count(number) > 1:
            raise config_error(
                f"{found.directory} is not the only log of partition {number}", hint="pass only one of them"
            )
    return [_checked(found, number, compacted=compacted) for found, number in zip(logs, numbers, strict=True)]


def _checked(found: LogFiles, partition: int, *, compacted: bool) -> Source:
    verifier = LogVerifier(found, is_compacted=compacted)
    segments = list(verifier.sound_segments(_NOTHING, but_indexes=True))
    for damage in verifier.other_files():
        if damage.path.name == "partition.metadata":
            raise FatalError(ErrorCode.CORRUPT_MESSAGE, f"{damage.path}: {damage.problem}", hint=damage.remedy)
    if not any(report.batches for report in segments):
        raise config_error(f"{found.directory} contains no batches", hint="there is nothing to import")
    for report in segments:
        for position, header in _headers(report):
            if problem := _problem(header):
                text = f"{report.path}: at position {position}, offset {header.base_offset}: {problem}"
                raise FatalError(ErrorCode.INVALID_RECORD, text, hint=f"{_NOTHING}; have a client copy the topic")
    return Source(found, partition, segments)


def _problem(header: BatchHeader) -> str:
    if header.is_control or header.is_transactional:
        return "the batch belongs to a transaction, and the import does not keep producer ids"
    return f"a batch of {header.size_bytes} bytes is too large to be sent" if header.size_bytes > _MOST_BYTES else ""


def check_ends(admin: Admin, topic: str, sources: Sequence[Source], *, resume: bool) -> Mapping[int, int]:
    """Return where the topic's partitions end. Raises UnknownTopicError, and ConfigError if anything was written to
    them or, with `resume`, more than the sources have."""
    ends = {number: end or 0 for number, end in admin.topics.offsets(topic).items()}
    for source in sources:
        if source.partition not in ends:
            raise config_error(
                f"{topic} has no partition {source.partition} for {source.log.directory}",
                hint=f"its partitions are 0 to {len(ends) - 1}; create the topic with as many partitions as there are "
                "logs",
            )
        if ends[source.partition] > (source.end_offset if resume else 0):
            problem = f"has more records than {source.log.directory}" if resume else "is not empty"
            raise config_error(
                f"{topic}-{source.partition} {problem}: it ends at offset {ends[source.partition]}; {_NOTHING}",
                hint="import into a new topic or, if an import of the same log was interrupted, use --resume",
            )
    return ends


def import_log(admin: Admin, topic: str, source: Source, end: int, timeout: float) -> Imported:
    """Send the log chunk by chunk, each once the previous one is on every in-sync replica. Batches before `end` are
    there already, and are skipped.

    `timeout` in seconds applies to each chunk. Raises what `import_records` raises.
    """
    began_at, next_offset = time.monotonic(), 0
    for chunk in _chunks(source, end):
        next_offset = admin.partitions.import_records(
            topic,
            source.partition,
            chunk.records,
            expected_offset=chunk.expected_offset,
            log_start_offset=source.start_offset,
            timeout=timeout,
        )
    seconds = time.monotonic() - began_at
    return Imported(
        source.log.directory,
        source.partition,
        source.start_offset,
        next_offset,
        source.records,
        source.size_bytes,
        seconds,
    )


def _chunks(source: Source, end: int) -> Iterator[Chunk]:
    """Yield the chunks to send, beginning with the batch that ends at `end`. If that batch is equal in both logs, so
    are the logs. Compaction may have changed the batches before it, but leaves this one alone."""
    batches: list[bytes] = []
    size = expected_offset = next_offset = 0
    for report in source.segments:
        file = DataFile(report.path)
        for position, header in _headers(report):
            if header.next_offset < end:
                expected_offset = next_offset = header.next_offset
                continue
            too_far = header.last_offset - expected_offset > MAX_INT32
            is_full = len(batches) == MOST_IMPORTED_BATCHES or size + header.size_bytes > _CHUNK_BYTES
            if batches and (is_full or too_far):
                yield Chunk(expected_offset, b"".join(batches))
                batches, size, expected_offset = [], 0, next_offset
            batches.append(of_no_producer(header, file.read(position, header.size_bytes)))
            size, next_offset = size + header.size_bytes, header.next_offset
    yield Chunk(expected_offset, b"".join(batches))


def _headers(report: SegmentReport) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the headers of the batches that were checked."""
    with reading(report.path):
        yield from headers(DataFile(report.path), 0, report.size_bytes)
