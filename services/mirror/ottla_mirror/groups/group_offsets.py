"""Groups' offsets between the clusters of a flow: kept current in the target, and moved at failover and failback.

Each time both clusters are asked: what the mirror has committed for a group may have expired since, or been deleted. A
group that has members where it is to be committed for is left alone, and named: it would commit over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla_core.model import TopicPartition
from ottla_mirror.clusters.cluster import CALL_S, Admin, Cluster, Committed
from ottla_mirror.machines.flows import FlowSettings
from ottla_mirror.machines.group_plan import Move, by_checkpoints, to_source, to_target
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
        self._writer: Final = target.open_writer(name, delivery_s=_CHECKPOINTS_S)
        self._cluster: Final = target
        self._flow: Final = flow
        self._names: Final = names
        self._syncs: Final = syncs
        self._checkpoints: Final[dict[str, dict[TopicPartition, Checkpoint]]] = {}

    def close(self) -> None:
        for client in (self.source, self.target, self._writer):
            client.close()

    def load(self) -> None:
        """The checkpoints that are there."""
        self._checkpoints.clear()
        for record in records_of(self._cluster, self._names.checkpoints, CALL_S):
            checkpoint = read_checkpoint(record.key, record.value)
            if checkpoint is not None:
                self._checkpoints.setdefault(checkpoint.group, {})[checkpoint.copy] = checkpoint

    def checkpoints(self, group: str) -> list[Checkpoint]:
        """Where it goes on in the copies, by its last checkpoints."""
        return list(self._checkpoints.get(group, {}).values())

    @property
    def checkpointed(self) -> list[str]:
        """The groups that have checkpoints."""
        return sorted(self._checkpoints)

    def in_source(self, *, timeout: float) -> list[str]:
        """The groups there that are translated. Raises where it is not reached."""
        return [group for group in self.source.groups(timeout) if self._flow.takes_group(group)]

    def in_target(self, *, timeout: float) -> list[str]:
        """Those that are there. Raises where it is not reached."""
        return [group for group in self.target.groups(timeout) if self._flow.takes_group(group)]

    # ---- what is to be done ------------------------------------------------------------------------------------------

    def forward(self, group: str, committed: Committed) -> list[Move]:
        """What a group has `committed` in the source, for the target."""
        known, present = self._checkpoints.get(group, {}), self.target.committed(group)
        return list(to_target(committed, present, self._names, self._syncs.translate, known))

    def forward_by_checkpoints(self, group: str) -> list[Move]:
        """The same where the source is away."""
        return list(by_checkpoints(self.checkpoints(group), self.target.committed(group), self._names))

    def back(self, group: str) -> list[Move]:
        """What a group has committed in the copies, for the source."""
        committed, present = self.target.committed(group), self.source.committed(group)
        return list(to_source(committed, present, self._names, self._syncs.translate_back))

    # ---- doing it ----------------------------------------------------------------------------------------------------

    def checkpoint(self, group: str, moves: Sequence[Move]) -> None:
        """Write the checkpoints that have changed. Raises what keeps one from being written."""
        known = self._checkpoints.setdefault(group, {})
        now = [Checkpoint(group, move.to, move.before, move.after) for move in moves if move.after is not None]
        changed = [checkpoint for checkpoint in now if known.get(checkpoint.copy) != checkpoint]
        if changed:
            for checkpoint in changed:
                key, value = checkpoint.record()
                self._writer.send(value, key=key, topic=self._names.checkpoints)
            self._writer.flush(_CHECKPOINTS_S)
            known.update((checkpoint.copy, checkpoint) for checkpoint in changed)


def commit(cluster: Admin, group: str, moves: Sequence[Move]) -> bool:
    """Commit for the group what is due; whether anything was. Raises NON_EMPTY_GROUP."""
    due = {move.to: move.after for move in moves if move.is_due and move.after is not None}
    if due:
        cluster.commit(group, due)
    return bool(due)
