"""Streaming queries of one of Spark's sources, Kafka's or ours, each from start to end, and its checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from peers.security import java
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.compat.judges.side import Raised

_LOST: Final = ("failOnDataLoss", "may have been lost")
"""Words by which the data-loss errors of both sources are recognized."""

Row = tuple[int, int, str]


class SparkSide:
    """The queries of one source have their checkpoints in `folder`."""

    def __init__(
        self, session: SparkSession, source: Literal["kafka", "ottla"], bootstrap: str, topic: str, folder: Path
    ) -> None:
        self._session: Final = session
        self._source: Final = source
        # Ours takes no password as an option, and gets it as every client of the SDK.
        secured = java("kafka.") if source == "kafka" else {}
        self._servers: Final = {"kafka.bootstrap.servers": bootstrap, **secured}
        self._topic: Final = topic
        self._folder: Final = folder / source

    def call(self, who: str, what: str, **arguments: Any) -> Any:
        try:
            return getattr(self, f"_{what}")(self._folder / who, **arguments)
        except PySparkException as error:
            return Raised("data lost" if any(word in str(error) for word in _LOST) else "another error")

    def close(self) -> None:
        """Every query has ended."""

    def _run(self, checkpoint: Path, **options: Any) -> dict[str, Any]:
        """Read what there is, and end. Return the end offsets and the rows of each micro-batch."""
        rows: dict[int, list[Row]] = {}

        def take(batch: DataFrame, number: int) -> None:
            rows[number] = _rows(batch)

        stream = self._session.readStream.format(self._source).options(**self._options(options)).load()
        sink = stream.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
        query = sink.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            return {**self._batches(query.recentProgress, rows), "raises": _kind(error)}
        return self._batches(query.recentProgress, rows)

    def _table(self, _: Path, **options: Any) -> list[Row]:
        """Read what there is, as a table."""
        return _rows(self._session.read.format(self._source).options(**self._options(options)).load())

    def _save(self, checkpoint: Path) -> None:
        """Keep the checkpoint as it is now."""
        shutil.copytree(checkpoint, checkpoint.with_suffix(".saved"))

    def _restore(self, checkpoint: Path) -> None:
        """Have the checkpoint as it was when it was saved."""
        shutil.rmtree(checkpoint)
        shutil.copytree(checkpoint.with_suffix(".saved"), checkpoint)

    def _forget_last_commit(self, checkpoint: Path) -> None:
        """Leave the checkpoint as if the driver had died in its last micro-batch: planned, and not committed."""
        last = max(
            (path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
        )
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def _options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options of the source. An option that maps partitions to offsets gets the topic's name."""
        by_topic = {
            name: json.dumps({self._topic: value}) if isinstance(value, dict) else value
            for name, value in options.items()
        }
        return {**self._servers, "subscribe": self._topic, **by_topic}

    def _batches(self, progress: list[Any], rows: Mapping[int, list[Row]]) -> dict[str, Any]:
        ends = {each.batchId: _ends(each.sources[0].endOffset, self._topic) for each in progress}
        return {f"batch {n}": {"to": ends.get(n), "rows": rows[n]} for n in sorted(rows)}


def _rows(frame: DataFrame) -> list[Row]:
    """By partition, in the order of its records."""
    found = frame.selectExpr("partition", "offset", "cast(value as string) as value").collect()
    return sorted((row.partition, row.offset, row.value) for row in found)


def _ends(offsets: str, topic: str) -> list[int]:
    """Return the offsets in the order of partitions; ours have the topic's id beside them."""
    return [at for number, at in sorted(json.loads(offsets)[topic].items()) if number.isdigit()]


def _kind(error: StreamingQueryException) -> str:
    return "data lost" if any(word in str(error) for word in _LOST) else "another error"
