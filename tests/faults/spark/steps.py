"""The connector as it is, with every step announced to whoever started the query, who may kill somebody then."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType
from tests.faults.put_in_place import put_in_place

import ottla
from pyspark_ottla import query_transactions
from pyspark_ottla.decision_log import DecisionLog
from pyspark_ottla.machines.decisions import Batch, Decision, Known, TaskTransaction
from pyspark_ottla.options import read_options, write_options
from pyspark_ottla.producers import BytesProducer
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
    def settle(self, admin: ottla.Admin, decision: Decision | None, known: Mapping[str, Known]) -> Any:
        if decision is not None and decision.batch.number == self._batch.number:
            announce("settle")
        return super().settle(admin, decision, known)

    def end(self, admin: ottla.Admin, decided: Sequence[TaskTransaction], orphans: Sequence[TaskTransaction]) -> None:
        if decided:
            announce("end")
        super().end(admin, decided, orphans)

    def forget(self, admin: ottla.Admin, names: Iterable[str]) -> None:
        announce("forget")
        super().forget(admin, names)


class SteppingLog(DecisionLog):
    def write(self, decision: Decision | None) -> ottla.Delivery:
        if decision is not None:
            announce("decide")
        return super().write(decision)


class SteppingRowWriter(RowWriter):
    log: type[DecisionLog] = SteppingLog

    def send(self, producer: BytesProducer, batches: Iterable[pa.RecordBatch]) -> Written:
        written = super().send(producer, batches)
        if self.options.exactly_once:
            announce("prepare")
        return written

    def transactions(self, batch: Batch) -> QueryTransactions:
        put_in_place(query_transactions, "DecisionLog", self.log)
        return SteppingTransactions(self.options, batch)


class SteppingDataSource(OttlaDataSource):
    """`format("stepping")`."""

    @property
    def row_writer(self) -> type[RowWriter]:
        return SteppingRowWriter

    @classmethod
    def name(cls) -> str:
        return "stepping"

    def streamReader(self, schema: StructType) -> SteppingReader:
        return SteppingReader(read_options(self.options, streaming=True), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> SteppingWriter:
        return SteppingWriter(self.row_writer(write_options(self.options), schema))
