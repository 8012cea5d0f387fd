"""Filters of a batch query on topic, partition, offset and timestamp, used before anything is read.

Spark hands filters over only if the session allows it (spark.sql.python.filterPushdown.enabled), and evaluates each of
them again on the rows. Here they only save reading. A filter on a timestamp moves the beginning of a range to the first
record that is as young. Records need not be in the order of their timestamps, so nothing is cut at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from ottla_core.model import TopicPartition
from pyspark_ottla.batch_reader import OttlaBatchReader
from pyspark_ottla.cluster import SourcePartitions
from pyspark_ottla.machines.offsets import Bound
from pyspark_ottla.machines.ranges import Range


class FilteringBatchReader(OttlaBatchReader):
    """A batch reader that uses filters. It is used only if Spark hands them over, see `pushes_filters`."""

    _pushed: tuple[Filter, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note the filters, and return all of them: Spark filters, too, so nothing depends on it."""
        self._pushed = tuple(filters)
        return filters

    def select(self, ranges: list[Range], partitions: SourcePartitions) -> list[Range]:
        """Return the parts of `ranges` that may have rows that pass."""
        for pushed in self._pushed:
            ranges = [part for range_ in ranges if (part := narrowed(range_, pushed)) is not None and part.size > 0]
        since_ms = max((ms for pushed in self._pushed if (ms := _since_ms(pushed)) is not None), default=None)
        if since_ms is None or since_ms < 0 or not ranges:  # before 1970: a record without a timestamp has -1
            return ranges
        first = partitions.at(Bound(timestamp_ms=since_ms, or_latest=True), _partitions(ranges), "timestamp")
        later = (range_._replace(start=max(range_.start, first[range_.partition])) for range_ in ranges)
        return [range_ for range_ in later if range_.size > 0]


def narrowed(range_: Range, pushed: Filter) -> Range | None:
    """Return the part of a range that may pass one filter on topic, partition or offset. Return None if none may, and
    all if that is unsure."""
    column = getattr(pushed, "attribute", ())
    if getattr(pushed, "value", None) is None:
        return range_  # it compares with null, or compares nothing
    if column == ("topic",):
        return range_ if _passes(range_.partition.topic, pushed) else None
    if column == ("partition",):
        return range_ if _passes(range_.partition.partition, pushed) else None
    if column == ("offset",):
        return _between(range_, pushed)
    return range_


def _passes(column: Any, pushed: Filter) -> bool:
    match pushed:
        case EqualTo(value=value):
            return bool(column == value)
        case In(value=values):
            return column in values
        case StringStartsWith(value=prefix):
            return str(column).startswith(prefix)
        case GreaterThan(value=value):
            return bool(column > value)
        case GreaterThanOrEqual(value=value):
            return bool(column >= value)
        case LessThan(value=value):
            return bool(column < value)
        case LessThanOrEqual(value=value):
            return bool(column <= value)
    return True


def _between(range_: Range, pushed: Filter) -> Range:
    partition, start, end = range_
    match pushed:
        case EqualTo(value=value):
            start, end = max(start, value), min(end, value + 1)
        case In(value=options) if values := [value for value in options if value is not None]:
            start, end = max(start, min(values)), min(end, max(values) + 1)
        case GreaterThan(value=value):
            start = max(start, value + 1)
        case GreaterThanOrEqual(value=value):
            start = max(start, value)
        case LessThan(value=value):
            end = min(end, value)
        case LessThanOrEqual(value=value):
            end = min(end, value + 1)
    return Range(partition, start, end)


def _since_ms(pushed: Filter) -> int | None:
    """Return the earliest timestamp that can pass, in ms, if the filter is on the timestamp and has one."""
    if getattr(pushed, "attribute", ()) != ("timestamp",):
        return None
    match pushed:
        case (
            EqualTo(value=datetime() as at)
            | GreaterThan(value=datetime() as at)
            | GreaterThanOrEqual(value=datetime() as at)
        ):
            return math.floor(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)
    return None


def _partitions(ranges: list[Range]) -> list[TopicPartition]:
    return sorted({range_.partition for range_ in ranges})
