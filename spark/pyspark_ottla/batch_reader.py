"""A batch query looks its ends up once, when it is planned."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.errors import config_error
from pyspark_ottla.cluster import SourcePartitions
from pyspark_ottla.errors import beyond_end, data_lost, raise_or_warn
from pyspark_ottla.machines.ranges import Range, cut, lost, without
from pyspark_ottla.options import ReadOptions
from pyspark_ottla.reading import RangeOfOffsets, RangeReader

_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def pushes_filters() -> bool:
    """Return whether this process plans a read whose filters Spark hands over.

    A reader that overrides `pushFilters` fails every read if spark.sql.python.filterPushdown.enabled is off, and a
    process that plans can't see the session's settings. But Spark plans in another kind of worker if the setting is on.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == _PUSHDOWN_WORKER)


class OttlaBatchReader(DataSourceReader):
    """The reader for `spark.read.format("ottla")`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options: Final = options
        self._reader: Final = RangeReader(options, schema)

    def partitions(self) -> list[InputPartition]:
        """Return one range per task. Raises the brokers' errors, ConfigError, and OffsetOutOfRangeError for deleted
        records."""
        partitions = SourcePartitions(self._options)
        try:
            ranges = self.select(self._ranges(partitions), partitions)
        finally:
            partitions.close()
        options = self._options
        tasks = cut(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
        return [RangeOfOffsets(task, partitions.ids[task.partition.topic]) for task in tasks]

    def select(self, ranges: list[Range], partitions: SourcePartitions) -> list[Range]:
        """Return the ranges that have something to read, or all of them if nothing is filtered."""
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one task's records."""
        if isinstance(partition, RangeOfOffsets):  # Spark makes a partition of its own if there is nothing to read
            yield from self._reader.read(partition)

    def _ranges(self, partitions: SourcePartitions) -> list[Range]:
        existing = partitions.existing()
        start = partitions.at(self._options.starting, existing, "starting")
        end = partitions.at(self._options.ending, existing, "ending")
        first = partitions.earliest(existing)
        last = partitions.latest(existing, {p: max(start[p], end[p]) for p in existing})
        if missing := [Range(p, last[p], max(start[p], end[p])) for p in existing if max(start[p], end[p]) > last[p]]:
            raise_or_warn(beyond_end(missing), self._options)
        ranges = [Range(p, min(start[p], last[p]), min(end[p], last[p])) for p in existing]
        if crossed := [crossed for crossed in ranges if crossed.size < 0]:
            partition, begins, ends = crossed[0]
            raise config_error(
                f"{partition}: the starting offset {begins} is after the ending offset {ends}",
                hint="set the starting… options to an earlier position than the ending… options",
            )
        if gone := lost(ranges, first):
            raise_or_warn(data_lost(gone), self._options)
        return without(ranges, gone)
