"""For tests of applications: `Cluster` is a real cluster, the fakes are clients that need none.

    with ottla.testing.Cluster() as cluster:
        ottla.Admin(cluster.bootstrap).topics.create("orders")
        cluster.produce("orders", [{"id": 1}])

The fakes come with the SDK. `Cluster` is part of the server, which the extra installs; it is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.fakes.fakes import FakeCluster, FakeConsumer, FakeProducer

if TYPE_CHECKING:
    from ottla_stack.cluster import Cluster

__all__ = ["Cluster", "FakeCluster", "FakeConsumer", "FakeProducer"]


def __getattr__(name: str) -> Any:
    """Import `Cluster`. If the server is not installed, the ImportError says what to install."""
    if name != "Cluster":
        raise AttributeError(f"module 'ottla.testing' has no attribute {name!r}")
    try:
        from ottla_stack.cluster import Cluster
    except ImportError as error:
        raise ImportError("ottla.testing.Cluster needs the server: pip install 'ottla[server]'") from error
    return Cluster
