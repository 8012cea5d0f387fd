"""Makes by hand the files that a cleaner leaves beside a log's segments, for tests of what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla_broker.storage.files import DataFile
from ottla_broker.storage.index import SegmentIndexes
from ottla_broker.storage.log import Log
from ottla_broker.storage.segment import Segment
from ottla_broker.storage.swap import CLEANED, path_of
from ottla_core.records.batch import BatchHeader


def write_cleaned(log: Log, sources: Sequence[Segment], stays: Callable[[BatchHeader], bool]) -> list[BatchHeader]:
    """Make `sources` durable, and write what is to replace them: the batches that stay, and the last one in any case.

    Return the headers of the written batches."""
    log.secure_sealed()
    path = sources[0].path
    indexes = SegmentIndexes(path, sources[0].base_offset, log.config.index_interval_bytes, ending=CLEANED)
    batches = [(segment, at, header) for segment in sources for at, header in segment.headers_from(0)]
    kept, data = [], b""
    for number, (segment, at, header) in enumerate(batches, start=1):
        if stays(header) or number == len(batches):
            indexes.note(len(data), header.size_bytes, header.last_offset, header.max_timestamp)
            data += segment.file().read(at, header.size_bytes)
            kept.append(header)
    indexes.seal()
    indexes.sync(log._disk)
    file = DataFile(path_of(path, CLEANED), write=True)
    file.truncate(0)
    file.write([data], 0)
    file.sync()
    return kept
