"""Which topics a flow copies, and how they are called in the target (MirrorMaker 2's ReplicationPolicy).

* With the prefix policy `orders` of cluster `east` is `east.orders` in the target. The name says where a record has
  been, so none comes back: a topic that came from the target, or by way of it, is not copied to it.
* Each event once per pair of sites: what came from a third cluster that has a flow of its own to the target is not
  copied either.
* With the identity policy names stay as they are; with the marked one too, and records say which way they have come
  (`LoopMarks`).
* Topics of a mirror's own, and of the cluster, are never copied; `heartbeats` always is. The former are internal to
  MirrorMaker 2 and its client, too: by `mm2`, and by `internal` behind the flow's separator.
"""

from __future__ import annotations

import re
from typing import Final

from ottla_mirror.machines.flows import FlowSettings, MirrorSettings

HEARTBEATS: Final = "heartbeats"


class TopicNames:
    """One flow's. `settings` has the other flows, of which it takes nothing."""

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
        """MirrorMaker 2's topic of translated offsets, in the target; the owner of its one partition leads the flow."""
        return self._internal_name(self._flow.source, "checkpoints")

    @property
    def offset_syncs(self) -> str:
        """MirrorMaker 2's topic of pairs of offsets, as it is called in the target."""
        return self._internal_name("mm2-offset-syncs", self._flow.source)

    @property
    def state(self) -> str:
        """What was ordered for the flow, in the target."""
        return self._internal_name("mm2-mirror", self._flow.source)

    @property
    def pattern(self) -> str:
        """Matches the names that copies may have in the target, and `checkpoints`."""
        own = re.escape(self._prefix) + ".*"
        if self._flow.keeps_names:
            own = "|".join([re.escape(self.target_of_any(HEARTBEATS)), *self._flow.topics])
        return f"{re.escape(self.checkpoints)}|(?:{own})"

    def target_of(self, topic: str) -> str | None:
        """What the topic of the source is called in the target; None where it is not copied."""
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
        """The name that a copy of `topic` would have."""
        if self._flow.keeps_names and topic != HEARTBEATS:
            return topic
        return f"{self._prefix}{topic}"

    def source_of(self, copy: str) -> str | None:
        """The topic of the source that has this name in the target; None where it is no copy of this flow's."""
        topic = copy.removeprefix(self._prefix) if copy.startswith(self._prefix) else copy
        if self._flow.keeps_names and topic != HEARTBEATS:
            topic = copy
        return topic if self.target_of(topic) == copy else None

    def _internal_name(self, *parts: str) -> str:
        return self._flow.separator.join((*parts, "internal"))

    def _has_another_way(self, topic: str) -> bool:
        """Whether its records come from the target, or from a cluster that has a flow to it."""
        source, target = self._flow.source, self._flow.target
        return any(
            alias == target or (alias != source and self._settings.has_flow(alias, target))
            for alias in self._path(topic)
        )

    def _path(self, topic: str) -> list[str]:
        """The clusters that the records of a topic of the source have come through, the last one first."""
        path, aliases = [], {cluster.alias for cluster in self._settings.clusters}
        while (alias := topic.partition(self._flow.separator)[0]) in aliases and alias != topic:
            path.append(alias)
            topic = topic.partition(self._flow.separator)[2]
        return path
