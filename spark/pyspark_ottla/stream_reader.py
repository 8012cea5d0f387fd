"""A streaming query: where it begins, how far each micro-batch goes, and what it has read.

One of these lives as long as the query, in a Python process beside the driver; Spark asks it before each micro-batch,
and keeps offsets in its checkpoint. Tasks only get ranges.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.errors import OttlaError
from ottla_core.model import TopicPartition
from pyspark_ottla.cluster import Partitions
from pyspark_ottla.commits import Commits
from pyspark_ottla.errors import data_lost, partitions_gone
from pyspark_ottla.machines.admission import Admission
from pyspark_ottla.machines.offsets import Json, Offsets, from_json, to_json
from pyspark_ottla.machines.ranges import Range, cut, lost, ranges_between, without
from pyspark_ottla.options import ReadOptions
from pyspark_ottla.reading import RangeOfOffsets, RangeReader

logger = logging.getLogger("ottla.spark")


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What `spark.readStream.format("ottla")` plans and reads."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options: Final = options
        self._reader: Final = RangeReader(options, schema)
        self._admission: Final = Admission(options.limits, time.monotonic())
        self._partitions: Partitions | None = None  # made by the first question, and never pickled
        self._commits: Commits | None = None
        self._target: Offsets | None = None
        self._latest: Offsets = {}

    # ---- what Spark asks, in this order ------------------------------------------------------------------------------

    def initialOffset(self) -> Json:
        """Where a new query begins. Raises ConfigError for offsets that are not in the log."""
        partitions = self._asked()
        wanted = partitions.wanted()
        start = dict(partitions.at(self._options.starting, wanted, "startingOffsets"))
        first, last = partitions.earliest(wanted), partitions.latest(wanted)
        gone = [Range(p, at, first[p]) for p, at in start.items() if at < first[p]]
        gone += [Range(p, last[p], at) for p, at in start.items() if at > last[p]]
        self._report(gone)
        return to_json({p: min(max(at, first[p]), last[p]) for p, at in start.items()})

    def getDefaultReadLimit(self) -> ReadLimit:
        """Which limit there is: so `latestOffset` sees where a trigger wants all there is (Trigger.Once)."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on, what is there now is all there is."""
        self._target = self._ends({})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Json:
        """Where the next micro-batch ends; `start` for "nothing yet". What lies before `start` has been processed."""
        begins = from_json(start)
        self._commit(begins)
        latest = self._ends(begins) if self._target is None else self._target
        begins = self._with_new(begins, latest)
        if isinstance(limit, ReadAllAvailable):
            return to_json({p: max(at, begins[p]) for p, at in latest.items()})
        sizes = {} if self._options.limits.max_bytes is None else self._asked().record_bytes(latest)
        patient = self._target is None  # a query over what is there now does not wait for more
        end = self._admission.end_of(begins, latest, time.monotonic(), sizes, patient=patient)
        return to_json(begins if end is None else end)

    def reportLatestOffset(self) -> Json | None:
        """Where the logs ended when they were last asked: `latestOffset` of a query's progress; what lag is told by."""
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One range a task. Raises OffsetOutOfRangeError for offsets that are gone, unless failOnDataLoss is false."""
        ends = from_json(end)
        begins = self._with_new(from_json(start), ends)
        ranges = ranges_between(begins, ends)
        asked, options = self._asked(), self._options
        if ranges:
            first = asked.earliest([each.partition for each in ranges])
            gone = lost(ranges, first)
            self._report(gone)
            ranges = without(ranges, gone)
        tasks = cut(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
        return [RangeOfOffsets(each) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task's records, on an executor."""
        if isinstance(partition, RangeOfOffsets):
            yield from self._reader.read(partition.range)

    def commit(self, end: dict[str, Any]) -> None:
        """A batch was processed. It comes one batch late: `latestOffset` learns of the same earlier."""
        self._commit(from_json(end))

    def stop(self) -> None:
        """The query ends."""
        if self._commits is not None:
            self._commits.close()
        if self._partitions is not None:
            self._partitions.close()

    # ---- how ---------------------------------------------------------------------------------------------------------

    def _asked(self) -> Partitions:
        if self._partitions is None:
            self._partitions = Partitions(self._options)
        return self._partitions

    def _ends(self, begins: Offsets) -> Offsets:
        """Where the logs end now. Partitions that are gone are a loss of data, and are left as they are."""
        asked = self._asked()
        skips = bool(begins) and not self._options.fail_on_data_loss
        wanted = asked.wanted(skip_missing=skips)
        if missing := sorted(set(begins) - set(wanted)):
            self._warn_or_raise(partitions_gone(missing))
        self._latest = asked.latest(wanted)
        self._report([Range(p, at, begins[p]) for p, at in self._latest.items() if at < begins.get(p, 0)])
        return self._latest

    def _with_new(self, begins: dict[TopicPartition, int], ends: Offsets) -> dict[TopicPartition, int]:
        """`begins` with the partitions that were added since: they are read from their beginning."""
        new = [p for p in ends if p not in begins]
        return {**begins, **self._asked().earliest(new)} if new else begins

    def _report(self, gone: list[Range]) -> None:
        if gone:
            self._warn_or_raise(data_lost(gone))

    def _warn_or_raise(self, error: OttlaError) -> None:
        if self._options.fail_on_data_loss:
            raise error
        logger.warning("%s", error)

    def _commit(self, processed: Offsets) -> None:
        if self._options.commit_group and processed:
            if self._commits is None:
                self._commits = Commits(self._options)
            self._commits.commit(processed)
