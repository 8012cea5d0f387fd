"""The topics of a flow: each has its copy in the target, with as many partitions and the same configs.

Every mirror of a flow sees to it that the flow's own topics exist, by one of which one of them leads. The leader does
the rest, every second: the copying does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import ottla
from ottla_core.errors import ErrorCode
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.cluster import Admin, Cluster
from ottla_mirror.machines.flows import FlowSettings
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.machines.topic_plan import NOT_COPIED, TopicChange, plan_topics
from ottla_mirror.syncing.flow_state import FlowState
from ottla_mirror.syncing.offset_syncs import OFFSET_SYNCS_CONFIG

logger = logging.getLogger("ottla.mirror")

_LOOK_S: Final = 1.0
_CONFIGS_S: Final = 10.0
_POLICY: Final = "cleanup.policy"


class TopicSync(Chore):
    """`problems` has what could not be done, by the copy's name, in words; for any thread."""

    def __init__(
        self, flow: FlowSettings, source: Cluster, target: Cluster, names: TopicNames, state: FlowState
    ) -> None:
        super().__init__(f"{flow.name}: topics are not compared at the moment")
        self.problems: Mapping[str, str] = {}
        self._state: Final = state
        self._flow: Final = flow
        self._names: Final = names
        self._source: Final = source
        self._target: Final = target
        self._has_own = False
        self._refused: dict[str, str] = {}  # configs that the target does not take, by the copy's name
        self._configs_in = 0.0

    def work(self) -> None:
        name = f"{self._flow.group}-topics"
        with self._target.open_admin(name) as target:
            if not self._has_own:
                self._see_to_own(target)
                self._has_own = True
            with self._source.open_admin(name) as source:
                while not self.stopping.is_set():
                    self._look(source, target)
                    self.went_well()
                    self.stopping.wait(_LOOK_S)

    def _see_to_own(self, target: Admin) -> None:
        """Create them; nothing of one expires, also where an older mirror has created it otherwise."""
        own = own_topics(self._names)
        for topic, config in own.items():
            target.create_topic(topic, 1, config)
        for topic, present in target.configs(own).items():
            if "delete" in present.get(_POLICY, ""):
                target.alter_configs(topic, {_POLICY: own[topic][_POLICY]}, ())

    def _look(self, source: Admin, target: Admin) -> None:
        if not self._state.acts:
            self.problems = {}
            return
        existing, copies = source.topics(), target.topics()
        problems = {}
        for change in plan_topics(self._names, existing, copies):
            try:
                self._make(change, source, target)
            except ottla.OttlaError as error:
                problems[change.copy] = str(error)
                if change.copy not in self.problems:
                    logger.warning("flow %s: %s: %s", self._flow.name, change.copy, error)
        self._configs_in -= _LOOK_S
        if self._flow.sync_configs and self._configs_in <= 0:
            self._configs_in = _CONFIGS_S
            named = ((name, self._names.target_of(name)) for name in existing)
            self._sync_configs(source, target, {name: copy for name, copy in named if copy and copy in copies})
        self.problems = self._refused | problems

    def _make(self, change: TopicChange, source: Admin, target: Admin) -> None:
        if change.grows:
            target.add_partitions(change.copy, change.partitions)
            return
        config = _to_copy(source, [change.topic]).get(change.topic)
        if config is None:
            return  # it has gone meanwhile
        try:
            target.create_topic(change.copy, change.partitions, config, self._flow.replicas)
        except ottla.OttlaError as error:
            if error.code != ErrorCode.INVALID_CONFIG:
                raise
            target.create_topic(change.copy, change.partitions, {}, self._flow.replicas)
            self._configs_in = 0.0  # what it takes of them follows
        logger.info("flow %s: created %s with %d partitions", self._flow.name, change.copy, change.partitions)

    def _sync_configs(self, source: Admin, target: Admin, copies: Mapping[str, str]) -> None:
        self._refused = {}
        required, present = _to_copy(source, copies), _to_copy(target, copies.values())
        for name, config in required.items():
            copy = copies[name]
            had = present.get(copy, config)  # one that has gone is left alone
            altered = {key: value for key, value in config.items() if had.get(key) != value}
            gone = had.keys() - config.keys()
            if altered or gone:
                self._alter(target, copy, altered, gone)

    def _alter(self, target: Admin, copy: str, altered: Mapping[str, str], gone: Collection[str]) -> None:
        """All at once; each alone, where one of them is not taken by a target that is there."""
        try:
            target.alter_configs(copy, altered, gone)
        except ottla.OttlaError as error:
            if isinstance(error, ottla.ConnectError | ottla.TimeoutError) or len(altered) + len(gone) == 1:
                self._refused[copy] = f"it has not all configs of the source's: {error}"
                return
            for name, value in altered.items():
                self._alter(target, copy, {name: value}, ())
            for name in gone:
                self._alter(target, copy, {}, [name])


def own_topics(names: TopicNames) -> dict[str, Mapping[str, str]]:
    """What a flow has in the target for itself, and their configs; each has one partition."""
    compacted = {_POLICY: "compact", "segment.bytes": OFFSET_SYNCS_CONFIG["segment.bytes"]}
    return {names.checkpoints: compacted, names.state: compacted, names.offset_syncs: OFFSET_SYNCS_CONFIG}


def _to_copy(cluster: Admin, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """What is set for each topic itself and is to hold for its copy, too."""
    return {
        topic: {name: value for name, value in configs.items() if name not in NOT_COPIED}
        for topic, configs in cluster.configs(topics).items()
    }
