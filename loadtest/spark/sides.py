"""The two ways from Spark to one ottla cluster, which the same queries take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ottla_stack.running import RunningStack

PARTITIONS: Final = 4


@dataclass(frozen=True, slots=True)
class Side:
    """A format, and where its clients connect. Everything else is left to its defaults."""

    name: str
    bootstrap: str

    def read(self, session: SparkSession, topic: str) -> DataFrame:
        """Every record that there is."""
        return session.read.format(self.name).options(**self._options(subscribe=topic)).load()

    def write(self, rows: DataFrame, topic: str) -> None:
        rows.write.format(self.name).options(**self._options(topic=topic)).mode("append").save()

    def follow(self, session: SparkSession, topic: str, checkpoint: Path) -> StreamingQuery:
        """A stream of whatever comes from now on, a batch right after another, which goes nowhere."""
        stream = session.readStream.format(self.name).options(**self._options(subscribe=topic)).load()
        return _started(stream.writeStream.format("noop"), checkpoint)

    def send(self, rows: DataFrame, topic: str, checkpoint: Path, **options: str) -> StreamingQuery:
        """A stream into a topic, a batch right after another."""
        return _started(rows.writeStream.format(self.name).options(**self._options(topic=topic, **options)), checkpoint)

    def _options(self, **options: Any) -> dict[str, Any]:
        return {"kafka.bootstrap.servers": self.bootstrap, **options}


def _started(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    return writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="0 seconds").start()


def both_sides(stack: RunningStack) -> tuple[Side, Side]:
    return Side("ottla", stack.bootstrap), Side("kafka", stack.bootstrap)
