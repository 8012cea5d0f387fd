"""One Spark session for all tests of the connector: its start takes as long as many of them together.

Stages of two tasks, no interface, and no progress bars: what a test prints is its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ottla
from ottla.testing import Cluster

HERE = Path(__file__).parent
TIMEOUT_S = 1200
"""For a test: on a machine that does ten other things a JVM's first query takes minutes. Spark, for its part, gives a
Python process ten seconds to start, which no setting changes: what fails by that is run again."""


_TOPICS_BEFORE = pytest.StashKey[set[str]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            item.add_marker(pytest.mark.flaky(reruns=5, only_rerun="Python worker failed to connect back"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.authenticate.socketTimeout", "120s")  # of a worker that has to start on a busy machine
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """It lives for longer than `log.retention.check.interval`, and much of what is sent to it is of years ago."""
    with Cluster(group_coordinators=1, txn_coordinators=1) as running:
        with ottla.Admin(running.bootstrap) as admin:
            admin.configs.set({"log.retention.ms": -1})
        yield running


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(cluster.bootstrap) as admin:
        yield admin


@pytest.fixture(autouse=True)
def nothing_of_the_try_before(request: pytest.FixtureRequest) -> None:
    """Where a test is run again, the topics are deleted that it created the last time."""
    if "cluster" not in request.fixturenames:
        return
    with ottla.Admin(request.getfixturevalue("cluster").bootstrap) as admin:
        topics = set(admin.topics.list())
        before = request.node.stash.setdefault(_TOPICS_BEFORE, topics)
        if topics - before:
            admin.topics.delete(*(topics - before))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[[str], str]:
    """A directory for the checkpoint of that name."""
    return lambda name="checkpoint": str(tmp_path / name)
