"""A chunk being read: its batches opened one after the other, its records as one stream of raw tuples.

What may be in a chunk and is not handed out: records below the position (a batch comes whole, rule 57), records at or
after the stop, and control batches (rule 38), whose offsets count all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, dropwhile, takewhile
from operator import itemgetter

from ottla.machines.subscription import Chunk, Position
from ottla_core.model import TopicPartition
from ottla_core.records.batch import iter_headers
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord

_offset: Callable[[RawRecord], int] = itemgetter(0)


class Run:
    """`records` can be read on by whoever comes next; it raises CORRUPT_MESSAGE where a batch can't be read."""

    __slots__ = ("chunk", "next_offset", "partition", "position", "records", "version")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.position: Position = chunk.position
        self.partition: TopicPartition = chunk.position.partition
        self.version = chunk.version
        self.next_offset = 0
        self.records: Iterator[RawRecord] = chain.from_iterable(self._batches())

    @property
    def stale(self) -> bool:
        """Whether the user has gone elsewhere meanwhile."""
        return self.version != self.position.version

    def _batches(self) -> Iterator[Iterator[RawRecord]]:
        """One iterator a batch, made when the one before it is used up."""
        data = memoryview(self.chunk.records)
        first = self.position.offset or 0
        stop = self.position.stop
        self.next_offset = first
        for at, header in iter_headers(data):
            if header.next_offset <= first:
                continue
            if stop is not None and header.base_offset >= stop:
                self.next_offset = stop
                return
            if not header.is_control:
                records = read_records(data[at : at + header.size_bytes])
                if header.base_offset < first:
                    records = dropwhile(lambda raw: raw[0] < first, records)
                if stop is not None and header.next_offset > stop:
                    records = takewhile(lambda raw: raw[0] < stop, records)
                yield records
            self.next_offset = header.next_offset if stop is None else min(stop, header.next_offset)
