"""The code that the jobs share: their arguments, a session, a stream's end, and what a failure looks like from outside.

A job is a script with `parser()` and `run(spark, options)`, which returns what is printed as the last line, as JSON. It
runs by itself (`python spark/jobs/lake.py …`: Spark on this machine) and under `spark-submit --py-files
spark/jobs/job.py`, which then says where, and with how much memory.

| exit | |
|---|---|
| 0 | done |
| 1 | it failed |
| 2 | the command was not understood |
| 3 | the audit found records missing or repeated |
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any, Final, TypeVar

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import ottla
from ottla.connect import load_profile
from ottla.errors import OttlaError

T = TypeVar("T")

FAILED: Final = 1
FOUND: Final = 3

_BOOTSTRAP: Final = "kafka.bootstrap.servers"
_POLL_S: Final = 0.5
_PATIENCE_S: Final = 30.0
_NO_PYTHON: Final = "Python worker failed to connect back"
"""Spark gives each Python process that it starts ten seconds to connect, and no setting changes that."""
_START_PATIENCE_S: Final = 300.0
"""How long a busy machine may need until a Python process connects in time."""
_LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.master": "local[*]",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings for Spark on this machine alone. Under spark-submit its own settings hold."""

_ALWAYS: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # other readers of Parquet expect this
    "spark.sql.session.timeZone": "UTC",
}


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser of the arguments that every job has. `about` is the job's docstring."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument(
        "--bootstrap",
        help="addresses of brokers, separated by commas (OTTLA_BOOTSTRAP, or else localhost:9092)",
    )
    found.add_argument(
        "--profile",
        metavar="NAME",
        help="a profile with the cluster's addresses, login and TLS (OTTLA_PROFILE, unless --bootstrap is set)",
    )
    found.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark; repeatable"
    )
    return found


def add_stream(found: argparse.ArgumentParser) -> None:
    """Add the arguments of a job that runs as a stream."""
    found.add_argument("--available-now", action="store_true", help="read the records that exist now, and exit")
    found.add_argument(
        "--every", default="1 second", metavar="DURATION", help="time between micro-batches (%(default)s)"
    )
    found.add_argument(
        "--max-records", type=_positive, metavar="N", help="the maximum number of records in a micro-batch"
    )
    found.add_argument(
        "--group", help="commit processed offsets to this group, so that `ottla group show` shows the lag"
    )
    found.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="where the job keeps its progress; one for each output (_checkpoint in its directory)",
    )


def main(about: argparse.ArgumentParser, run: Callable[[SparkSession, Any], Mapping[str, Any]]) -> int:
    """Run a job as a command. What `run` returns is printed as JSON. Its "exit", if there is one, is the exit code."""
    options = about.parse_args()
    for setting in options.conf:
        if "=" not in setting:
            about.error(f"--conf {setting} is not of the form NAME=VALUE, such as spark.sql.shuffle.partitions=8")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs what a failed query has raised already
    name = os.path.basename(sys.argv[0]).removesuffix(".py")
    try:
        spark = session(name, dict(setting.split("=", 1) for setting in options.conf))
        try:
            report = dict(_until_python_starts(name, lambda: run(spark, options), _is_of_no_stream))
        finally:
            spark.stop()
    except (PySparkException, OttlaError, OSError, ValueError) as error:
        print(f"{name}: {message_of(error)}", file=sys.stderr)
        return FAILED
    exit_code = report.pop("exit", 0)
    print(json.dumps(report), flush=True)
    return int(exit_code)


def session(name: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a session of Spark on this machine, or where spark-submit has put this process."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise the workers are whatever `python3` is on PATH
    builder = SparkSession.builder.appName(name)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    for key, value in {**({} if submitted else _LOCAL), **_ALWAYS, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def access(options: argparse.Namespace) -> dict[str, str]:
    """Return the options of readers and writers that say how to reach the cluster."""
    found = {} if options.bootstrap is None else {_BOOTSTRAP: options.bootstrap}
    # An address in the command is a reason not to use the profile of the environment: its password would go there.
    profile = options.profile or (None if found else os.environ.get("OTTLA_PROFILE"))
    if profile:
        return {**found, "profile": profile}
    return found or {_BOOTSTRAP: os.environ.get("OTTLA_BOOTSTRAP", "localhost:9092")}


def admin(options: argparse.Namespace) -> ottla.Admin:
    """Return a client of the same cluster. Raises ConfigError if the profile can't be used."""
    found = access(options)
    config = load_profile(found["profile"]).config() if "profile" in found else {}
    of_profile = config.pop("bootstrap.servers", None)
    return ottla.Admin(found.get(_BOOTSTRAP) or of_profile, config=config)


def read_topics(spark: SparkSession, options: argparse.Namespace, topics: str, **more: str) -> DataFrame:
    """Return topics, separated by commas, as a table."""
    reader = spark.read.format("ottla").options(**access(options))
    return reader.option("subscribe", topics).options(**more).load()


def read_stream(spark: SparkSession, options: argparse.Namespace, topics: str, **more: str) -> DataFrame:
    """Return topics from their beginning, separated by commas, as a stream for a job with `add_stream`."""
    reader = spark.readStream.format("ottla").options(**access(options))
    reader = reader.option("subscribe", topics).option("startingOffsets", "earliest").options(**more)
    if options.max_records:
        reader = reader.option("maxOffsetsPerTrigger", options.max_records)
    if options.group:
        reader = reader.option("commitOffsets", options.group)
    return reader.load()


def write_topic(rows: DataFrame, options: argparse.Namespace, topic: str, **more: str) -> None:
    """Send rows to a topic, each at least once, unless `more` is what `once` returns."""
    sink = rows.write.format("ottla").mode("append").options(**access(options))
    sink.option("topic", topic).options(**more).save()


def once(spark: SparkSession, batch_id: int) -> dict[str, str]:
    """Return the options with which `foreachBatch` writes each row once, however often a micro-batch is done."""
    return {"delivery": "exactly_once", "txnAppId": query_of(spark), "txnVersion": str(batch_id)}


def query_of(spark: SparkSession) -> str:
    """Return the id of the query whose micro-batch is under way. It stays with the checkpoint."""
    query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query is not None, "called by foreachBatch"
    return query


def run_stream(writer: DataStreamWriter, options: argparse.Namespace, directory: str) -> StreamingQuery:
    """Run a query until it ends (--available-now) or SIGTERM or Ctrl-C ends it. Raises the error that made it fail.

    A query that ends because Spark could not start Python is started again from its checkpoint.
    """
    stop = Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    trigger: dict[str, Any] = {"availableNow": True} if options.available_now else {"processingTime": options.every}
    writer = writer.option("checkpointLocation", options.checkpoint or checkpoint_of(directory)).trigger(**trigger)
    try:
        return _until_python_starts("the query", lambda: _await_end(writer.start(), stop), lambda _: not stop.is_set())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _until_python_starts(what: str, run: Callable[[], T], is_retried: Callable[[PySparkException], bool]) -> T:
    """Call `run` again while it fails because Spark could not start Python in time, for up to five minutes in a row.

    Nothing is lost by that: a query continues from its checkpoint, and each job may be run again after a failure.
    """
    failing_since = time.monotonic()
    while True:
        began_at = time.monotonic()
        try:
            return run()
        except PySparkException as error:
            now = time.monotonic()
            if now - began_at > _START_PATIENCE_S:
                failing_since = now
            if _NO_PYTHON not in str(error) or not is_retried(error) or now - failing_since > _START_PATIENCE_S:
                raise
            print(
                f"Spark started a Python process that did not connect within ten seconds, so {what} starts again. "
                "Either the machine is busy, or PYSPARK_PYTHON names a Python without pyspark.",
                file=sys.stderr,
                flush=True,
            )


def _is_of_no_stream(error: PySparkException) -> bool:
    """Return whether `run_stream` has not tried again already."""
    return not isinstance(error, StreamingQueryException)


def _await_end(query: StreamingQuery, stop: Event) -> StreamingQuery:
    while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # it takes fractions, too
        if stop.is_set():
            _stop(query)
    return query


def _stop(query: StreamingQuery) -> None:
    """Stop between two micro-batches, if one ends in time. A micro-batch that is cut short is done again at the next
    start."""
    give_up_at = time.monotonic() + _PATIENCE_S
    while query.status["isTriggerActive"] and query.isActive and time.monotonic() < give_up_at:
        time.sleep(_POLL_S / 10)
    query.stop()


def checkpoint_of(directory: str) -> str:
    """Return where a job that writes to `directory` keeps its checkpoint. Readers of Parquet there skip such names."""
    return f"{directory.rstrip('/')}/_checkpoint"


def message_of(error: Exception) -> str:
    """Return the one sentence of a failure that concerns the user: the innermost of those that Spark has wrapped."""
    text = str(error)
    wrapped = re.findall(r"^[\w.]+(?:Error|Exception): (.+)$", text, re.MULTILINE)
    return str(wrapped[-1] if wrapped else text.strip().split("\n")[0])


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
