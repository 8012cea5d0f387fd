"""Besides topics, the leader keeps groups' offsets current in the target, and sends the source's heartbeats.

While the flow is paused, groups may work in the target. Their checkpoints follow them there, because their offsets may
expire before they go back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import ottla
from ottla_core.clock import Clock
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.admin import CALL_S, Committed
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.groups.group_offsets import GroupOffsets, commit
from ottla_mirror.machines.flows import FlowSettings
from ottla_mirror.machines.mirror_records import heartbeat
from ottla_mirror.machines.topic_names import HEARTBEATS
from ottla_mirror.syncing.flow_state import FlowState
from ottla_mirror.syncing.offset_syncs import OffsetSyncs

_LOOK_S: Final = 1.0
_LIST_S: Final = 5.0
"""New groups, and those that commit nothing, may wait this long."""


class GroupSync(Chore):
    """By group, `troubles` says why offsets are missing in the target. For any thread."""

    def __init__(
        self, flow: FlowSettings, open_offsets: Callable[[], GroupOffsets], syncs: OffsetSyncs, state: FlowState
    ) -> None:
        super().__init__(f"{flow.name}: groups' offsets are not translated at the moment")
        self.troubles: Mapping[str, str] = {}
        self._syncs_groups: Final = flow.sync_groups
        self._open_offsets: Final = open_offsets
        self._syncs: Final = syncs
        self._state: Final = state
        self._groups: dict[str, Committed] = {}
        """This has what each group had committed when it was looked at last."""
        self._quiet: Final[set[str]] = set()
        """These groups had not changed then. They are looked at again when groups are listed again."""
        self._list_in = 0.0
        self._is_paused = False

    def work(self) -> None:
        offsets, is_loaded = self._open_offsets(), False
        try:
            while not self.stopping.wait(_LOOK_S):
                former, self._is_paused = self._is_paused, self._state.paused
                leads = self._state.leads and self._state.known and self._syncs.caught_up
                if not leads or self._is_paused != former:
                    self._groups, self._list_in, self.troubles, is_loaded = {}, 0.0, {}, False
                if leads:
                    if not is_loaded:
                        offsets.load()  # another mirror may have led in between
                        is_loaded = True
                    self._look_at_target(offsets) if self._is_paused else self._look(offsets)
                self.went_well()
        finally:
            offsets.close()

    def _look(self, offsets: GroupOffsets) -> None:
        self._list_in -= _LOOK_S
        if self._list_in <= 0:
            self._list_in = _LIST_S
            found = offsets.in_source(timeout=CALL_S)
            offsets.look_at_topics(with_source=True)
            self._groups = {group: self._groups.get(group, {}) for group in found}
            self._quiet.clear()
            self.troubles = {group: trouble for group, trouble in self.troubles.items() if group in self._groups}
        for group in [group for group in self._groups if group not in self._quiet]:
            before = self._groups[group]
            self._groups[group], is_moved = self._carry(offsets, group, before)
            if not is_moved and self._groups[group] == before:
                self._quiet.add(group)

    def _look_at_target(self, offsets: GroupOffsets) -> None:
        self._list_in -= _LOOK_S
        if self._list_in <= 0:
            self._list_in = _LIST_S
            offsets.look_at_topics(with_source=False)
            for group in offsets.in_target(timeout=CALL_S):
                offsets.checkpoint_in_target(group)

    def _carry(self, offsets: GroupOffsets, group: str, before: Committed) -> tuple[Committed, bool]:
        """Return what a group has committed in the source, and whether any of it was committed in the target. Raises if
        a cluster is away. An error of one group does not stop the others."""
        committed, trouble, is_moved = before, "", False
        try:
            committed = offsets.source.committed(group)
            moves = offsets.forward(group, committed)
            offsets.checkpoint(group, moves)
            is_moved = self._syncs_groups and commit(offsets.target, group, moves)
        except (ottla.ConnectError, ottla.TimeoutError):
            raise
        except ottla.OttlaError as error:
            trouble = str(error)
        if trouble != self.troubles.get(group, ""):
            others = ((name, text) for name, text in self.troubles.items() if name != group)
            self.troubles = dict(others) | ({group: trouble} if trouble else {})
        return committed, is_moved


class Heartbeats(Chore):
    """The source's `heartbeats` topic gets a record each second: the age of its copy shows the flow's health
    (KIP-382)."""

    def __init__(self, flow: FlowSettings, source: Cluster, state: FlowState, clock: Clock) -> None:
        super().__init__(f"{flow.name}: the source gets no heartbeats at the moment")
        self._flow: Final = flow
        self._source: Final = source
        self._state: Final = state
        self._clock: Final = clock

    def work(self) -> None:
        name = f"{self._flow.group}-heartbeats"
        with self._source.open_admin(name) as admin:
            admin.create_topic(HEARTBEATS, 1, {"cleanup.policy": "compact"})
        with self._source.open_writer(name) as writer:
            while not self.stopping.wait(_LOOK_S):
                if self._state.acts:
                    key, value = heartbeat(self._flow.source, self._flow.target, self._clock.wall_ms())
                    writer.send(value, key=key, topic=HEARTBEATS).result(CALL_S)
                self.went_well()
