"""Ranges of offsets: what one task reads, how a batch is cut into tasks, and which part of a range is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla_core.model import TopicPartition
from ottla_core.plural import counted
from pyspark_ottla.machines.offsets import Offsets


class Range(NamedTuple):
    """The records of one partition from `start` to before `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """This is the number of offsets in it. Compacted topics have fewer records."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.partition} {self.start}..{self.end - 1} ({counted(self.size, 'offset')})"


def ranges_between(start: Offsets, end: Offsets) -> list[Range]:
    """Return one range for each partition that has something to read, in order. A partition that `start` lacks has
    none."""
    ranges = (Range(p, start[p], offset) for p, offset in sorted(end.items()) if p in start)
    return [range_ for range_ in ranges if range_.size > 0]


def cut(ranges: Sequence[Range], *, min_partitions: int | None, max_records: int | None) -> list[Range]:
    """Return ranges for tasks, none longer than `max_records`, and about `min_partitions` if there are fewer.

    The longer a range, the more parts of equal length it is cut into, so that the tasks of a batch take about equally
    long. Both are rounded, so the number of tasks is a hint, as in Spark's own source.
    """
    if max_records is not None:
        ranges = [part for whole in ranges for part in _parts(whole, -(-whole.size // max_records))]
    if min_partitions is None or not ranges or len(ranges) >= min_partitions:
        return list(ranges)
    total = sum(whole.size for whole in ranges)
    return [part for whole in ranges for part in _parts(whole, max(1, round(whole.size / total * min_partitions)))]


def _parts(whole: Range, count: int) -> Iterator[Range]:
    edges = [whole.start + whole.size * n // count for n in range(count + 1)]
    for start, end in pairwise(edges):
        if end > start:
            yield Range(whole.partition, start, end)


def lost(ranges: Sequence[Range], beginnings: Offsets) -> list[Range]:
    """Return the parts of `ranges` before the beginnings of the logs, which retention or DeleteRecords has removed."""
    gone = (Range(p, start, min(end, beginnings[p])) for p, start, end in ranges)
    return [range_ for range_ in gone if range_.size > 0]


def without(ranges: Sequence[Range], gone: Sequence[Range]) -> list[Range]:
    """Return `ranges` without what is gone from their beginnings."""
    first = {partition: end for partition, _, end in gone}
    left = (Range(p, max(start, first.get(p, start)), end) for p, start, end in ranges)
    return [range_ for range_ in left if range_.size > 0]
