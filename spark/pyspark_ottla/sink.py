"""Writing: what Spark's tasks do with their rows, and what the driver learns of it.

At least once: a task ends well only when the brokers have acknowledged each of its rows. What fails or dies before is
done again by Spark, from the first row of the task, so rows may come twice; none is left out. Nothing has to be undone
or committed, which is why `commit` and `abort` only count.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_ottla.columns import check_columns
from pyspark_ottla.options import WriteOptions
from pyspark_ottla.producers import PRODUCER_POOL, BytesProducer, check_settings

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("ottla.spark")


@dataclass
class Written(WriterCommitMessage):
    """What one task has written: acknowledged rows by topic."""

    rows: Counter[str] = field(default_factory=Counter)


class RowWriter:
    """Writes a task's rows; pickled to the executors, and stateless."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Raises ConfigError for columns and settings that can't be, before anything runs."""
        check_columns(schema, options.topic)
        check_settings(options)
        self.options: Final = options

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Returns once every row is acknowledged.

        Raises DeliveryError with the first failure of a row, ConfigError for a row without a topic, or with a partition
        that does not exist, and what `Producer.send` raises.
        """
        with PRODUCER_POOL.lent(self.options) as producer:
            written = self.send(producer, batches)
            producer.flush()
        return written

    def send(self, producer: BytesProducer, batches: Iterable[pa.RecordBatch]) -> Written:
        """Hand the rows to the producer, and count them: they are not acknowledged yet."""
        from pyspark_ottla.outgoing import check_partitions, row_slices, rows_by_topic  # not where Spark only counts

        written = Written()
        for part in row_slices(batches):
            for rows in rows_by_topic(part, self.options.topic):
                check_partitions(producer, rows, part)
                producer.send_columns(rows.columns, rows.topic)
                written.rows[rows.topic] += len(rows.numbers)
        return written


class OttlaBatchWriter(DataSourceArrowWriter):
    """What `df.write.format("ottla")` does."""

    def __init__(self, writer: RowWriter) -> None:
        self._writer: Final = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """One task's rows, on an executor."""
        return self._writer.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks have ended well."""
        logger.info("written: %s", summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Some task has failed."""
        logger.warning("a write has failed; what its other tasks have written stays: %s", summary(messages))


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """What `df.writeStream.format("ottla")` does, micro-batch by micro-batch."""

    def __init__(self, writer: RowWriter) -> None:
        self._writer: Final = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """One task's rows, on an executor."""
        return self._writer.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """All tasks of the micro-batch have ended well."""
        logger.info("micro-batch %d is written: %s", batchId, summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Some task has failed: Spark does the whole micro-batch again when the query is started again."""
        logger.warning("micro-batch %d has failed; what is written comes again: %s", batchId, summary(messages))


def summary(messages: Iterable[WriterCommitMessage | None]) -> str:
    """How many rows went where."""
    rows: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, Written):
            rows += message.rows
    return ", ".join(f"{count} rows to {topic}" for topic, count in sorted(rows.items())) or "no rows"
