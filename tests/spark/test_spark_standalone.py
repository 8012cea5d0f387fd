"""A real cluster: the driver, a master and two workers are processes of their own, and executors run the tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.jvm import SHORT_LIVED
from peers.spark.standalone import StandaloneCluster
from waiting import SPARK_LIMIT_S

import ottla
from ottla.testing import Cluster

REPLAY = Path(__file__).parents[2] / "spark" / "jobs" / "replay.py"
PARTITIONS = 4
RECORDS = 4_000


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """Two of one core each."""
    with StandaloneCluster(tmp_path / "spark", workers=2) as running:
        yield running


def test_executors_read_a_topic_and_write_it_to_another(cluster: Cluster, workers: StandaloneCluster) -> None:
    with ottla.Admin(cluster.bootstrap) as admin:
        for name in ("standalone", "standalone-copy"):
            admin.topics.create(name, partitions=PARTITIONS)
    with ottla.Producer(cluster.bootstrap, topic="standalone", key="str", value="str") as producer:
        for number in range(RECORDS):
            producer.send(str(number), key=str(number % 7), partition=number % PARTITIONS)
    command = [
        sys.executable,
        str(REPLAY),
        "--bootstrap",
        cluster.bootstrap,
        "--conf",
        f"spark.master={workers.master}",
    ]
    command += ["--conf", f"spark.executor.extraJavaOptions={' '.join(SHORT_LIVED)}"]
    command += ["--topic", "standalone", "--to-topic", "standalone-copy", "--keep-partitions"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SPARK_LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"records": RECORDS}
    with ottla.Consumer(
        "standalone-copy", bootstrap=cluster.bootstrap, start="earliest", stop="end", key="str", value="str"
    ) as consumer:
        copied = [(record.partition, record.offset, record.key, record.value) for record in consumer]
    assert sorted(copied) == sorted(
        (number % PARTITIONS, number // PARTITIONS, str(number % 7), str(number)) for number in range(RECORDS)
    )
    ran = [workers.applications(number) for number in range(2)]
    assert ran[0] == ran[1], "one application, with an executor on either worker"
    assert len(ran[0]) == 1
