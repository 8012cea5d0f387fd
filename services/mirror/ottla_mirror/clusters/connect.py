"""Chooses the kind of a cluster by its settings."""

from __future__ import annotations

from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.clusters.ottla_cluster import OttlaCluster
from ottla_mirror.machines.flows import ClusterSettings, invalid


def connect(settings: ClusterSettings) -> Cluster:
    """Return a cluster that opens its clients, which connect when used. Raises INVALID_CONFIG without the library."""
    if settings.kafka is None:
        return OttlaCluster(settings.bootstrap)
    try:
        from ottla_mirror.clusters.kafka.kafka_cluster import KafkaCluster  # only this kind needs the library
    except ImportError as error:
        raise invalid(f"{settings.alias} is no ottla cluster: {error}", "pip install 'ottla[kafka]'") from None
    return KafkaCluster(settings.bootstrap, settings.kafka)
