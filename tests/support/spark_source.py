"""Asks the Spark connector what Spark asks, in Spark's order, without a JVM: a batch takes milliseconds.

What Spark does to things on their way is done here, too: options in lower case, the data source and its partitions
pickled, offsets as JSON texts, rows as Arrow batches of the schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceReader, Filter
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ottla_core.model import TopicPartition
from pyspark_ottla.batch_reader import OttlaBatchReader
from pyspark_ottla.filters import FilteringBatchReader
from pyspark_ottla.machines.ranges import Range
from pyspark_ottla.options import read_options
from pyspark_ottla.reading import RangeOfOffsets, arrow_schema
from pyspark_ottla.source import OttlaDataSource
from pyspark_ottla.stream_reader import OttlaStreamReader

T = TypeVar("T")

Row = dict[str, Any]
"""By the names of columns."""


def travelled(thing: T) -> T:
    """What another process gets."""
    other: T = cloudpickle.loads(cloudpickle.dumps(thing))  # type: ignore[no-untyped-call]  # Spark's copy of it has no types
    return other


def data_source(bootstrap: str, options: Mapping[str, object]) -> OttlaDataSource:
    given = {"kafka.bootstrap.servers": bootstrap, **options}
    return travelled(OttlaDataSource({name.lower(): str(value) for name, value in given.items()}))


def rows_of(reader: OttlaBatchReader | OttlaStreamReader, tasks: list[Any], source: OttlaDataSource) -> list[Row]:
    rows: list[Row] = []
    schema = arrow_schema(source.schema())
    for task in tasks:
        for batch in travelled(reader).read(travelled(task)):
            assert batch.schema == schema
            rows += batch.to_pylist()
    return rows


def ranges_of(tasks: list[Any]) -> list[Range]:
    return [task.range for task in tasks if isinstance(task, RangeOfOffsets)]


class Table:
    """What `spark.read…load().collect()` does; `ranges` are its tasks. `filters` are those that Spark hands over."""

    def __init__(self, bootstrap: str, options: Mapping[str, object], filters: Sequence[Filter] = ()) -> None:
        source = data_source(bootstrap, options)
        reader = source.reader(source.schema())
        assert isinstance(reader, OttlaBatchReader)
        assert not hasattr(type(reader), "pushFilters") or type(reader).pushFilters is DataSourceReader.pushFilters
        if filters:
            reader = FilteringBatchReader(read_options(source.options, streaming=False), source.schema())
            assert reader.pushFilters([*filters]) == [*filters]  # Spark evaluates all of them again
        tasks = reader.partitions()
        self.ranges = ranges_of(tasks)
        self.rows = rows_of(reader, tasks, source)

    @property
    def values(self) -> list[str]:
        """In their order within each partition."""
        return texts(self.rows)


class Stream:
    """A streaming query with its checkpoint. `once` is Trigger.Once, which no limit holds."""

    def __init__(
        self,
        bootstrap: str,
        options: Mapping[str, object],
        checkpoint: str | None = None,
        *,
        available_now: bool = False,
        once: bool = False,
    ) -> None:
        self._source = data_source(bootstrap, options)
        self._schema = self._source.schema()
        self.reader = self._source.streamReader(self._schema)
        self._limit = ReadAllAvailable() if once else self.reader.getDefaultReadLimit()
        if available_now:
            self.reader.prepareForTriggerAvailableNow()
        self.checkpoint = json.dumps(self.reader.initialOffset()) if checkpoint is None else checkpoint
        self.ranges: list[Range] = []

    def batch(self) -> list[Row] | None:
        """The next micro-batch; None where there is none yet."""
        planned = self.plan()
        return None if planned is None else self.run(planned)

    def plan(self) -> str | None:
        """Where the next micro-batch ends, as Spark writes it down before it runs it."""
        end = json.dumps(self.reader.latestOffset(json.loads(self.checkpoint), self._limit))
        return None if json.loads(end) == json.loads(self.checkpoint) else end

    def run(self, planned: str, *, before_tasks: Callable[[], object] = lambda: None) -> list[Row]:
        """`before_tasks` happens once the tasks know what to read."""
        tasks = self.reader.partitions(json.loads(self.checkpoint), json.loads(planned))
        self.ranges = ranges_of(tasks)
        before_tasks()
        # Spark makes another reader for the tasks when the query begins
        rows = rows_of(self._source.streamReader(self._schema), tasks, self._source) if tasks else []
        self.checkpoint = planned
        return rows

    def values(self) -> list[str] | None:
        rows = self.batch()
        return None if rows is None else texts(rows)

    def stop(self) -> None:
        self.reader.stop()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def texts(rows: list[Row]) -> list[str]:
    ordered = sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
    return [row["value"].decode() for row in ordered]


def offsets(topic: str, *at: int) -> str:
    """JSON of a place in each partition, from partition 0 on."""
    return json.dumps({topic: {str(number): offset for number, offset in enumerate(at)}})


def partition(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)
