"""The plan says which topics must be created in the target, or must grow, so that each has its copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ottla_mirror.machines.topic_names import TopicNames

NOT_COPIED: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
"""These configs belong to each cluster, as in MirrorMaker 2's config.properties.exclude. The target may have fewer
replicas. A copy keeps the source's timestamps, so its timestamp type stays CreateTime."""


@dataclass(frozen=True, slots=True)
class TopicChange:
    """`copy` of `topic` should have `partitions`. It `grows` if it exists."""

    topic: str
    copy: str
    partitions: int
    grows: bool


def plan_topics(names: TopicNames, existing: Mapping[str, int], copies: Mapping[str, int]) -> Iterator[TopicChange]:
    """Compare both clusters' topics, which come with their numbers of partitions."""
    for topic, partitions in existing.items():
        copy = names.target_of(topic)
        if copy is not None and copies.get(copy, 0) < partitions:
            yield TopicChange(topic, copy, partitions, copy in copies)
