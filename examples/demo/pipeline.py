"""What Spark does in the demo: a job that runs as a stream while there is something to read, a lake, and its audit.

The jobs are commands in processes of their own. Their results are compared with those of pandas from the files of the
data set.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from examples.demo import flights, pandas_check
from examples.demo.pandas_check import by_pandas, differences
from examples.demo.planted import plant_in_lake
from examples.demo.plot import plot
from examples.demo.producing import CLOCK, DELAYS, WATERMARK_DAYS
from examples.demo.spark_job import SparkJob

import ottla

GROUP: Final = "delays-job"
_COLUMNS: Final = "carrier STRING, origin STRING, dest STRING, dep_time BIGINT, dep_delay BIGINT"
_A_BATCH: Final = 100_000
"""Records of a micro-batch: these fit into the memory of a small Spark, even if it was behind for a while."""


class Pipeline:
    """The three jobs on one cluster; leaving the block ends what still runs."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap: Final = bootstrap
        self._windows_in: Final = directory / "windows"
        self._lake_in: Final = directory / "lake"
        self._ended: Final = ExitStack()
        self._drivers_killed = 0
        clock = ["--clock", CLOCK, "--watermark", f"{WATERMARK_DAYS} days"]
        where = ["--to-topic", DELAYS, "--to-parquet", self._windows_in, "--group", GROUP, "--exactly-once"]
        self.delays: Final = SparkJob("delays", directory, bootstrap, *clock, *where, "--max-records", _A_BATCH)
        options = ["--topic", flights.TOPIC, "--json", _COLUMNS, "--by", "month"]
        self._lake: Final = SparkJob(
            "lake", directory, bootstrap, *options, "--to", self._lake_in, "--available-now", "--audit"
        )
        self._audit: Final = SparkJob("audit", directory, bootstrap, "--topic", flights.TOPIC, "--lake", self._lake_in)

    def __enter__(self) -> Self:
        """Begin with the first job."""
        self._ended.enter_context(self.delays)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.close()

    def wait_until_running(self) -> None:
        """Wait until the stream has begun: its first micro-batch waits for something to read."""
        begun = self._windows_in / "_checkpoint" / "metadata"
        self.delays.wait_for(begun.exists, "its start")

    def kill_driver(self) -> None:
        """Kill the stream's driver, whatever it does, and start another one; only once."""
        if not self._drivers_killed:
            self._drivers_killed += 1
            self.delays.kill_and_start()

    def wait_until_it_has_read(self, count: int) -> None:
        """Wait until the stream has read that many flights, by the committed offsets of its group."""

        def has_read() -> bool:
            committed = admin.groups.committed(GROUP, if_missing="ok").items()  # nothing before its first micro-batch
            return sum(offset for partition, offset in committed if partition.topic == flights.TOPIC) >= count

        with ottla.Admin(self._bootstrap) as admin:
            self.delays.wait_for(has_read, "the last flight")

    def begin_lake(self) -> None:
        """Begin to write what is in the topic now to the lake."""
        self._ended.enter_context(self._lake)

    def finish(self, count: int, picture: Path | None, *, drop_a_row: bool) -> dict[str, Any]:
        """End the stream and the lake, audit the lake, and compare both with pandas; `drop_a_row` plants a fault."""
        streamed = self.delays.stop()
        audited = self._lake.result()[1]["audit"]
        if drop_a_row:
            plant_in_lake(self._lake_in)
            with self._audit as audit:
                _, audited = audit.result()
        expected = by_pandas(count)
        lake_rows, of_lake = pandas_check.of_lake(self._lake_in)
        windows = pandas_check.of_windows(self._windows_in)
        wrong_hours = differences(of_lake, expected)
        wrong_windows = differences(windows, expected)
        wrong_in_topic = differences(pandas_check.of_topic(self._bootstrap, DELAYS), expected)
        if picture is not None:
            plot(windows, picture)
        return {
            **streamed,
            "windows": len(windows),
            "driver_killed": self._drivers_killed,
            "topic_differs_in": wrong_in_topic,
            "topic_equals_pandas": not wrong_in_topic,
            "lake_rows": lake_rows,
            "lake_missing": audited["missing"],
            "lake_repeated": audited["repeated"],
            "lake_differs_in": wrong_hours,
            "lake_equals_pandas": not wrong_hours,
            "windows_differ_in": wrong_windows,
            "windows_equal_pandas": not wrong_windows,
            "plot": None if picture is None else str(picture),
        }
