"""The connector as it is, with every step announced to whoever started the query, who may kill somebody then.

And the same with a fault planted in its sink, which the run has to find.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

import ottla
from pyspark_ottla.machines.decisions import Batch, TaskTransaction
from pyspark_ottla.options import read_options, write_options
from pyspark_ottla.producers import BytesProducer, new_producer
from pyspark_ottla.query_transactions import QueryTransactions
from pyspark_ottla.sink import OttlaStreamWriter, RowWriter, Written
from pyspark_ottla.source import OttlaDataSource
from pyspark_ottla.stream_reader import OttlaStreamReader

SWITCHBOARD: Final = "OTTLA_SWITCHBOARD"
"""The environment variable with the port of whoever is told."""


def announce(step: str) -> None:
    """Say that `step` comes now, and wait until it may."""
    context = TaskContext.get()
    attempt = None if context is None else (context.partitionId(), context.attemptNumber())
    with socket.create_connection(("127.0.0.1", int(os.environ[SWITCHBOARD]))) as told:
        told.sendall(json.dumps({"step": step, "pid": os.getpid(), "task": attempt}).encode() + b"\n")
        told.recv(1)


class SteppingReader(OttlaStreamReader):
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Any:
        announce("latest")
        return super().latestOffset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        announce("plan")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        announce("read")
        for number, batch in enumerate(super().read(partition)):
            yield batch
            if number == 0:
                announce("reading")


class SteppingWriter(OttlaStreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        announce("write")
        written = super().write(_announced(iterator))
        announce("flushed")
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        announce("commit")
        super().commit(messages, batchId)
        announce("committed")


def _announced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches):
        yield batch
        if number == 0:
            announce("writing")


class SteppingTransactions(QueryTransactions):
    def end(self, admin: ottla.Admin, decided: Sequence[TaskTransaction], orphans: Sequence[str]) -> None:
        if decided:
            announce("end")
        super().end(admin, decided, orphans)

    def forget(self, admin: ottla.Admin, names: Sequence[str]) -> None:
        if names:
            announce("forget")
        super().forget(admin, names)


class SteppingRowWriter(RowWriter):
    def transactions(self, batch: Batch) -> SteppingTransactions:
        return SteppingTransactions(self.options, batch)


class SteppingDataSource(OttlaDataSource):
    """`format("stepping")`."""

    row_writer: type[RowWriter] = SteppingRowWriter

    @classmethod
    def name(cls) -> str:
        return "stepping"

    def streamReader(self, schema: StructType) -> SteppingReader:
        return SteppingReader(read_options(self.options, streaming=True), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> SteppingWriter:
        return SteppingWriter(self.row_writer(write_options(self.options), schema))


class Hasty(RowWriter):
    """Ends before its rows are acknowledged, or even sent: they are, if nobody is killed for a second."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        producer = new_producer(replace(self.options, client={"linger.ms": "1000"}))
        _never_flushed.append(producer)
        return self.send(producer, batches)


class Forgetful(RowWriter):
    """Takes the first rows of a task that is done again for written."""

    def send(self, producer: BytesProducer, batches: Iterable[pa.RecordBatch]) -> Written:
        left = iter(batches)
        context = TaskContext.get()
        if context is not None and context.attemptNumber():
            next(left)
        return super().send(producer, left)


_never_flushed: Final[list[BytesProducer]] = []


class HastyDataSource(SteppingDataSource):
    row_writer = Hasty


class ForgetfulDataSource(SteppingDataSource):
    row_writer = Forgetful


SOURCES: Final = {"": SteppingDataSource, "hasty": HastyDataSource, "forgetful": ForgetfulDataSource}
"""As it is, and with its fault planted."""
