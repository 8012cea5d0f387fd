"""The topics of a flow: each has its copy in the target, with as many partitions and the same configs.

Every mirror of a flow sees to it that its checkpoints topic exists, by which one of them leads. The leader does the
rest, every second, on a thread of its own: the copying does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Event, Thread
from typing import Any, Final

import ottla
from ottla_mirror.machines.flows import FlowSettings, MirrorSettings
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.machines.topic_plan import NOT_COPIED, TopicChange, plan_topics

logger = logging.getLogger("ottla.mirror")

_LOOK_S: Final = 1.0
_CONFIGS_S: Final = 10.0
_END_S: Final = 10.0


class TopicSync:
    """`leads`, set by the flow: whether this mirror creates and alters topics. `problems` has what could not be done,
    by the copy's name, in words. Both are for any thread."""

    def __init__(self, flow: FlowSettings, settings: MirrorSettings, names: TopicNames) -> None:
        self.problems: Mapping[str, str] = {}
        self.leads = False
        self._flow: Final = flow
        self._names: Final = names
        self._source: Final = list(settings.cluster(flow.source).bootstrap)
        self._target: Final = list(settings.cluster(flow.target).bootstrap)
        self._stopping: Final = Event()
        self._has_checkpoints = False
        self._configs_in = 0.0
        self._thread: Final = Thread(target=self._run, name=f"ottla-mirror-topics-{flow.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with (
                    ottla.Admin(self._source, client_id=f"{self._flow.group}-topics") as source,
                    ottla.Admin(self._target, client_id=f"{self._flow.group}-topics") as target,
                ):
                    while not self._stopping.is_set():
                        self._look(source, target)
                        self._stopping.wait(_LOOK_S)
            except ottla.OttlaError as error:
                logger.warning("flow %s: topics are not compared at the moment: %s", self._flow.name, error)
            except Exception:
                logger.exception("flow %s: topics are not compared at the moment", self._flow.name)
            self._stopping.wait(_LOOK_S)

    def _look(self, source: ottla.Admin, target: ottla.Admin) -> None:
        if not self._has_checkpoints:
            compacted = {"cleanup.policy": "compact"}
            target.topics.create(self._names.checkpoints, partitions=1, config=compacted, if_exists="ok")
            self._has_checkpoints = True
        if not self.leads:
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


def _own(entries: Mapping[str, Any]) -> dict[str, str]:
    """What is set for the topic itself and is to hold for its copy, too."""
    return {
        name: entry.value
        for name, entry in entries.items()
        if entry.source == "DYNAMIC_TOPIC_CONFIG" and name not in NOT_COPIED
    }
