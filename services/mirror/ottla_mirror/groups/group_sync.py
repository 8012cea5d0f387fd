"""Keeps groups' offsets current in the target, and the source's heart beating: what the leader does besides topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import ottla
from ottla_core.clock import Clock
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.cluster import CALL_S, Cluster, Committed
from ottla_mirror.groups.group_offsets import GroupOffsets
from ottla_mirror.machines.flows import FlowSettings
from ottla_mirror.machines.mirror_records import heartbeat
from ottla_mirror.machines.topic_names import HEARTBEATS
from ottla_mirror.syncing.flow_state import FlowState
from ottla_mirror.syncing.offset_syncs import OffsetSyncs

_LOOK_S: Final = 1.0
_LIST_S: Final = 5.0
"""How long new groups may wait, and those that commit nothing."""


class GroupSync(Chore):
    """`troubles`: why groups have not their offsets in the target, by their names. For any thread."""

    def __init__(
        self, flow: FlowSettings, open_offsets: Callable[[], GroupOffsets], syncs: OffsetSyncs, state: FlowState
    ) -> None:
        super().__init__(f"{flow.name}: groups' offsets are not translated at the moment")
        self.troubles: Mapping[str, str] = {}
        self._open_offsets: Final = open_offsets
        self._syncs: Final = syncs
        self._state: Final = state
        self._groups: dict[str, Committed] = {}
        """What each had committed when it was looked at last."""
        self._quiet: Final[set[str]] = set()
        """Those of which nothing had changed then: they are looked at again when groups are listed again."""
        self._list_in = 0.0

    def work(self) -> None:
        offsets, is_loaded = self._open_offsets(), False
        try:
            while not self.stopping.wait(_LOOK_S):
                if not (self._state.acts and self._syncs.caught_up):
                    self._groups, self._list_in, self.troubles, is_loaded = {}, 0.0, {}, False
                    self.went_well()
                    continue
                if not is_loaded:
                    offsets.load()  # another mirror may have led meanwhile
                    is_loaded = True
                self._look(offsets)
                self.went_well()
        finally:
            offsets.close()

    def _look(self, offsets: GroupOffsets) -> None:
        self._list_in -= _LOOK_S
        if self._list_in <= 0:
            self._list_in = _LIST_S
            found = offsets.in_source(timeout=CALL_S)
            self._groups = {group: self._groups.get(group, {}) for group in found}
            self._quiet.clear()
            for gone in offsets.troubles.keys() - self._groups.keys():
                del offsets.troubles[gone]
        for group in self._groups.keys() - self._quiet:
            before = self._groups[group]
            committed, moved = self._carry(offsets, group, before)
            self._groups[group] = committed
            if not moved and committed == before:
                self._quiet.add(group)
        self.troubles = dict(offsets.troubles)

    def _carry(self, offsets: GroupOffsets, group: str, before: Committed) -> tuple[Committed, bool]:
        """What it has committed, and whether something of that was committed in the target. Raises where a cluster is
        away; what is one group's keeps no other from being looked at."""
        committed = before
        try:
            committed = offsets.source.committed(group)
            return committed, bool(offsets.carry(group, committed))
        except (ottla.ConnectError, ottla.TimeoutError):
            raise
        except ottla.OttlaError as error:
            offsets.troubles[group] = str(error)
            return committed, False


class Heartbeats(Chore):
    """A record each second in the source's `heartbeats`: how old its copy is says how the flow is (KIP-382)."""

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
