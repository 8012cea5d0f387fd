"""The topics of a flow: each has its copy in the target, with as many partitions and the same configs.

Every mirror of a flow sees to it that the flow's own topics exist, by one of which one of them leads. The leader does
the rest, every second: the copying does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import ottla
from ottla_mirror.chore import Chore, open_admin
from ottla_mirror.flow_state import FlowState
from ottla_mirror.machines.flows import FlowSettings, MirrorSettings
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.machines.topic_plan import NOT_COPIED, TopicChange, plan_topics
from ottla_mirror.offset_syncs import OFFSET_SYNCS_CONFIG

logger = logging.getLogger("ottla.mirror")

_LOOK_S: Final = 1.0
_CONFIGS_S: Final = 10.0


class TopicSync(Chore):
    """`problems` has what could not be done, by the copy's name, in words; for any thread."""

    def __init__(self, flow: FlowSettings, settings: MirrorSettings, names: TopicNames, state: FlowState) -> None:
        super().__init__(f"{flow.name}: topics are not compared at the moment")
        self.problems: Mapping[str, str] = {}
        self._state: Final = state
        self._flow: Final = flow
        self._names: Final = names
        self._source: Final = list(settings.cluster(flow.source).bootstrap)
        self._target: Final = list(settings.cluster(flow.target).bootstrap)
        self._has_own = False
        self._configs_in = 0.0

    def work(self) -> None:
        name = f"{self._flow.group}-topics"
        with open_admin(self._target, name) as target:
            if not self._has_own:
                for topic, config in own_topics(self._names).items():
                    target.topics.create(topic, partitions=1, config=config, if_exists="ok")
                self._has_own = True
            with open_admin(self._source, name) as source:
                while not self.stopping.is_set():
                    self._look(source, target)
                    self.went_well()
                    self.stopping.wait(_LOOK_S)

    def _look(self, source: ottla.Admin, target: ottla.Admin) -> None:
        if not self._state.acts:
            self.problems = {}
            return
        existing = {topic.name: len(topic.partitions) for topic in source.topics.describe()}
        copies = {topic.name: len(topic.partitions) for topic in target.topics.describe()}
        problems = {}
        for change in plan_topics(self._names, existing, copies):
            try:
                self._make(change, source, target)
            except ottla.OttlaError as error:
                problems[change.copy] = str(error)
                if change.copy not in self.problems:
                    logger.warning("flow %s: %s: %s", self._flow.name, change.copy, error)
        self.problems = problems
        self._configs_in -= _LOOK_S
        if self._flow.sync_configs and self._configs_in <= 0:
            self._configs_in = _CONFIGS_S
            named = ((name, self._names.target_of(name)) for name in existing)
            self._sync_configs(source, target, {name: copy for name, copy in named if copy in copies})

    def _make(self, change: TopicChange, source: ottla.Admin, target: ottla.Admin) -> None:
        if change.grows:
            target.topics.add_partitions(change.copy, change.partitions)
            return
        config = _own(source.configs.get(topic=change.topic))
        target.topics.create(
            change.copy, partitions=change.partitions, replicas=self._flow.replicas, config=config, if_exists="ok"
        )
        logger.info("flow %s: created %s with %d partitions", self._flow.name, change.copy, change.partitions)

    def _sync_configs(self, source: ottla.Admin, target: ottla.Admin, copies: Mapping[str, str]) -> None:
        required = {name: _own(entries) for name, entries in source.configs.of_topics(*copies).items()}
        present = {name: _own(entries) for name, entries in target.configs.of_topics(*copies.values()).items()}
        for name, config in required.items():
            copy = copies[name]
            had = present.get(copy, config)  # one that has gone is left alone
            if altered := {key: value for key, value in config.items() if had.get(key) != value}:
                target.configs.set(altered, topic=copy)
            if gone := had.keys() - config.keys():
                target.configs.unset(*gone, topic=copy)


def own_topics(names: TopicNames) -> dict[str, Mapping[str, Any]]:
    """What a flow has in the target for itself, and their configs; each has one partition."""
    compacted = {"cleanup.policy": "compact"}
    return {names.checkpoints: compacted, names.state: compacted, names.offset_syncs: OFFSET_SYNCS_CONFIG}


def _own(entries: Mapping[str, Any]) -> dict[str, str]:
    """What is set for the topic itself and is to hold for its copy, too."""
    return {
        name: entry.value
        for name, entry in entries.items()
        if entry.source == "DYNAMIC_TOPIC_CONFIG" and name not in NOT_COPIED
    }
