"""The flow's leader deletes the offset syncs of records that neither cluster has any more.

The topic is compacted and each sync has its own key, so without this the syncs would grow with all that was ever
written. Groups lose nothing: there is no record left that these syncs would lead to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla_core.model import TopicPartition
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.admin import CALL_S, Admin
from ottla_mirror.clusters.cluster import Cluster
from ottla_mirror.machines.mirror_records import read_offset_sync, read_sync_key, retired_headers
from ottla_mirror.machines.offset_map import GONE
from ottla_mirror.machines.sync_retention import Retirable, Retiring
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.syncing.flow_state import FlowState
from ottla_mirror.syncing.offset_syncs import OffsetSyncs
from ottla_mirror.syncing.topic_follower import records_of

_LOOK_S: Final = 600.0
"""This is the time between two looks. If something may be deleted, a look reads the offset syncs once."""

_WRITE_S: Final = 30.0


class SyncRetention(Chore):
    """A chore that does it for one flow."""

    def __init__(
        self,
        name: str,
        source: Cluster,
        target: Cluster,
        names: TopicNames,
        syncs: OffsetSyncs,
        state: FlowState,
    ) -> None:
        super().__init__(f"{name}: obsolete offset syncs can't be deleted at the moment")
        self._name: Final = name
        self._source: Final = source
        self._target: Final = target
        self._names: Final = names
        self._syncs: Final = syncs
        self._state: Final = state
        self._missed: frozenset[TopicPartition] = frozenset()  # partitions that neither cluster had at the last look
        self._deleted_for: Mapping[TopicPartition, Retirable] = {}
        """This has what was retirable when the offset syncs were read last."""

    def work(self) -> None:
        client = f"{self._name}-sync-retention"
        with self._source.open_admin(client) as source, self._target.open_admin(client) as target:
            while not self.stopping.wait(_LOOK_S):
                if self._state.acts and self._syncs.caught_up:
                    self._delete_where_due(self._retirable(source, target))
                self.went_well()

    def _retirable(self, source: Admin, target: Admin) -> dict[TopicPartition, Retirable]:
        """Return what is retirable, by the source's partitions. A listing may be stale, so a partition counts as gone
        only if neither cluster has it in two looks."""
        partitions = self._syncs.sources()
        copies = {p: self._names.copy_of(p) for p in partitions}
        source_starts, copy_starts = _starts(source, partitions), _starts(target, copies.values())
        found = {p: self._syncs.retirable(p, source_starts.get(p), copy_starts.get(copies[p])) for p in partitions}
        missed = frozenset(p for p, known in found.items() if known is not None and known.before == GONE)
        early, self._missed = missed - self._missed, missed
        return {p: known for p, known in found.items() if known is not None and p not in early}

    def _delete_where_due(self, partitions: Mapping[TopicPartition, Retirable]) -> None:
        if any(known.has_more_than(self._deleted_for.get(p)) for p, known in partitions.items()):
            self._delete(partitions)
            self._deleted_for = partitions

    def _delete(self, partitions: Mapping[TopicPartition, Retirable]) -> None:
        topic, retiring = self._names.offset_syncs, Retiring(partitions)
        for record in records_of(self._target, topic, CALL_S):
            if (key := read_sync_key(record.key)) is not None:
                retiring.look_at(record.key, key, read_offset_sync(record.key, record.value, record.headers))
        if due := retiring.due():
            with self._target.open_writer(f"{self._name}-sync-retention", delivery_s=_WRITE_S) as writer:
                for record_key, (synced, before) in due.items():
                    writer.send(None, key=record_key, headers=retired_headers(synced, before), topic=topic)
                writer.flush(_WRITE_S)


def _starts(cluster: Admin, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
    """Return the log start offsets of those partitions that the cluster has."""
    counts = cluster.topics()
    return cluster.starts([at for at in partitions if at.partition < counts.get(at.topic, 0)])
