"""A real cluster: the driver, a master and two workers are processes of their own, and executors run the tasks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from peers.jvm import SHORT_LIVED
from peers.spark.standalone import StandaloneCluster
from waiting import LIMIT_S, SPARK_LIMIT_S

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


def test_web_pages_are_on_loopback_and_all_other_ports_are_on_the_given_host(tmp_path: Path) -> None:
    """docker-compose.secure.yml relies on this: SPARK_LOCAL_IP hides the pages, and processes reach each other."""
    with StandaloneCluster(tmp_path / "spark", workers=1, host="127.0.0.2") as running:
        for pid in running.daemons():
            at = listening(pid)
            assert sorted(address for address, _ in at) == ["127.0.0.1", "127.0.0.2"]
            assert {address for address, port in at if has_page(address, port)} == {"127.0.0.1"}
        command = [sys.executable, "-c", SUM, running.master]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
            try:
                assert driver.stdout is not None
                assert driver.stdout.readline() == "4950\n"
                (executor,) = running.executors()
                assert {address for address, _ in listening(executor)} == {"127.0.0.2"}
            finally:
                driver.kill()


SUM = """
import sys
from pyspark.sql import SparkSession
session = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false").getOrCreate()
print(session.sparkContext.parallelize(range(100), 2).sum(), flush=True)
sys.stdin.read()
"""
"""A job that prints its result and goes on."""


def listening(pid: int) -> list[tuple[str, int]]:
    """Return where a process listens."""
    sockets = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    found = [row[1].split(":") for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    return [(socket.inet_ntoa(bytes.fromhex(address[-8:])[::-1]), int(port, 16)) for address, port in found]


def has_page(address: str, port: int) -> bool:
    connection = HTTPConnection(address, port, timeout=LIMIT_S)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == HTTPStatus.OK
    except (ConnectionError, HTTPException):
        return False
    finally:
        connection.close()


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
