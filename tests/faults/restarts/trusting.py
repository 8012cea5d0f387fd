"""The connector with one rule broken: a micro-batch is known by its number alone (P5)."""

from __future__ import annotations

from pyspark.sql.types import StructType
from tests.faults.put_in_place import put_in_place

from pyspark_ottla import query_transactions
from pyspark_ottla.machines.decisions import Batch, Content, Decision
from pyspark_ottla.options import write_options
from pyspark_ottla.query_transactions import QueryTransactions
from pyspark_ottla.sink import OttlaStreamWriter, RowWriter
from pyspark_ottla.source import OttlaDataSource


def by_number(last: Decision | None, batch: Batch, content: Content, *, compare: bool = True) -> bool:
    return last is not None and last.batch.number >= batch.number


class TrustingRowWriter(RowWriter):
    def transactions(self, batch: Batch) -> QueryTransactions:
        put_in_place(query_transactions, "is_decided", by_number)
        return super().transactions(batch)


class TrustingDataSource(OttlaDataSource):
    """`format("trusting")`."""

    @classmethod
    def name(cls) -> str:
        return "trusting"

    def streamWriter(self, schema: StructType, overwrite: bool) -> OttlaStreamWriter:
        return OttlaStreamWriter(TrustingRowWriter(write_options(self.options, streaming=True), schema))
