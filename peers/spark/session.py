"""A Spark on this machine, in one JVM, with its own Kafka source and sink: `format("kafka")`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from peers.spark import jars

_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def spark(cores: int = 2, settings: Mapping[str, Any] | None = None) -> Iterator[SparkSession]:
    """A session that runs so many tasks at once. One at a time: a process has one JVM, which outlives the session, and
    memory and class path are those of the first. Raises PeerError where there are no jars.
    """
    # Or else the workers are the `python3` on PATH, which has no pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.driver.extraClassPath", jars.classpath())
    for name, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def jvm_pid(session: SparkSession) -> int:
    """Return the id of the process that runs everything except Python; Python workers are its children."""
    jvm = session.sparkContext._jvm
    assert jvm is not None, "the session runs"
    return int(jvm.java.lang.ProcessHandle.current().pid())
