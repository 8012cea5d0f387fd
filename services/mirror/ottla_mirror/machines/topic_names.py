"""Topic names say which topics a flow copies, and what they are called in the target (MirrorMaker 2's
ReplicationPolicy).

* With the prefix policy `orders` of cluster `east` is `east.orders` in the target. The name says where a record has
  been, so none comes back: a topic that came from the target, or by way of it, is not copied to it.
* Each event travels once per pair of sites: if a third cluster has its own flow to the target, its topics are not
  copied either.
* With the identity policy names stay as they are. With the marked policy they stay too, and records say which way they
  have come (`LoopMarks`).
* A mirror's and a cluster's internal topics are never copied; `heartbeats` always is. MirrorMaker 2 and its client also
  take a mirror's topics as internal: by `mm2`, and by `internal` after the flow's separator.
"""

from __future__ import annotations

import re
from typing import Final

from ottla_core.model import TopicPartition
from ottla_mirror.machines.flows import FlowSettings, MirrorSettings

HEARTBEATS: Final = "heartbeats"


class TopicNames:
    """These are the names of one flow. `settings` has the other flows, whose records it does not copy."""

    def __init__(self, flow: FlowSettings, settings: MirrorSettings) -> None:
        self._flow: Final = flow
        self._settings: Final = settings
        self._prefix: Final = f"{flow.source}{flow.separator}"
        self._included: Final = [re.compile(pattern) for pattern in flow.topics]
        self._excluded: Final = [re.compile(pattern) for pattern in flow.exclude]
        separator = re.escape(flow.separator)
        self._internal: Final = re.compile(rf"__.*|\..*|(mm2.*|.*{separator}checkpoints){separator}internal")

    @property
    def checkpoints(self) -> str:
        """This is MirrorMaker 2's topic of translated offsets, in the target. The owner of its one partition leads the
        flow."""
        return self._internal_name(self._flow.source, "checkpoints")

    @property
    def offset_syncs(self) -> str:
        """This is MirrorMaker 2's topic of pairs of offsets, by its name in the target."""
        return self._internal_name("mm2-offset-syncs", self._flow.source)

    @property
    def state(self) -> str:
        """This topic in the target has the flow's state: orders, and which copies it fills."""
        return self._internal_name("mm2-mirror", self._flow.source)

    @property
    def pattern(self) -> str:
        """It matches the names that copies may have in the target, and `checkpoints`."""
        own = re.escape(self._prefix) + ".*"
        if self._flow.keeps_names:
            own = "|".join([re.escape(self.target_of_any(HEARTBEATS)), *self._flow.topics])
        return f"{re.escape(self.checkpoints)}|(?:{own})"

    def target_of(self, topic: str) -> str | None:
        """Return the name of a source topic's copy in the target, or None if it is not copied."""
        if self._internal.fullmatch(topic) or self._has_another_way(topic):
            return None
        if topic != HEARTBEATS:
            if not any(pattern.fullmatch(topic) for pattern in self._included):
                return None
            if any(pattern.fullmatch(topic) for pattern in self._excluded):
                return None
        copy = self.target_of_any(topic)
        return None if copy in (self.checkpoints, self.state, self.offset_syncs) else copy

    def target_of_any(self, topic: str) -> str:
        """Return the name that a copy of `topic` would have."""
        if self._flow.keeps_names and topic != HEARTBEATS:
            return topic
        return f"{self._prefix}{topic}"

    def copy_of(self, source: TopicPartition) -> TopicPartition:
        """Return the copy of a partition that is copied."""
        return TopicPartition(self.target_of_any(source.topic), source.partition)

    def source_of(self, copy: str) -> str | None:
        """Return the source topic of a copy, or None if it is no copy of this flow."""
        topic = copy.removeprefix(self._prefix) if copy.startswith(self._prefix) else copy
        if self._flow.keeps_names and topic != HEARTBEATS:
            topic = copy
        return topic if self.target_of(topic) == copy else None

    def _internal_name(self, *parts: str) -> str:
        return self._flow.separator.join((*parts, "internal"))

    def _has_another_way(self, topic: str) -> bool:
        """Tell whether the topic's records come from the target, or from a cluster with a flow to it."""
        source, target = self._flow.source, self._flow.target
        return any(
            alias == target or (alias != source and self._settings.has_flow(alias, target))
            for alias in self._path(topic)
        )

    def _path(self, topic: str) -> list[str]:
        """Return the clusters through which the records of a topic of the source have come, the last one first."""
        path, aliases = [], {cluster.alias for cluster in self._settings.clusters}
        while (alias := topic.partition(self._flow.separator)[0]) in aliases and alias != topic:
            path.append(alias)
            topic = topic.partition(self._flow.separator)[2]
        return path
