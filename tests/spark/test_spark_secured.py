"""`format("ottla")` at an ottla cluster that requires a login and TLS, with the password in a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from cluster_security import PASSWORD
from secured_cluster import secured_cluster
from waiting import SPARK_LIMIT_S

import ottla

JOB = Path(__file__).parents[1] / "compat/secured_job.py"
PARTITIONS = 2
RECORDS = 200
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.redaction.regex": "(?!)",  # so that Spark hides nothing from this test
}


def test_a_stream_and_a_batch_read_and_write_a_secured_cluster(tmp_path: Path) -> None:
    with secured_cluster(tmp_path / "cluster", txn_coordinators=1) as (cluster, security):
        client = security.arguments(cluster.bootstrap)
        with ottla.Admin(**client) as admin:
            for topic in ("rows", "copy"):
                admin.topics.create(topic, partitions=PARTITIONS)
        with ottla.Producer(topic="rows", **client) as producer:
            for n in range(RECORDS):
                producer.send(f"v{n}", partition=n % PARTITIONS)
        reach = {f"kafka.{name}": value for name, value in security.with_a_file(cluster.bootstrap).items()}
        arguments = {
            "source": {**reach, "subscribe": "rows"},
            "sink": {**reach, "topic": "copy"},
            "settings": SETTINGS,
            "checkpoint": str(tmp_path / "checkpoint"),
        }
        done = subprocess.run(
            [sys.executable, str(JOB), json.dumps(arguments)],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=SPARK_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-5000:]
        assert done.stdout.splitlines()[-1] == str(RECORDS)
        copied = sorted(str(record.value) for record in ottla.read("copy", start="earliest", **client))
    assert copied == sorted(2 * [f"v{n}" for n in range(RECORDS)]), "by the stream, and by the batch"
    assert PASSWORD not in done.stdout + done.stderr
