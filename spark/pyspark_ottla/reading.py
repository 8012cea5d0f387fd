"""What a task does: read a range of offsets of one partition, and hand it to Spark as Arrow.

Brokers may be away for a while: reading waits for them, up to `kafkaConsumer.pollTimeoutMs` without a single record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import ottla
from ottla.errors import OffsetOutOfRangeError, RetriableError, UnknownTopicError
from pyspark_ottla.arrow import to_batches
from pyspark_ottla.errors import data_lost, partitions_gone, raise_or_warn
from pyspark_ottla.machines.ranges import Range
from pyspark_ottla.options import ReadOptions

logger = logging.getLogger("ottla.spark")

_BATCH_RECORDS: Final = 10_000
_POLL_S: Final = 0.5


class RangeOfOffsets(InputPartition):
    """One task's share of a batch."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)
        self.range: Final = wanted


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema as Spark expects it of Arrow batches."""
    return to_arrow_schema(schema, timezone="UTC")


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges; pickled to the executors, and stateless."""

    options: ReadOptions
    schema: StructType

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """The records of `wanted`. Raises for lost ones and deleted topics unless failOnDataLoss is false."""
        schema = arrow_schema(self.schema)
        at, heard_at = wanted.start, time.monotonic()
        while at < wanted.end:
            try:
                for batch, following in self._read(wanted._replace(start=at), schema):
                    yield batch
                    at, heard_at = following, time.monotonic()
            except OffsetOutOfRangeError:
                at = self._after_loss(wanted._replace(start=at))
            except UnknownTopicError:
                raise_or_warn(partitions_gone([wanted.partition]), self.options)
                return
            except RetriableError as error:  # a consumer gives up earlier where no broker is there when it begins
                if time.monotonic() - heard_at > self.options.poll_timeout_s:
                    raise
                logger.warning("%s is tried again from %d: %s", wanted, at, error)
                time.sleep(_POLL_S)
            else:
                return

    def _read(self, wanted: Range, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Batches, each with the offset after it."""
        with self._consumer(wanted) as consumer:
            heard_at = time.monotonic()
            while not consumer.finished:
                polled = consumer.poll(_POLL_S, max_records=_BATCH_RECORDS)
                if polled:
                    following = polled.offsets[wanted.partition]
                    for batch in to_batches(polled.segments, schema):
                        yield batch, following
                    heard_at = time.monotonic()  # now: whoever takes a batch may take their time
                elif time.monotonic() - heard_at > self.options.poll_timeout_s:
                    raise ottla.TimeoutError(
                        ottla.ErrorCode.REQUEST_TIMED_OUT,
                        f"no record of {wanted} came within {self.options.poll_timeout_s:.0f} s",
                        hint="see whether its leader runs (ottla topic show); kafkaConsumer.pollTimeoutMs is the wait",
                    )

    def _consumer(self, wanted: Range) -> ottla.Consumer[bytes, bytes]:
        partition = wanted.partition
        return ottla.Consumer(
            partition.topic,
            bootstrap=self.options.bootstrap,
            partitions=[(partition.topic, partition.partition)],
            start={partition: wanted.start},
            stop={partition: wanted.end},
            key="bytes",
            value="bytes",
            auto_offset_reset="none",
            client_id=self.options.client_id,
            config=self.options.client,
        )

    def _after_loss(self, wanted: Range) -> int:
        """Where to go on when the log no longer has the beginning of `wanted`."""
        with ottla.Admin(self.options.bootstrap) as admin:
            first = admin.topics.offsets(wanted.partition.topic, "earliest")[wanted.partition.partition]
        assert first is not None
        gone = wanted._replace(end=min(wanted.end, max(first, wanted.start)))
        if gone.size <= 0:
            gone = wanted  # the log ends before it: it was truncated, or made anew
        raise_or_warn(data_lost([gone]), self.options)
        return gone.end
