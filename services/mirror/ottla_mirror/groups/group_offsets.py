"""A flow's group offsets are kept current in the target, and moved at failover and failback.

Both clusters are asked each time, because what the mirror has committed for a group may have expired or been deleted.
If a group has members in the cluster to commit in, they would overwrite the commit, so it is left alone and named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla_core.model import TopicPartition
from ottla_mirror.clusters.admin import CALL_S, Admin, Committed
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.machines.flows import FlowSettings
from ottla_mirror.machines.group_plan import Move, Ways, by_checkpoints, further, to_source, to_target
from ottla_mirror.machines.mirror_records import Checkpoint, read_checkpoint
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.syncing.flow_state import FlowState
from ottla_mirror.syncing.offset_syncs import OffsetSyncs
from ottla_mirror.syncing.topic_follower import records_of

_CHECKPOINTS_S: Final = 30.0


class GroupOffsets:
    """This object has connections to both clusters. `load` reads what was written before. For one thread."""

    def __init__(
        self,
        flow: FlowSettings,
        source: Cluster,
        target: Cluster,
        names: TopicNames,
        syncs: OffsetSyncs,
        state: FlowState,
    ) -> None:
        name = f"{flow.group}-groups"
        self.source: Final = source.open_admin(name)
        self.target: Final = target.open_admin(name)
        self._writer: Final = target.open_writer(name, delivery_s=_CHECKPOINTS_S)
        self._cluster: Final = target
        self._flow: Final = flow
        self._names: Final = names
        self._syncs: Final = syncs
        self._state: Final = state
        self._ways = Ways(syncs.translate, syncs.translate_back)
        self._checkpoints: Final[dict[str, dict[TopicPartition, Checkpoint]]] = {}
        self._copies: frozenset[str] = frozenset()

    def close(self) -> None:
        for client in (self.source, self.target, self._writer):
            client.close()

    def load(self) -> None:
        """Load the existing checkpoints, and the names of the target's topics."""
        self._copies = frozenset(self.target.topics())
        self._checkpoints.clear()
        for record in records_of(self._cluster, self._names.checkpoints, CALL_S):
            checkpoint = read_checkpoint(record.key, record.value)
            if checkpoint is not None:
                self._checkpoints.setdefault(checkpoint.group, {})[checkpoint.copy] = checkpoint

    def checkpoints(self, group: str) -> list[Checkpoint]:
        """Return the group's last checkpoints, which say where it resumes in the copies."""
        return list(self._of(group).values())

    @property
    def checkpointed(self) -> list[str]:
        """These are the groups that have checkpoints, and are translated."""
        return sorted(group for group in self._checkpoints if self._flow.takes_group(group))

    def in_source(self, *, timeout: float) -> list[str]:
        """Return the source's groups that are translated. Raises if the source can't be reached."""
        return [group for group in self.source.groups(timeout) if self._flow.takes_group(group)]

    def in_target(self, *, timeout: float) -> list[str]:
        """Return the target's groups that are translated. Raises if the target can't be reached."""
        return [group for group in self.target.groups(timeout) if self._flow.takes_group(group)]

    def look_at_topics(self, *, with_source: bool) -> None:
        """Find out which topics were created again since something was synced. Raises if a cluster is not reached.

        A group's commit since then is an offset of another topic.
        """
        copies = {source: self._names.copy_of(source) for source in self._syncs.sources()}
        in_target = self.target.topic_ids(dict.fromkeys(copy.topic for copy in copies.values()))
        in_source = self.source.topic_ids(dict.fromkeys(source.topic for source in copies)) if with_source else {}
        replaced = {}
        for source, copy in copies.items():
            begun = self._state.begun(copy)
            generation, topic_id = self._syncs.of(source) or (0, b"")
            if topic_id and in_source.get(source.topic, topic_id) != topic_id:
                replaced[source] = f"{source.topic} was recreated, and nothing has been copied from it yet"
            elif begun is not None and (begun.generation, in_target.get(copy.topic)) != (generation, begun.copy_id):
                replaced[source] = f"{copy.topic} was recreated, and nothing has been copied into it yet"
        self._ways = self._ways._replace(replaced=replaced)

    # ---- what is to be done ------------------------------------------------------------------------------------------

    def forward(self, group: str, committed: Committed) -> list[Move]:
        """Return the moves to the target for what a group has `committed` in the source."""
        known, present = self._of(group), self.target.committed(group)
        return list(to_target(committed, present, self._names, self._ways, known))

    def forward_from_last(self, group: str, committed: Committed) -> list[Move]:
        """Return the moves to the target at failover. If the group's offset has expired, its last checkpoint counts."""
        sources = {checkpoint: self._names.source_of(checkpoint.copy.topic) for checkpoint in self._living(group)}
        last = {TopicPartition(name, c.copy.partition): c.source_offset for c, name in sources.items() if name}
        return self.forward(group, {**last, **committed})

    def forward_by_checkpoints(self, group: str) -> list[Move]:
        """Return the moves to the target while the source is away."""
        present, replaced = self.target.committed(group), self._ways.replaced
        return list(by_checkpoints(self.checkpoints(group), present, self._names, replaced))

    def back(self, group: str) -> list[Move]:
        """Return the moves to the source of what a group has committed in the copies. If that has expired, its last
        checkpoints count."""
        committed = {**{c.copy: c.offset for c in self._living(group)}, **self.target.committed(group)}
        present, known = self.source.committed(group), self._of(group)
        return list(to_source(committed, present, self._names, self._ways, known))

    def _living(self, group: str) -> list[Checkpoint]:
        """Return the group's checkpoints in copies that exist."""
        return [checkpoint for checkpoint in self.checkpoints(group) if checkpoint.copy.topic in self._copies]

    # ---- doing it ----------------------------------------------------------------------------------------------------

    def checkpoint(self, group: str, moves: Sequence[Move]) -> None:
        """Write the checkpoints that have changed. Raises the error that prevents one from being written."""
        now = [Checkpoint(group, move.to, move.before, move.after) for move in moves if move.after is not None]
        self._write(group, [each for each in now if self._of(group).get(each.copy) != each])

    def checkpoint_in_target(self, group: str) -> None:
        """Write where the group is in the copies while it works there, since its offsets may expire there too. Raises
        like `checkpoint`."""
        committed, known = self.target.committed(group), self._of(group)
        self._write(group, list(further(group, committed, self._names, self._ways, known)))

    def _of(self, group: str) -> dict[TopicPartition, Checkpoint]:
        return self._checkpoints.get(group, {})

    def _write(self, group: str, changed: Sequence[Checkpoint]) -> None:
        if changed:
            for checkpoint in changed:
                key, value = checkpoint.record()
                self._writer.send(value, key=key, topic=self._names.checkpoints)
            self._writer.flush(_CHECKPOINTS_S)
            self._checkpoints[group] = {**self._of(group), **{checkpoint.copy: checkpoint for checkpoint in changed}}


def commit(cluster: Admin, group: str, moves: Sequence[Move]) -> bool:
    """Commit the group's due moves, and tell whether there were any. Raises NON_EMPTY_GROUP."""
    due = {move.to: move.after for move in moves if move.is_due and move.after is not None}
    if due:
        cluster.commit(group, due)
    return bool(due)
