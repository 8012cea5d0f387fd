"""A streaming query's reader says where the query begins, how far each micro-batch goes, and what was read.

Spark promises exactly-once processing only if a micro-batch that is done again reads the same records. So Spark keeps a
batch's offsets in its checkpoint before it runs the batch, and everything here is a function of these offsets: no range
depends on when it is asked for (I24). What the checkpoint says may not be in the cluster any more: partitions may be
deleted, topics recreated, records expired, logs truncated. Each of these is lost data, and is reported before a single
row is missing silently (`failOnDataLoss`).

One object lives as long as the query, in a Python process beside the driver, and Spark calls it before each
micro-batch. Tasks run elsewhere and only get ranges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

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

from ottla.errors import UnknownTopicError
from ottla_core.model import TopicPartition
from pyspark_ottla.cluster import SourcePartitions
from pyspark_ottla.commits import OffsetCommits
from pyspark_ottla.errors import (
    PartitionsGoneError,
    beyond_end,
    data_lost,
    foreign_checkpoint,
    partitions_gone,
    raise_or_warn,
    topics_recreated,
    truncated,
)
from pyspark_ottla.machines.admission import Admission
from pyspark_ottla.machines.offsets import (
    Epochs,
    Json,
    Offsets,
    TopicIds,
    differing,
    epochs_in,
    epochs_of,
    from_json,
    ids_in,
    to_json,
)
from pyspark_ottla.machines.ranges import Range, cut, lost, ranges_between, without
from pyspark_ottla.options import ReadOptions
from pyspark_ottla.reading import RangeOfOffsets, RangeReader

T = TypeVar("T")


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader for `spark.readStream.format("ottla")`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options: Final = options
        self._reader: Final = RangeReader(options, schema)
        self._admission: Final = Admission(options.limits)
        # It is made at the first use, and never pickled, because it has connections.
        self._partitions: SourcePartitions | None = None
        self._commits: OffsetCommits | None = None
        self._available_now = False
        self._target: Offsets | None = None
        self._latest: Offsets = {}
        # The number of records behind the end of each of these partitions, in transactions that are still open.
        self._open: Offsets = {}
        self._ids: TopicIds = {}  # those of the topics in `_latest`
        # Names and ids of topics whose recreation was reported, so that it is reported once and not in each batch.
        self._reported_recreated: set[tuple[str, str]] = set()
        self._reported_truncated: set[Range] = set()  # likewise

    # ---- what Spark calls, in this order -----------------------------------------------------------------------------

    def initialOffset(self) -> Json:
        """Return where a new query begins. Raises ConfigError, and OffsetOutOfRangeError for what is not in the log."""
        partitions = self._source_partitions()
        existing = partitions.existing()
        start = partitions.at(self._options.starting, existing, "starting")
        first, last = partitions.earliest(existing), partitions.latest(existing, start)
        self._report_lost([Range(p, at, first[p]) for p, at in start.items() if at < first[p]])
        self._report_beyond([Range(p, last[p], at) for p, at in start.items() if at > last[p]])
        # The offsets are bounded by the log: the checkpoint keeps them, and an offset outside the log would be reported
        # as lost at every start.
        begins = {p: min(max(at, first[p]), last[p]) for p, at in start.items()}
        return to_json(begins, partitions.ids, epochs=partitions.epochs)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch, by which `latestOffset` recognizes a trigger that is to read everything
        (Trigger.Once)."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to what exists when the first batch is planned."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Json:
        """Return where the next micro-batch ends. `start` means "nothing yet". Everything before `start` has been
        processed."""
        read, ids, epochs = self._offsets(start), ids_in(start), epochs_in(start)
        # With Trigger.AvailableNow the end is looked up once. On a topic that is written to all the time, the query
        # would never end.
        latest = _twice(lambda: self._ends(read, ids, epochs)) if self._target is None else self._target
        processed = self._unchanged(read, ids)
        # Spark's `commit` comes one batch late, and for the last batch never. `start` says the same earlier.
        self._commit({p: at for p, at in processed.items() if p in latest})
        if self._available_now:
            self._target = latest
            if self._commits is not None and all(processed.get(p, -1) >= at for p, at in latest.items()):
                self._commits.settle()  # this was the last call: Spark ends the query, and kills this process
        # If a log ends before what was processed, that was reported as lost, and the query goes on from the log's end.
        begins = self._with_new({p: min(at, latest.get(p, at)) for p, at in processed.items()}, latest)
        if isinstance(limit, ReadAllAvailable):
            # Retention may have moved the start of a new partition past the end that was looked up before.
            return self._json({p: max(at, begins[p]) for p, at in latest.items()}, read, epochs)
        sizes = {} if self._options.limits.max_bytes is None else self._source_partitions().record_bytes(latest)
        patient = not self._available_now  # a query over the existing records does not wait for more
        end = self._admission.end_of(begins, latest, time.monotonic(), sizes, patient=patient)
        return start if end is None else self._json(end, read, epochs)

    def reportLatestOffset(self) -> Json | None:
        """Return where the logs ended at the last lookup, and how many records were open there.

        Spark shows it as `latestOffset` of a query's progress, from which lag is computed.
        """
        return to_json(self._latest, self._ids, self._open) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return one range for each task. Raises OffsetOutOfRangeError for offsets that are gone, unless failOnDataLoss
        is false."""
        options, begins, ids = self._options, self._offsets(start), ids_in(end)
        recreated = differing(ids_in(start), ids)  # it was reported when the batch was planned
        # Offsets of the former topic mean nothing in the new one, which is read from its beginning (I29).
        begins = {p: at for p, at in begins.items() if p.topic not in recreated}
        ranges, first, last = _twice(lambda: self._ranges(begins, self._offsets(end), ids))
        self._report_truncated({p: at for p, _, at in ranges}, epochs_in(end))
        gone = lost(ranges, first)
        self._report_lost(gone)
        self._report_beyond([Range(p, last[p], at) for p, _, at in ranges if at > last[p]])
        # A task can't read beyond the end of the log, and would wait for records that may never come.
        ranges = without([range_._replace(end=min(range_.end, last[range_.partition])) for range_ in ranges], gone)
        tasks = cut(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
        known = self._source_partitions().ids
        # The id goes with the range: a topic that is recreated before the task runs has other records at these offsets.
        return [RangeOfOffsets(task, known[task.partition.topic]) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's records, on an executor."""
        if isinstance(partition, RangeOfOffsets):
            yield from self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that a batch was processed. It comes one batch late, and `latestOffset` learns it earlier."""
        gone = differing(ids_in(end), self._ids)
        processed = {p: at for p, at in self._offsets(end).items() if p in self._latest and p.topic not in gone}
        self._commit(processed)

    def stop(self) -> None:
        """End the query, and close its connections."""
        if self._commits is not None:
            self._commits.close()
        if self._partitions is not None:
            self._partitions.close()

    # ---- how ---------------------------------------------------------------------------------------------------------

    def _source_partitions(self) -> SourcePartitions:
        if self._partitions is None:
            self._partitions = SourcePartitions(self._options)
        return self._partitions

    def _offsets(self, checkpoint: dict[str, Any]) -> dict[TopicPartition, int]:
        """Return the checkpoint's offsets, without topics that are no longer subscribed. Raises ConfigError for another
        query's."""
        try:
            offsets = from_json(checkpoint)
        except (AttributeError, TypeError, ValueError):
            raise foreign_checkpoint(repr(checkpoint), str(self._options.strategy)) from None
        foreign = sorted(partition for partition in offsets if not self._options.strategy.covers(partition))
        if foreign:
            error = foreign_checkpoint(", ".join(map(str, foreign[:10])), str(self._options.strategy))
            # If no partition fits, the checkpoint is another query's. If some do, the subscription was changed.
            if len(foreign) == len(offsets):
                raise error
            raise_or_warn(error, self._options)
        return {partition: offset for partition, offset in offsets.items() if partition not in foreign}

    def _json(self, ends: Offsets, read: Offsets, epochs: Epochs) -> Json:
        return to_json(ends, self._ids, epochs=epochs_of(ends, self._source_partitions().epochs, read, epochs))

    def _ends(self, read: Offsets, ids: TopicIds, epochs: Epochs) -> Offsets:
        """Return where the logs end now. Partitions that are gone are a loss of data, and have no end."""
        partitions = self._source_partitions()
        # While a recreated topic has no records, `ids` keeps the former id. Once the recreation was reported, no later
        # call has to wait until it is certain.
        expected = {n: i for n, i in ids.items() if (n, self._ids.get(n)) not in self._reported_recreated}
        existing = partitions.existing(skip_missing=not self._options.fail_on_data_loss, known=read, ids=expected)
        self._ids = partitions.ids
        processed = self._unchanged(read, ids)
        if missing := sorted(set(processed) - set(existing)):
            raise_or_warn(partitions_gone(missing), self._options)
        # The high watermarks come first. In the other order, records that are written in between would count as open.
        high_watermarks = partitions.high_watermarks(existing)
        self._latest = partitions.latest(existing, processed)
        self._open = {p: at - self._latest[p] for p, at in high_watermarks.items() if at > self._latest[p]}
        self._report_beyond([Range(p, at, processed[p]) for p, at in self._latest.items() if at < processed.get(p, 0)])
        self._report_truncated({p: at for p, at in processed.items() if p in self._latest}, epochs)
        return self._latest

    def _unchanged(self, read: Offsets, ids: TopicIds) -> dict[TopicPartition, int]:
        """Return `read` without the topics that were recreated, which are read from their beginning."""
        recreated = differing(ids, self._ids)
        if unreported := [
            name for name in sorted(recreated) if (name, self._ids[name]) not in self._reported_recreated
        ]:
            raise_or_warn(topics_recreated(unreported), self._options)
            self._reported_recreated |= {(name, self._ids[name]) for name in unreported}
        return {p: at for p, at in read.items() if p.topic not in recreated}

    def _existing(self, ends: Offsets, ids: TopicIds) -> Offsets:
        """Return `ends` without the partitions that were deleted since the batch was planned, perhaps in an earlier
        run."""
        partitions = self._source_partitions()
        found = partitions.existing(skip_missing=not self._options.fail_on_data_loss, known=ends, ids=ids)
        recreated = differing(ids, partitions.ids)
        existing = {partition for partition in found if partition.topic not in recreated}
        if missing := sorted(set(ends) - existing):
            raise_or_warn(partitions_gone(missing), self._options)
        return {partition: end for partition, end in ends.items() if partition in existing}

    def _ranges(self, begins: Offsets, ends: Offsets, ids: TopicIds) -> tuple[list[Range], Offsets, Offsets]:
        """Return the ranges of a batch that still exist, and where their logs begin and end.

        Partitions that were added begin at 0, whatever is left of them. So a batch is the same however often it is
        planned, and deleted parts are reported.
        """
        existing = self._existing(ends, ids)
        ranges = ranges_between({**dict.fromkeys(existing, 0), **begins}, existing)
        ends = {partition: end for partition, _, end in ranges}
        return ranges, self._source_partitions().earliest(ends), self._source_partitions().latest(ends, ends)

    def _with_new(self, begins: dict[TopicPartition, int], ends: Offsets) -> dict[TopicPartition, int]:
        """Return `begins` with the partitions that were added since. What is gone of them takes no part of a batch's
        limit."""
        new = [p for p in ends if p not in begins]
        return {**begins, **self._source_partitions().earliest(new)} if new else begins

    def _report_lost(self, gone: list[Range]) -> None:
        if gone:
            raise_or_warn(data_lost(gone), self._options)

    def _report_beyond(self, missing: list[Range]) -> None:
        if missing:
            raise_or_warn(beyond_end(missing), self._options)

    def _report_truncated(self, read: Offsets, epochs: Epochs) -> None:
        """Report logs that have other records than the query has read, even if they are as long again by now."""
        ends = self._source_partitions().truncated(read, epochs)
        missing = {Range(p, end, read[p]) for p, end in ends.items()} - self._reported_truncated
        if missing:
            raise_or_warn(truncated(sorted(missing)), self._options)
            self._reported_truncated |= missing

    def _commit(self, processed: Offsets) -> None:
        if self._options.commit_group and processed:
            if self._commits is None:
                self._commits = OffsetCommits(self._options)
            self._commits.commit(processed)


def _twice(lookup: Callable[[], T]) -> T:
    """Look something up, and look it up again if a topic was deleted between two requests: the second time reports
    it."""
    try:
        return lookup()
    except PartitionsGoneError:
        raise
    except UnknownTopicError:
        return lookup()
