"""What scripted brokers were asked, partition by partition."""

from __future__ import annotations

from typing import Any

from ottla.fakes.scripted import ScriptedCluster


def parts(cluster: ScriptedCluster, kind: type[Any]) -> list[Any]:
    """Return what the requests of one type have for each partition, in the order of arrival."""
    return [part for request in cluster.requests(kind) for part in parts_of(request)]


def parts_of(request: Any) -> list[Any]:
    """Return what a request has for each partition."""
    topics = request.topic_data if hasattr(request, "topic_data") else request.topics
    return [part for topic in topics for part in getattr(topic, "partition_data", None) or topic.partitions]
