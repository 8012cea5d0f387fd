"""Fixtures for tests of applications. pytest finds them by itself once ottla is installed; they need `ottla[server]`.

`ottla_cluster` is one cluster for the whole run, in this process. Each test has a topic of its own, so tests don't
meet. Nothing is imported before a test needs it.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from ottla import Admin, Consumer, Producer
    from ottla_stack.cluster import Cluster

_numbers = itertools.count(1)

_LIVE_LIMIT_S: Final = 60.0
_PAUSE_S: Final = 0.1


def create_when_brokers_live(admin: Admin, name: str) -> None:
    """Create a topic once a broker has a lease. On a busy machine the lease may lapse, and the broker gets another."""
    from ottla import ErrorCode, OttlaError

    give_up_at = time.monotonic() + _LIVE_LIMIT_S
    while True:
        try:
            admin.topics.create(name, partitions=1, if_exists="ok")
        except OttlaError as error:
            if error.code != ErrorCode.INVALID_REPLICATION_FACTOR or time.monotonic() >= give_up_at:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


@pytest.fixture(scope="session")
def ottla_cluster() -> Iterator[Cluster]:
    """A real cluster of one broker, ready in milliseconds: `.bootstrap`, `.faults`, `.brokers`, `.clock`."""
    from ottla.testing import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest, ottla_cluster: Cluster) -> str:
    """The name of a topic of this test's own, with one partition, empty."""
    from ottla import Admin

    readable = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:200]
    name = f"{readable}-{next(_numbers)}"
    with Admin(ottla_cluster.bootstrap) as admin:
        create_when_brokers_live(admin, name)
    return name


@pytest.fixture
def ottla_producer(ottla_cluster: Cluster, ottla_topic: str) -> Iterator[Producer[Any, Any]]:
    """A producer to this test's topic."""
    from ottla import Producer

    with Producer(ottla_cluster.bootstrap, topic=ottla_topic) as producer:
        yield producer


@pytest.fixture
def ottla_consumer(ottla_cluster: Cluster, ottla_topic: str) -> Iterator[Consumer[Any, Any]]:
    """A consumer of this test's topic, from its first record on."""
    from ottla import Consumer

    with Consumer(ottla_topic, bootstrap=ottla_cluster.bootstrap, start="earliest") as consumer:
        yield consumer
