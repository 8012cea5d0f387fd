"""Filters of a batch query on topic, partition, offset and timestamp, made use of before anything is read.

Spark hands filters over only where the session allows it (spark.sql.python.filterPushdown.enabled), and evaluates each
of them again on what comes: here they only spare reading. A filter on a timestamp moves the beginning of a range to the
first record that is as young; records need not be in the order of their timestamps, so nothing is cut at the end.
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
from pyspark_ottla.cluster import Partitions
from pyspark_ottla.machines.offsets import Bound
from pyspark_ottla.machines.ranges import Range


class FilteringBatchReader(OttlaBatchReader):
    """A batch reader that uses filters; only where Spark hands them over, see `pushes_filters`."""

    _pushed: tuple[Filter, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note them, and give all of them back: Spark filters too, so nothing depends on what is spared."""
        self._pushed = tuple(filters)
        return filters

    def select(self, ranges: list[Range], partitions: Partitions) -> list[Range]:
        """What of `ranges` can have rows that pass."""
        for each in self._pushed:
            ranges = [kept for wanted in ranges if (kept := narrowed(wanted, each)) is not None and kept.size > 0]
        since_ms = max((ms for each in self._pushed if (ms := _since_ms(each)) is not None), default=None)
        if since_ms is None or since_ms < 0 or not ranges:  # before 1970: a record without a timestamp has -1
            return ranges
        first = partitions.at(Bound(timestamp_ms=since_ms, or_latest=True), _partitions(ranges), "timestamp")
        later = (each._replace(start=max(each.start, first[each.partition])) for each in ranges)
        return [each for each in later if each.size > 0]


def narrowed(wanted: Range, pushed: Filter) -> Range | None:
    """What of a range can pass one filter on topic, partition or offset; None for nothing, all of it if unsure."""
    column = getattr(pushed, "attribute", ())
    if getattr(pushed, "value", None) is None:
        return wanted  # a comparison with null, or none at all
    if column == ("topic",):
        return wanted if _passes(wanted.partition.topic, pushed) else None
    if column == ("partition",):
        return wanted if _passes(wanted.partition.partition, pushed) else None
    if column == ("offset",):
        return _between(wanted, pushed)
    return wanted


def _passes(given: Any, pushed: Filter) -> bool:
    match pushed:
        case EqualTo(value=value):
            return bool(given == value)
        case In(value=values):
            return given in values
        case StringStartsWith(value=prefix):
            return str(given).startswith(prefix)
        case GreaterThan(value=value):
            return bool(given > value)
        case GreaterThanOrEqual(value=value):
            return bool(given >= value)
        case LessThan(value=value):
            return bool(given < value)
        case LessThanOrEqual(value=value):
            return bool(given <= value)
    return True


def _between(wanted: Range, pushed: Filter) -> Range:
    partition, start, end = wanted
    match pushed:
        case EqualTo(value=value):
            start, end = max(start, value), min(end, value + 1)
        case In(value=given) if values := [each for each in given if each is not None]:
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
    """The earliest timestamp that can pass, in ms, where the filter is on the timestamp and says one."""
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
    return sorted({each.partition for each in ranges})
