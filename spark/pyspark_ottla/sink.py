"""The sink says what Spark's tasks do with their rows, and what the driver then does.

Spark repeats each failure: a task from its first row, and a micro-batch from its first task. So the sink has to make
repeats harmless or say that they are not.

*At least once*, the default. A task ends well only when the brokers have acknowledged each of its rows (I24), so none
is left out. Rows of a repeated task come twice, nothing has to be undone, and `commit` and `abort` only count.

*Exactly once.* A task can't know whether its batch will count: another attempt of it may win, or the driver may die. So
each attempt writes in a transaction of its own, which it leaves prepared, and the driver decides which of them count
(`query_transactions`). The decision is one record in the cluster, so a driver that starts again finds it.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.errors import ErrorCode, OttlaError
from ottla_core.plural import counted
from pyspark_ottla.columns import check_columns
from pyspark_ottla.machines.decisions import SINGLE, Batch, Content, TaskTransaction, named
from pyspark_ottla.options import WriteOptions
from pyspark_ottla.producers import BytesProducer, check_settings, lent_producer, new_producer
from pyspark_ottla.worker_heap import on_task_end

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_ottla.query_transactions import QueryTransactions

logger = logging.getLogger("ottla.spark")


@dataclass
class Written(WriterCommitMessage):
    """What one task has written: acknowledged rows by topic, and exactly once also its batch and its prepared
    transaction.

    `checksum` is the sum of the rows' checksums, which does not depend on their order. By it a repeated batch is
    recognized although its tasks divide the rows differently.
    """

    rows: Counter[str] = field(default_factory=Counter)
    checksum: int = 0
    batch: Batch | None = None
    transaction: TaskTransaction | None = None


Messages = Sequence[WriterCommitMessage | None]
"""The messages of all tasks, with None for each that has failed."""


class RowWriter:
    """Writes a task's rows. It is pickled to the executors, and stateless."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Check columns and settings. Raises ConfigError for those that are invalid, before anything runs."""
        check_columns(schema, options.topic)
        check_settings(options)
        self.options: Final = options

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write the rows, and return once every row is acknowledged.

        Raises DeliveryError with the first failure of a row, ConfigError for a row without a topic, or with a partition
        that does not exist, and what `Producer.send` raises.
        """
        with lent_producer(self.options) as producer:
            written = self.send(producer, batches)
            # Spark takes the task for done when this returns, and then never repeats it.
            producer.flush()
        on_task_end()
        return written

    def prepare(self, batches: Iterable[pa.RecordBatch], batch: Batch) -> Written:
        """Write the rows in a transaction of this attempt, and return once every row is acknowledged. It waits for its
        decision.

        Raises like `write`, and TransactionAborted if the transaction took too long, or was ended by another client.
        """
        rows = (part for part in batches if part.num_rows)
        # An attempt without rows needs no transaction, and a transaction costs several round trips.
        first = next(rows, None)
        if first is None:
            return Written(batch=batch)
        from pyspark_ottla.attempts import came_too_late, id_of_attempt, lent_admin

        with lent_admin(self.options) as admin:
            name = id_of_attempt(admin, batch, _context())
            with new_producer(self.options, name) as producer, producer.transaction():
                written = self.send(producer, chain([first], rows))
                prepared = prepared_by(producer)
            assert prepared is not None  # there was a row
            transaction = TaskTransaction(*prepared)
            # It is looked up after the transaction is prepared. Its batch may have been decided before that, with
            # another attempt of this task. Then nothing would ever end this one, and it would block readers of
            # committed records.
            late = came_too_late(admin, batch, transaction, self.options)
        on_task_end()
        written.batch, written.transaction = batch, None if late else transaction
        return written

    def send(self, producer: BytesProducer, batches: Iterable[pa.RecordBatch]) -> Written:
        """Hand the rows to the producer, and count them. They are not acknowledged yet."""
        # It is imported here, because Spark also loads this module where it only plans and counts.
        from pyspark_ottla.outgoing import check_partitions, checksum, row_slices, rows_by_topic

        written = Written()
        for part in row_slices(batches):
            for rows in rows_by_topic(part, self.options.topic):
                check_partitions(producer, rows, part)
                producer.send_columns(rows.columns, rows.topic)
                written.rows[rows.topic] += len(rows.numbers)
                written.checksum += checksum(rows) if self.options.exactly_once else 0
        return written

    def transactions(self, batch: Batch) -> QueryTransactions:
        """Return the driver's view of that batch's transactions."""
        from pyspark_ottla.query_transactions import QueryTransactions  # only drivers need it

        return QueryTransactions(self.options, batch)


def prepared_by(producer: BytesProducer) -> tuple[str, int, int] | None:
    """Prepare the producer's transaction. Raises UNSUPPORTED_VERSION for a cluster of Apache Kafka, and says why."""
    try:
        return producer.prepare_transaction()
    except OttlaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        reason = "delivery=exactly_once needs a cluster of ottla: Apache Kafka has no transactions that stay prepared"
        hint = "set delivery to at_least_once; rows of repeated tasks are then written again"
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, reason, hint=hint) from error


class OttlaBatchWriter(DataSourceArrowWriter):
    """`df.write.format("ottla")`. With exactly_once, a write commits all of its rows or none, and repeating a
    write with the same txnAppId and txnVersion adds no rows."""

    def __init__(self, writer: RowWriter) -> None:
        self._writer: Final = writer
        app, version = writer.options.app_id, writer.options.app_version
        # Without an app id the write gets one that never comes again. The token distinguishes two runs of one write.
        batch = Batch(app or str(uuid4()), version or SINGLE, secrets.token_hex(4), is_micro_batch=False)
        self._batch: Final = batch if writer.options.exactly_once else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows, on an executor."""
        return self._writer.write(iterator) if self._batch is None else self._writer.prepare(iterator, self._batch)

    def commit(self, messages: Messages) -> None:
        """Commit the write, because all tasks have ended well."""
        if self._batch is not None:
            transactions = self._writer.transactions(self._batch)
            decided = transactions.commit(transactions_of(messages), content_of(messages))
            self._retire(transactions)
            if not decided:
                logger.info("%s was already written", named(self._batch))
                return
        logger.info("wrote %s", summary(messages))

    def abort(self, messages: Messages) -> None:
        """Abort the write, because a task has failed."""
        if self._batch is None:
            logger.warning("the write failed; rows that other tasks wrote stay in the topic: %s", summary(messages))
            return
        logger.warning(
            "the write failed; its rows are aborted, unless the driver had already decided to commit them: %s",
            summary(messages),
        )
        transactions = self._writer.transactions(self._batch)
        # With an app id the write may be repeated, and its decision may have been made. Without one it never comes
        # again, so every attempt of it is aborted, reported or not.
        if self._writer.options.app_id:
            transactions.abort(transactions_of(messages))
        else:
            transactions.abort_all()
        self._retire(transactions)

    def _retire(self, transactions: QueryTransactions) -> None:
        """Forget a write without txnAppId, because it is never repeated.

        The decisions of other writes stay, so that a repeat is recognized.
        """
        if not self._writer.options.app_id:
            transactions.retire()


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("ottla")`, micro-batch by micro-batch."""

    def __init__(self, writer: RowWriter) -> None:
        self._writer: Final = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows, on an executor."""
        options = self._writer.options
        if not options.exactly_once:
            return self._writer.write(iterator)
        return self._writer.prepare(iterator, micro_batch())

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the micro-batch, because all of its tasks have ended well."""
        if (batch := batch_of(messages)) is not None:
            transactions = self._writer.transactions(batch)
            if not transactions.commit(transactions_of(messages), content_of(messages)):
                logger.info("micro-batch %d was already written", batchId)
                return
        logger.info("micro-batch %d wrote %s", batchId, summary(messages))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Abort the micro-batch, because a task has failed. Spark does all of it again when the query is started
        again."""
        logger.warning(
            "micro-batch %d failed after writing %s; a restarted query writes the micro-batch again",
            batchId,
            summary(messages),
        )
        if (batch := batch_of(messages)) is not None:
            self._writer.transactions(batch).abort(transactions_of(messages))


def micro_batch() -> Batch:
    """Return the micro-batch to which this task belongs."""
    context = _context()
    query, number, run = (context.getLocalProperty(name) or "" for name in _STREAM_PROPERTIES)
    return Batch(query, int(number), run)


_STREAM_PROPERTIES: Final = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")
"""Properties of a streaming query's tasks. The group of its jobs is its run, which distinguishes a restarted driver's
attempts from those of the driver before."""


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None  # Spark's tasks have one
    return context


def batch_of(messages: Messages) -> Batch | None:
    """Return the batch of a transactional write, or None if there is none, or if all tasks have failed."""
    return next((message.batch for message in messages if isinstance(message, Written)), None)


def transactions_of(messages: Messages) -> list[TaskTransaction]:
    """Return the transactions that the tasks have prepared, or none if there were no rows."""
    return [m.transaction for m in messages if isinstance(m, Written) and m.transaction is not None]


def content_of(messages: Messages) -> Content:
    """Return the rows of all tasks in brief: their number and checksum."""
    written = [message for message in messages if isinstance(message, Written)]
    return Content(sum(each.rows.total() for each in written), sum(each.checksum for each in written))


def summary(messages: Iterable[WriterCommitMessage | None]) -> str:
    """Say how many rows went to which topic."""
    rows: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, Written):
            rows += message.rows
    return ", ".join(f"{counted(count, 'row')} to {topic}" for topic, count in sorted(rows.items())) or "no rows"
