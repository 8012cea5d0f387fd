"""The data source gives Spark a schema, a reader or a writer.

Spark asks in a process of its own each time, several times per micro-batch. So a process imports only what it needs,
which saves a tenth of a second each time.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.errors import config_error
from pyspark_ottla.options import read_options, wants_headers, write_options

if TYPE_CHECKING:
    from pyspark_ottla.sink import OttlaBatchWriter, OttlaStreamWriter
    from pyspark_ottla.stream_reader import OttlaStreamReader

COLUMNS: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
COLUMNS_WITH_HEADERS: Final = StructType([*COLUMNS.fields, StructField("headers", ArrayType(_HEADER))])


class OttlaDataSource(DataSource):
    """`format("ottla")`. Spark pickles it, and makes a reader or writer in whichever process needs one."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        """Return the name that is passed to `format`."""
        return "ottla"

    def schema(self) -> StructType:
        """Return the columns of Spark's own Kafka source, in its order, with the headers if includeHeaders is set."""
        return COLUMNS_WITH_HEADERS if wants_headers(self.options) else COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`. Raises ConfigError."""
        from pyspark_ottla.batch_reader import OttlaBatchReader, pushes_filters
        from pyspark_ottla.filters import FilteringBatchReader

        self._check(schema)
        make = FilteringBatchReader if pushes_filters() else OttlaBatchReader
        return make(read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> OttlaStreamReader:
        """Return the reader for `spark.readStream`. Raises ConfigError."""
        from pyspark_ottla.stream_reader import OttlaStreamReader

        self._check(schema)
        return OttlaStreamReader(read_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> OttlaBatchWriter:
        """Return the writer for `df.write`. Raises ConfigError."""
        from pyspark_ottla.sink import OttlaBatchWriter, RowWriter

        if overwrite:
            raise config_error(
                "mode overwrite is not supported: rows can only be appended to a topic",
                hint="use mode('append'), or delete the topic first",
            )
        return OttlaBatchWriter(RowWriter(write_options(self.options), schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> OttlaStreamWriter:
        """Return the writer for `df.writeStream`. The rows of every output mode are appended. Raises ConfigError."""
        from pyspark_ottla.sink import OttlaStreamWriter, RowWriter

        return OttlaStreamWriter(RowWriter(write_options(self.options, streaming=True), schema))

    def _check(self, schema: StructType) -> None:
        if schema != self.schema():
            raise config_error(
                f"schema({schema.simpleString()}) is not supported: the columns are fixed",
                hint="leave schema() out, and cast or decode key and value in the query",
            )
