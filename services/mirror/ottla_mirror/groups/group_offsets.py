"""Groups' offsets between the clusters of a flow: kept current in the target, and moved at failover and failback.

A group that has members where it is to be committed for is left alone, and named: it would commit over it.
"""

from __future__ import annotations

from typing import Final

from ottla_core.model import TopicPartition
from ottla_mirror.clusters.cluster import CALL_S, Cluster, Committed
from ottla_mirror.machines.flows import FlowSettings
from ottla_mirror.machines.group_plan import PositionMoved, brought_back, checkpoints_of, to_commit
from ottla_mirror.machines.mirror_records import Checkpoint, read_checkpoint
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.syncing.offset_syncs import OffsetSyncs
from ottla_mirror.syncing.topic_follower import records_of

_CHECKPOINTS_S: Final = 30.0


class GroupOffsets:
    """With connections to both clusters; `load` says what was written before. For one thread."""

    def __init__(
        self, flow: FlowSettings, source: Cluster, target: Cluster, names: TopicNames, syncs: OffsetSyncs
    ) -> None:
        name = f"{flow.group}-groups"
        self.source: Final = source.open_admin(name)
        self.target: Final = target.open_admin(name)
        self.troubles: Final[dict[str, str]] = {}
        """Why groups have not their offsets in the target, by their names."""
        self._writer: Final = target.open_writer(name, delivery_s=_CHECKPOINTS_S)
        self._cluster: Final = target
        self._flow: Final = flow
        self._names: Final = names
        self._syncs: Final = syncs
        self._checkpoints: Final[dict[str, dict[TopicPartition, Checkpoint]]] = {}
        self._current: Final[set[str]] = set()
        """The groups that were committed for since their last checkpoints."""

    def close(self) -> None:
        for client in (self.source, self.target, self._writer):
            client.close()

    def load(self) -> None:
        """The checkpoints that are there."""
        self._checkpoints.clear()
        self._current.clear()
        for record in records_of(self._cluster, self._names.checkpoints, CALL_S):
            checkpoint = read_checkpoint(record.key, record.value)
            if checkpoint is not None:
                self._checkpoints.setdefault(checkpoint.group, {})[checkpoint.copy] = checkpoint

    def positions(self, group: str) -> list[Checkpoint]:
        """Where it goes on in the copies, by its last checkpoints."""
        return list(self._checkpoints.get(group, {}).values())

    def in_source(self, *, timeout: float) -> list[str]:
        """The groups there that are translated. Raises where it is not reached."""
        return [group for group in self.source.groups(timeout) if self._flow.takes_group(group)]

    def carry(self, group: str, committed: Committed, *, everything: bool = False) -> list[PositionMoved]:
        """Write checkpoints of what the group has `committed` in the source, and commit it in the target; what was
        committed. Nothing is for a group that is current already, unless it is to be looked at again: `everything`.

        Raises what keeps either from being written; NON_EMPTY_GROUP.
        """
        translate = self._syncs.translate
        now = list(checkpoints_of(group, committed, self._names, translate))
        former = self._checkpoints.get(group, {})
        changed = [checkpoint for checkpoint in now if former.get(checkpoint.copy) != checkpoint]
        if not (changed or everything) and group in self._current:
            return []
        self._current.discard(group)
        for checkpoint in changed:
            key, value = checkpoint.record()
            self._writer.send(value, key=key, topic=self._names.checkpoints)
        self._writer.flush(_CHECKPOINTS_S)
        self._checkpoints[group] = former | {checkpoint.copy: checkpoint for checkpoint in now}
        if not (self._flow.sync_groups or everything):
            self._current.add(group)
            return []
        return self._commit(group, now, {copy: checkpoint.offset for copy, checkpoint in former.items()})

    def carry_last_known(self, group: str) -> list[PositionMoved]:
        """The same by its last checkpoints: the source is away."""
        now = self.positions(group)
        return self._commit(group, now, {checkpoint.copy: checkpoint.offset for checkpoint in now})

    @property
    def last_known(self) -> list[str]:
        """The groups that have checkpoints."""
        return sorted(self._checkpoints)

    def _commit(self, group: str, now: list[Checkpoint], former: Committed) -> list[PositionMoved]:
        commits = to_commit(now, self.target.committed(group), former)
        if commits:
            self.target.commit(group, commits)
        self._current.add(group)
        self.troubles.pop(group, None)
        return [self._moved(checkpoint) for checkpoint in now if checkpoint.copy in commits]

    def _moved(self, checkpoint: Checkpoint) -> PositionMoved:
        topic = self._names.source_of(checkpoint.copy.topic) or ""
        source = TopicPartition(topic, checkpoint.copy.partition)
        return PositionMoved(source, checkpoint.source_offset, checkpoint.copy, checkpoint.offset)

    def bring_back(self, group: str) -> list[PositionMoved]:
        """Commit for the group in the source where it is in the copies. Raises NON_EMPTY_GROUP."""
        committed = self.target.committed(group)
        moved = list(brought_back(committed, self._names, self._syncs.translate_back))
        if moved:
            self.source.commit(group, {position.copy: position.after for position in moved})
        return moved
