"""A cluster of three brokers with one partition on all of them, two of which have what is acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ottla
from ottla.testing import Cluster


@contextmanager
def three_brokers() -> Iterator[Cluster]:
    with Cluster(brokers=3, group_coordinators=0) as running:
        with ottla.Admin(running.bootstrap) as admin:
            admin.topics.create("t", partitions=1, replicas=3, config={"min.insync.replicas": 2})
        yield running
