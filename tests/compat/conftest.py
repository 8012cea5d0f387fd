"""The cluster of the matrix, and the client of a cell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.client import Client
from tests.compat.cells import (
    CONNECT,
    DELTA,
    DIFFERS,
    JUDGES_OF_GROUPS,
    LOGS,
    MM2,
    SPARK,
    STREAMS,
    TOOLS,
    VARIABLE,
    chosen,
    opened,
)
from tests.compat.secured import is_secured
from tests.compat.topics import Topics

from ottla_stack.cluster import Cluster

_OF_PROGRAMS = {
    TOOLS: ["test_kafka_tools.py", "test_kafka_group_tools.py", "test_kafka_transaction_tools.py"],
    SPARK: ["test_spark.py", "test_spark_judges.py"],
    LOGS: ["test_logs.py"],
    CONNECT: ["test_connect.py"],
    STREAMS: ["test_streams.py"],
    DELTA: ["test_delta.py"],
    DIFFERS: [
        "test_acls_with_kafka.py",
        "test_admin_at_kafka.py",
        "test_any_kafka.py",
        "test_cli_logins_with_kafka.py",
        "test_mirror_logins_with_kafka.py",
        "test_differential.py",
        "test_sdk_kafka_failover.py",
        "test_sdk_logins_with_kafka.py",
        "test_sdk_transactions_with_kafka.py",
        "test_sdk_with_kafka.py",
        "test_spark_logins_with_kafka.py",
    ],
    JUDGES_OF_GROUPS: ["test_group_judges.py"],
    MM2: ["test_mirror_maker.py", "test_mirror_maker_flows.py", "test_mirror_client.py", "test_mirror_with_kafka.py"],
}
collect_ignore = [name for program, names in _OF_PROGRAMS.items() if not program.is_chosen for name in names]
if is_secured():
    collect_ignore += [path.name for path in Path(__file__).parent.glob("test_*with_kafka.py")]
if is_secured() or VARIABLE not in os.environ:
    collect_ignore.append("test_consumer_groups.py")  # it has an Apache Kafka beside ottla
if not any(listed.name == "java" for listed in chosen()):
    collect_ignore.append("test_judges.py")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cell(capability, client): counts in the compatibility matrix")


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with Cluster(txn_coordinators=1) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def topics(cluster: Cluster) -> Iterator[Topics]:
    with Topics(cluster.bootstrap) as topics:
        yield topics


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.create()


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Client:
    return opened(request.param)
