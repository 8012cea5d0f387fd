"""`make scaling`: one job on a standalone Spark cluster of one worker, then of two, a core each: docs/use/scaling.md.

Brokers, driver and workers share this machine's cores, so two workers are not twice one on a small machine. What
carries over to a larger one is CPU time: it is measured apart for brokers, executors' JVMs and Python workers.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from peers.spark.standalone import StandaloneCluster
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.table import Table

import ottla
from loadtest.compare import short
from loadtest.programs import run
from loadtest.spark.cluster_cpu import CpuMeter, CpuSeconds
from loadtest.spark.processes import WorkerMemory
from loadtest.spark.rates import SIZE, fill, records_of
from loadtest.spark.sides import PARTITIONS, Side
from ottla_stack.running import RunningStack, wait_for

TOPIC: Final = "scaling"
ONE: Final = "scaling-one"
"""As many records in one partition."""
_CORES: Final = (1, 2)
_FINELY_CUT: Final = 40
"""Tasks, where `maxRecordsPerPartition` makes many of a few partitions."""
_WIDE: Final = 200
_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "768m",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass
class Row:
    """A job on so many cores, its runs together."""

    name: str
    cores: int
    records: int = 0
    """In each run."""
    tasks: int = 0
    seconds: list[float] = field(default_factory=list)
    """The wall-clock time of each run."""
    cpu: CpuSeconds = field(default_factory=CpuSeconds)
    """The CPU of all runs."""

    @property
    def records_s(self) -> float:
        return self.records / statistics.median(self.seconds)

    @property
    def per_million(self) -> CpuSeconds:
        return self.cpu.scaled(1e6 / (self.records * len(self.seconds)))

    @property
    def records_per_core_s(self) -> float:
        """What a core gives that an executor has for itself."""
        return 1e6 / self.per_million.executors

    @property
    def cores_per_broker(self) -> float:
        """The executors' cores that make a broker's one core busy."""
        return self.per_million.executors / self.per_million.broker

    def report(self) -> dict[str, Any]:
        """For the last line."""
        return {
            "cores": self.cores,
            "tasks": self.tasks,
            "records_s": round(self.records_s),
            "records_per_core_s": round(self.records_per_core_s),
            "cores_per_broker": round(self.cores_per_broker, 1),
            "cpu_s_per_million": {name: round(cpu, 2) for name, cpu in asdict(self.per_million).items()},
        }


class Scaling:
    """All rows, on one ottla cluster whose topic is full."""

    def __init__(self, stack: RunningStack, directory: Path, records: int, runs: int) -> None:
        self.rows: Final[list[Row]] = []
        self.python_mb = 0.0
        """The peak memory of one executor's Python processes during a read."""
        self._stack, self._directory, self._runs = stack, directory, runs
        self._side: Final = Side("ottla", stack.bootstrap)
        self._records: Final = records
        fill(self._side, TOPIC, records)
        with ottla.Admin(stack.bootstrap) as admin:
            admin.topics.create(ONE, partitions=1)
        run("rows.produce", stack.bootstrap, "--topic", ONE, "--records", str(records - 1), "--size", str(SIZE))

    def run(self, cores: int) -> None:
        """Every row on that many workers. Raises ValueError where a job does not read or write everything."""
        name = f"spark-{cores}"
        with StandaloneCluster(self._directory / name, workers=cores) as cluster, session(cluster, cores) as spark:
            measure = partial(self._measure, CpuMeter(self._stack, cluster, spark), cores)
            read = partial(self._read, spark)
            with WorkerMemory(cluster.executors()[0]) as memory:
                read(TOPIC)
            self.python_mb = max(self.python_mb, memory.all_mb)
            measure("read", partial(read, TOPIC))
            measure("copy", partial(self._copy, spark))
            if cores == 1:
                return
            measure("read, one partition", partial(read, ONE))
            measure("… minPartitions=2", partial(read, ONE, minPartitions=2))
            most = -(-self._records // _FINELY_CUT)
            measure(f"read, maxRecordsPerPartition={most}", partial(read, TOPIC, maxRecordsPerPartition=most))

    def tell(self, console: Console) -> None:
        """The table."""
        table = Table("job", "cores", "tasks", "records/s", "… a core", *_CPU, title=_TITLE)
        for row in self.rows:
            cpu = [f"{each:.2f}" for each in asdict(row.per_million).values()]
            rates = short(row.records_s), short(row.records_per_core_s)
            table.add_row(row.name, str(row.cores), str(row.tasks), *rates, *cpu)
        console.print(table)

    def _measure(self, meter: CpuMeter, cores: int, name: str, job: Callable[[], int]) -> None:
        """`job` returns how many tasks it had. It runs once more before, while the JVMs still compile."""
        job()
        row = Row(name, cores, self._records)
        for _ in range(self._runs):
            cpu, began = meter.read(), time.monotonic()
            row.tasks = job()
            row.seconds.append(time.monotonic() - began)
            row.cpu += meter.read() + cpu.scaled(-1)
        self.rows.append(row)

    def _read(self, spark: SparkSession, topic: str, **options: Any) -> int:
        """Every column of every record goes through an aggregate."""
        sized = f.sum(f.length("value") + f.coalesce(f.length("key"), f.lit(0)))
        rows = self._rows(spark, topic, **options)
        found = rows.groupBy(f.spark_partition_id()).agg(f.count("*").alias("records"), sized).collect()
        if (count := sum(row.records for row in found)) != self._records:
            raise ValueError(f"{count} records were read of {self._records}")
        return len(found)

    def _copy(self, spark: SparkSession) -> int:
        """Into a topic of its own, which goes afterwards."""
        topic = f"{TOPIC}-copy-{time.monotonic_ns()}"
        with ottla.Admin(self._side.bootstrap) as admin:
            admin.topics.create(topic, partitions=PARTITIONS)
            spark.sparkContext.setJobGroup(topic, "copy")
            try:
                self._side.write(self._rows(spark, TOPIC).select("key", "value"), topic)
                if (written := records_of(self._side, topic)) != self._records:
                    raise ValueError(f"{written} records were written of {self._records}")
            finally:
                admin.topics.delete(topic)
        return tasks_of(spark, topic)

    def _rows(self, spark: SparkSession, topic: str, **options: Any) -> DataFrame:
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", self._side.bootstrap)
        return reader.option("subscribe", topic).options(**options).load()


_CPU: Final = ("broker", "JVM", "Python", "driver", "daemons")
_TITLE: Final = "a job on a standalone cluster; on the right CPU s per million records"


def tasks_of(spark: SparkSession, group: str) -> int:
    """Return the number of tasks in all jobs of this group."""
    tracker = spark.sparkContext.statusTracker()
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    stages = filter(None, (tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds))
    return sum(stage.numTasks for stage in stages)


@contextmanager
def session(cluster: StandaloneCluster, executors: int) -> Iterator[SparkSession]:
    """Once that many executors run. One at a time: a process has one JVM, which outlives the session."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # or else the workers are whatever `python3` is on PATH
    builder = SparkSession.builder.master(cluster.master).appName("scaling")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        context = spark.sparkContext._jsc.sc()
        wait_for(lambda: context.getExecutorMemoryStatus().size() == executors + 1, "the executors and the driver")
        yield spark
    finally:
        spark.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and all that it has started is stopped on the way out
    directory = Path(tempfile.mkdtemp(prefix="ottla-scaling-"))
    try:
        with RunningStack(directory / "ottla", brokers=1) as stack:
            scaling = Scaling(stack, directory, given.records, given.runs)
            for cores in _CORES:
                scaling.run(cores)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    scaling.tell(Console(width=_WIDE, highlight=False))
    print(json.dumps(last_line(scaling, given.records)))
    return 0


def last_line(scaling: Scaling, records: int) -> dict[str, Any]:
    """Every row, and what a second core and another cut have changed."""
    read, copy, read_2, copy_2, whole, halved, finely = scaling.rows
    more_cpu_s = (finely.per_million.executors - read_2.per_million.executors) * finely.records / 1e6
    return {
        "machine_cores": os.cpu_count(),
        "records": records,
        "partitions": PARTITIONS,
        "python_mb": round(scaling.python_mb),
        "read_speedup": round(read_2.records_s / read.records_s, 2),
        "copy_speedup": round(copy_2.records_s / copy.records_s, 2),
        "min_partitions_speedup": round(halved.records_s / whole.records_s, 2),
        "cpu_ms_per_task": round(more_cpu_s * 1e3 / (finely.tasks - read_2.tasks)),
        "rows": [{"job": row.name, **row.report()} for row in scaling.rows],
    }


if __name__ == "__main__":
    sys.exit(main())
