"""The connector as the query uses it: with second attempts of its tasks, and, for a mutant, with a rule broken.

Spark starts a speculative attempt only on another host than the first, and there is only one host here. So the second
attempt runs in the first one's process, before it or some time after it, when its micro-batch may be decided. Spark
knows nothing of it: as with speculation, the driver gets the result of one attempt alone.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType
from tests.faults.put_in_place import put_in_place

import ottla
from pyspark_ottla import query_transactions, sink
from pyspark_ottla.machines.decisions import Batch, Content, Decision
from pyspark_ottla.options import write_options
from pyspark_ottla.query_transactions import QueryTransactions
from pyspark_ottla.sink import OttlaStreamWriter, RowWriter, Written
from pyspark_ottla.source import OttlaDataSource

ATTEMPTS: Final = "OTTLA_SECOND_ATTEMPTS"
"""The environment variable with the file that gets a line for each second attempt."""

_ONE_IN: Final = 6
_LATE_S: Final = (0.2, 2.0)

_second: Final = threading.local()
_context = sink._context


class _SecondAttempt:
    """The context of a task whose attempt has the next number."""

    def __init__(self, first: TaskContext) -> None:
        self._first: Final = first

    def attemptNumber(self) -> int:
        return self._first.attemptNumber() + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)


def context_of_attempt() -> Any:
    return getattr(_second, "context", None) or _context()


class SpeculatedRowWriter(RowWriter):
    def prepare(self, batches: Iterable[pa.RecordBatch], batch: Batch) -> Written:
        rows, context = list(batches), _context()
        put_in_place(sink, "_context", context_of_attempt)
        chance = random.randrange(2 * _ONE_IN)
        if chance == 0:
            self._attempt_again(rows, batch, context)
        written = super().prepare(rows, batch)
        if chance == 1:
            threading.Thread(target=self._attempt_late, args=[rows, batch, context], daemon=True).start()
        return written

    def _attempt_late(self, rows: Sequence[pa.RecordBatch], batch: Batch, context: TaskContext) -> None:
        time.sleep(random.uniform(*_LATE_S))
        with contextlib.suppress(ottla.OttlaError):  # it may be fenced by then, and nothing waits for it
            self._attempt_again(rows, batch, context)

    def _attempt_again(self, rows: Sequence[pa.RecordBatch], batch: Batch, context: TaskContext) -> None:
        with open(os.environ[ATTEMPTS], "a", encoding="utf-8") as lines:
            lines.write(f"{batch.number}\n")
        _second.context = _SecondAttempt(context)
        try:
            super().prepare(rows, batch)
        finally:
            del _second.context


class SpeculatedDataSource(OttlaDataSource):
    """`format("speculated")`."""

    row_writer: type[RowWriter] = SpeculatedRowWriter

    @classmethod
    def name(cls) -> str:
        return "speculated"

    def streamWriter(self, schema: StructType, overwrite: bool) -> OttlaStreamWriter:
        return OttlaStreamWriter(self.row_writer(write_options(self.options, streaming=True), schema))


def by_number(last: Decision | None, batch: Batch, content: Content, *, compare: bool = True) -> bool:
    return last is not None and last.batch.number >= batch.number


class TrustingRowWriter(RowWriter):
    """Recognizes a micro-batch by its number alone, and doesn't compare its content."""

    def transactions(self, batch: Batch) -> QueryTransactions:
        put_in_place(query_transactions, "is_decided", by_number)
        return super().transactions(batch)


class TrustingDataSource(SpeculatedDataSource):
    """`format("trusting")`."""

    row_writer = TrustingRowWriter

    @classmethod
    def name(cls) -> str:
        return "trusting"
