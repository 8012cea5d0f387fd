"""The configs that limit connections, in a running broker."""

from __future__ import annotations

import socket

from waiting import LIMIT_S

import ottla
from ottla.testing import Cluster


def test_a_connection_of_a_running_broker_ends_after_the_configured_time() -> None:
    with Cluster() as cluster, ottla.Admin(cluster.bootstrap) as admin:
        host, _, port = cluster.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), LIMIT_S) as idle:
            admin.configs.set({"connections.max.idle.ms": 100}, timeout=LIMIT_S)
            assert idle.recv(1) == b""
