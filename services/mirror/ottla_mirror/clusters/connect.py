"""Which kind of cluster one is, by its settings."""

from __future__ import annotations

from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.clusters.ottla_cluster import OttlaCluster
from ottla_mirror.machines.flows import ClusterSettings


def connect(settings: ClusterSettings) -> Cluster:
    """Its clients are opened by it, and connect when they are used."""
    return OttlaCluster(settings.bootstrap)
