"""Each topic of a flow gets a copy in the target, with as many partitions and the same configs.

Every mirror makes sure that the flow's own topics exist, since one of them decides which mirror leads. The leader does
the rest every second, and copying does not wait for it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import ottla
from ottla_core.errors import ErrorCode
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.admin import Admin
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.machines.flows import FlowSettings
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.machines.topic_plan import NOT_COPIED, TopicChange, plan_topics
from ottla_mirror.syncing.flow_state import FlowState
from ottla_mirror.syncing.offset_syncs import OFFSET_SYNCS_CONFIG

logger = logging.getLogger("ottla.mirror")

_LOOK_S: Final = 1.0
_RARELY_S: Final = 10.0
"""Configs, and copies that are gone, are looked at this often, since nothing waits for either."""

RECREATED_AFTER_S: Final = 8.0
"""A copy that was deleted is recreated after this time."""
_MISSED: Final = math.ceil(RECREATED_AFTER_S / _LOOK_S) + 1

_POLICY: Final = "cleanup.policy"
_MOST_BYTES: Final = "max.message.bytes"


class TopicSync(Chore):
    """By copy, `problems` says in words what could not be done. For any thread."""

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
        self._rarely_in = 0.0
        self._missed: Mapping[str, int] = {}  # in how many looks in a row a begun copy was gone

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
        """Create the flow's own topics. If an older mirror created one that expires, its cleanup policy is changed."""
        own = own_topics(self._names)
        for topic, config in own.items():
            target.create_topic(topic, 1, config, self._flow.replicas)
        for topic, present in target.configs(own).items():
            if "delete" in present.get(_POLICY, ""):
                target.alter_configs(topic, {_POLICY: own[topic][_POLICY]}, ())

    def _look(self, source: Admin, target: Admin) -> None:
        if not self._state.acts:
            self.problems, self._missed = {}, {}
            return
        existing, copies = source.topics(), target.topics()
        problems = {}
        for change in self._due(plan_topics(self._names, existing, copies)):
            try:
                self._make(change, source, target)
            except ottla.OttlaError as error:
                problems[change.copy] = str(error)
                if change.copy not in self.problems:
                    logger.warning("flow %s: %s: %s", self._flow.name, change.copy, error)
        self._rarely_in -= _LOOK_S
        if self._rarely_in <= 0:
            self._note_gone(target, existing, copies)
            if self._flow.sync_configs:
                named = ((name, self._names.target_of(name)) for name in existing)
                self._sync_configs(source, target, {name: copy for name, copy in named if copy and copy in copies})
            self._rarely_in = _RARELY_S
        self.problems = self._refused | problems

    def _due(self, changes: Iterable[TopicChange]) -> Sequence[TopicChange]:
        """Return the changes to make now. A copy that was deleted is recreated only once the copiers have noticed that
        it is gone, because what they have in flight must not get into the new one."""
        planned = list(changes)
        made = [change.copy for change in planned if not change.grows]
        begun = {copy.topic for copy in self._state.begun_copies()} if made else set()
        self._missed = {copy: self._missed.get(copy, 0) + 1 for copy in made if copy in begun}
        return [change for change in planned if self._missed.get(change.copy, _MISSED) >= _MISSED]

    def _note_gone(self, target: Admin, existing: Collection[str], copies: Collection[str]) -> None:
        """Forget the copies that are gone and won't be created again, because their topics are gone too.

        This waits until the group has no position in them, because a new copy of that name might resume there.
        """
        begun = self._state.begun_copies()
        gone = [c for c in begun if c.topic not in copies and self._names.source_of(c.topic) not in existing]
        if gone:
            committed = target.committed(self._flow.group)
            self._state.note_gone([copy for copy in gone if copy not in committed])

    def _make(self, change: TopicChange, source: Admin, target: Admin) -> None:
        if change.grows:
            target.add_partitions(change.copy, change.partitions)
            return
        config = _to_copy(source, [change.topic]).get(change.topic)
        if config is None:
            return  # it has just gone
        try:
            target.create_topic(change.copy, change.partitions, config, self._flow.replicas)
        except ottla.OttlaError as error:
            if error.code not in (ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION):
                raise
            target.create_topic(change.copy, change.partitions, {}, self._flow.replicas)
            # At once, and also if configs are not kept in sync: a copy with the target's own retention would lose
            # records that the source keeps.
            self._alter(target, change.copy, config, ())
        logger.info("flow %s: created %s with %d partitions", self._flow.name, change.copy, change.partitions)

    def _sync_configs(self, source: Admin, target: Admin, copies: Mapping[str, str]) -> None:
        self._refused = {}
        required, present = _to_copy(source, copies), _to_copy(target, copies.values())
        for name, config in required.items():
            copy = copies[name]
            had = present.get(copy, config)  # one that has gone is left alone
            altered = {key: value for key, value in config.items() if had.get(key) != value}
            gone = dict.fromkeys(key for key in had if key not in config)
            if int(had.get(_MOST_BYTES, 0)) > int(config.get(_MOST_BYTES, 0)):
                # The source's cluster may allow larger batches than the target's, so an operator may have raised it.
                altered.pop(_MOST_BYTES, None)
                gone.pop(_MOST_BYTES, None)
            if altered or gone:
                self._alter(target, copy, altered, gone)

    def _alter(self, target: Admin, copy: str, altered: Mapping[str, str], gone: Collection[str]) -> None:
        """Alter all configs at once, or one by one if a target that answers refuses some."""
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
    """Return a flow's own topics in the target, with their configs. Each has one partition."""
    compacted = {_POLICY: "compact", "segment.bytes": OFFSET_SYNCS_CONFIG["segment.bytes"]}
    return {names.checkpoints: compacted, names.state: compacted, names.offset_syncs: OFFSET_SYNCS_CONFIG}


def _to_copy(cluster: Admin, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the configs that are set on each topic itself and must hold for its copy too."""
    return {
        topic: {name: value for name, value in configs.items() if name not in NOT_COPIED}
        for topic, configs in cluster.configs(topics).items()
    }
