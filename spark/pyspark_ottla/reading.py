"""A task reads a range of offsets of one partition, and hands it to Spark as Arrow.

A task may run late, on any executor, and more than once. So all that it knows is its range and the id of the topic: it
reads exactly the records from start to end of that topic, or fails, or reports what is lost. It never commits anything.

Brokers may be away for a while. Reading waits for them, up to `kafkaConsumer.pollTimeoutMs` without a single record,
because a failed task costs a whole micro-batch. A consumer takes longer to start than a small range takes to read, so
consumers are kept from task to task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import ottla
from ottla.connect import UNKNOWN_TOPIC_GRACE_S
from ottla.errors import OffsetOutOfRangeError, RetriableError, TruncationError, UnknownTopicError
from ottla_core.model import TopicPartition
from pyspark_ottla.arrow import to_batches
from pyspark_ottla.cluster import SourcePartitions
from pyspark_ottla.errors import data_lost, partitions_gone, raise_or_warn
from pyspark_ottla.idle_clients import IdleClients
from pyspark_ottla.machines.ranges import Range
from pyspark_ottla.options import ReadOptions
from pyspark_ottla.worker_heap import on_task_end

logger = logging.getLogger("ottla.spark")

_BATCH_RECORDS: Final = 10_000
_POLL_S: Final = 0.5


BytesConsumer: TypeAlias = "ottla.Consumer[bytes, bytes]"

IDLE_CONSUMERS: Final[IdleClients[BytesConsumer]] = IdleClients(lambda consumer: consumer.close())
"""The idle consumers of this process. A process in which Spark only plans has none."""


class RangeOfOffsets(InputPartition):
    """One task's share of a batch, and the id that its topic had when the batch was planned."""

    def __init__(self, range_: Range, topic_id: str) -> None:
        super().__init__(range_)
        self.range: Final = range_
        self.topic_id: Final = topic_id


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema as Spark expects it of Arrow batches."""
    return to_arrow_schema(schema, timezone="UTC")


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges. It is pickled to the executors, and stateless."""

    options: ReadOptions
    schema: StructType

    def read(self, task: RangeOfOffsets) -> Iterator[pa.RecordBatch]:
        """Read the task's records. Raises for lost ones and deleted topics unless failOnDataLoss is false."""
        yield from self._until_end(task.range, task.topic_id)
        on_task_end()

    def _until_end(self, range_: Range, topic_id: str) -> Iterator[pa.RecordBatch]:
        at, heard_at = range_.start, time.monotonic()
        unknown_since: float | None = None
        while at < range_.end:
            try:
                for batch, following in self._read(range_._replace(start=at), topic_id):
                    yield batch
                    # This comes after the batch was handed over: a failure behind it goes on from here, and no row
                    # comes twice.
                    at, heard_at, unknown_since = following, time.monotonic(), None
            except OffsetOutOfRangeError as error:
                at = self._after_loss(range_._replace(start=at), error)
            except UnknownTopicError:
                # A broker that lags may not know the topic yet, or still know the one that had its name before.
                unknown_since = unknown_since or time.monotonic()
                if time.monotonic() >= unknown_since + UNKNOWN_TOPIC_GRACE_S:
                    raise_or_warn(partitions_gone([range_.partition]), self.options)
                    return
                time.sleep(_POLL_S)
            # A consumer that can't reach any broker at its start gives up earlier than this task does.
            except RetriableError as error:
                if time.monotonic() - heard_at > self.options.poll_timeout_s:
                    raise
                logger.warning("reading %s again from offset %d: %s", range_, at, error)
                time.sleep(_POLL_S)
            else:
                return

    def _read(self, range_: Range, topic_id: str) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield Arrow batches, each with the offset after it."""
        schema = arrow_schema(self.schema)
        with self._lent(range_, topic_id) as consumer:
            at, heard_at = range_.start, time.monotonic()
            while not consumer.finished:
                polled = consumer.poll(_POLL_S, max_records=_BATCH_RECORDS)
                if polled:
                    following = polled.offsets[range_.partition]
                    for batch in to_batches(polled.segments, schema):
                        yield batch, following
                    # The time is taken now, because the caller may have taken long over the batches.
                    heard_at = time.monotonic()
                # A range may hold nothing but markers and aborted records. The position then advances without a record.
                elif (position := consumer.position(range_.partition)) > at:
                    at, heard_at = position, time.monotonic()
                elif time.monotonic() - heard_at > self.options.poll_timeout_s:
                    raise ottla.TimeoutError(
                        ottla.ErrorCode.REQUEST_TIMED_OUT,
                        f"no record of {range_} arrived within {self.options.poll_timeout_s:.0f} s",
                        hint="check whether the partition's leader is running (ottla topic show), and whether a "
                        "transaction is open in the partition (ottla txn explain); kafkaConsumer.pollTimeoutMs sets "
                        "how long a task waits",
                    )

    def _lent(self, range_: Range, topic_id: str) -> AbstractContextManager[BytesConsumer]:
        """Lend the consumer that was kept for the partition. In most micro-batches it goes on at the range's start.

        The consumer of a former topic of the same name is not lent, since all that it would find is that its topic is
        gone. A topic that was recreated since the batch was planned has none of the batch's rows.
        """
        options, partition = self.options, range_.partition
        settings = options.access, options.client_id, frozenset(options.client.items()), partition, topic_id
        return IDLE_CONSUMERS.lent(
            settings,
            lambda: self._consumer(partition),
            lambda consumer: consumer.seek(partition, range_.start, stop=range_.end, topic_id=UUID(topic_id).bytes),
        )

    def _consumer(self, partition: TopicPartition) -> BytesConsumer:
        return ottla.Consumer(
            partition.topic,
            **self.options.access.arguments(),
            partitions=[(partition.topic, partition.partition)],
            # Spark gets bytes, and a deserializer could fail on records that the query never looks at.
            key="bytes",
            value="bytes",
            # A reset would read other records than those of the range, without an error.
            auto_offset_reset="none",
            client_id=self.options.client_id,
            config=self.options.client,
        )

    def _after_loss(self, range_: Range, error: OffsetOutOfRangeError) -> int:
        """Return where to continue if the log no longer has the beginning of `range_`, or what was read before it."""
        partition = range_.partition
        with closing(SourcePartitions(self.options)) as partitions:
            first, end = partitions.earliest([partition])[partition], partitions.log_ends([partition])[partition]
        if first > range_.start:
            gone = range_._replace(end=min(range_.end, first))
        elif end <= range_.start or not isinstance(error, TruncationError):
            gone = range_  # the log was truncated, or the topic recreated
        else:
            # The new leader's log differs from the point of divergence on, so records before `start` are lost. It has
            # records from `start` on, and the task reads those.
            diverged = range_.start - 1 if error.divergent_offset is None else error.divergent_offset
            gone = Range(partition, min(diverged, range_.start - 1), range_.start)
        raise_or_warn(data_lost([gone]), self.options)
        return gone.end
