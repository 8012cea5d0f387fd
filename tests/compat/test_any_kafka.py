"""The two programs that say they run with every Kafka print the same lines, whichever cluster they are given."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from peers.kafka import jars
from peers.kafka.server import KafkaServer
from tests.compat.cells import DIFFERS
from waiting import SPARK_LIMIT_S

import ottla
from ottla.testing import Cluster

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
OTTLA: Final = "ottla"
CLUSTERS: Final = (OTTLA, jars.VERSION, *jars.OLDER)


@contextmanager
def started(cluster: str, folder: Path) -> Iterator[str]:
    """Start a cluster of ottla, or of that version of Apache Kafka, and yield its addresses."""
    if cluster == OTTLA:
        with Cluster(group_coordinators=1, txn_coordinators=1) as ours:
            yield ours.bootstrap
    else:
        with KafkaServer(folder / "kafka", version=cluster, heap="512m") as kafka:
            yield kafka.bootstrap


def printed(name: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=SPARK_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout.splitlines()


@DIFFERS.cell
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_program_and_a_spark_job_run_unchanged_with_every_kafka(cluster: str, tmp_path: Path) -> None:
    with started(cluster, tmp_path) as bootstrap:
        assert printed("any_kafka.py", bootstrap) == ["ada 20", "grace 40", "not booked: 0"]
        with ottla.Admin(bootstrap) as admin:
            admin.topics.create("cents", partitions=2)
        job = (bootstrap, "payments", "cents", str(tmp_path / "checkpoint"))
        assert printed("any_kafka_spark.py", *job) == ["ada 2000", "grace 4000"]
        assert printed("any_kafka.py", bootstrap) == ["ada 40", "grace 80", "not booked: 0"]
        assert printed("any_kafka_spark.py", *job) == ["ada 4000", "grace 8000"]
