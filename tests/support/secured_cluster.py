"""Starts an ottla cluster whose Kafka ports have TLS, logins and the authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster_security import Security

from ottla_stack.cluster import Cluster


@contextmanager
def secured_cluster(folder: Path, **services: Any) -> Iterator[tuple[Cluster, Security]]:
    """Start a cluster with logins, at which USER may do everything."""
    security = Security(folder)
    with Cluster(broker_settings=security.of_brokers, **services) as cluster:
        security.allow(cluster.bootstrap)
        yield cluster, security
