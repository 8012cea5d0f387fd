"""The judge of coordinators compares the state of each shard in memory with what a load of its log gives (I21)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.growth.roles import part
from tests.world.cluster import Cluster
from tests.world.findings import Findings

from ottla_core.coordination.held_shard import HeldShard
from ottla_core.coordination.phases import Phase
from ottla_core.coordination.replay import Replay
from ottla_core.coordination.runtime import OwnedShards
from ottla_core.model import SHARD_TOPICS
from ottla_core.records.batch import iter_headers
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_group_coordinator.machines.states import GroupState
from ottla_txn_coordinator.machines.shard import TransactionShard

_WRITTEN: Final = (GroupState.EMPTY, GroupState.STABLE)
"""In these states a group equals its record. In the other states its next generation is only in memory."""


class Shards:
    """This judges the shards of all coordinators of a cluster that is at rest."""

    def __init__(self, cluster: Cluster, findings: Findings) -> None:
        self._cluster: Final = cluster
        self._findings: Final = findings

    def look(self) -> str:
        """Judge all shards. Return why that is not possible yet, or an empty text once they were judged."""
        owners = list(self._owners())
        for topic in SHARD_TOPICS.values():
            partitions = self._cluster.metadata.partitions_of(topic)
            serving = sorted(held.number for _, shards, held in owners if SHARD_TOPICS[shards.kind] == topic)
            if serving != list(range(partitions)):
                return f"of the {partitions} shards of {topic}, these are served: {serving}"
        for process, shards, held in owners:
            if held.owner.is_busy:
                return f"{shards.kind} shard {held.number} of {process} has decisions that are not written yet"
            loaded = self._loaded(shards, held)
            if loaded is None:
                return f"{shards.kind} shard {held.number} of {process} has not come to the end of its log"
            self._findings.counts["shards judged"] += 1
            unwritten = _unwritten(held.owner.shard)
            for name, (there, in_log) in _differences(_durable(held.owner.shard), _durable(loaded)).items():
                if name in unwritten:
                    continue
                self._findings.violate(
                    f"{process}, {shards.kind} shard {held.number}: {name} is {there}, and its log says {in_log}"
                )
        return ""

    def kept(self) -> list[str]:
        """Return what the owners keep of transactional ids, groups and offsets, by name."""
        return [name for _, _, held in self._owners() for name in _durable(held.owner.shard)]

    def _owners(self) -> Iterator[tuple[str, OwnedShards[Any], HeldShard[Any]]]:
        for name in self._cluster.coordinators:
            shards = part(self._cluster.apps[name], OwnedShards)
            for held in shards._held.values():
                if held.owner.phase is Phase.SERVING:
                    yield name, shards, held

    def _loaded(self, shards: OwnedShards[Any], held: HeldShard[Any]) -> Any:
        """Return what a new owner would load from the leader's disk, or None if this owner is not at the log's end."""
        topic = SHARD_TOPICS[shards.kind]
        leader = f"broker-{self._cluster.metadata.leader(topic, held.number)}"
        loaded: Any = shards._new_shard(held.number)
        with self._cluster.disks.inspected():
            paths = self._cluster.segments(leader, topic, held.number)
            log = b"".join(self._cluster.disks.read_bytes(path) for path in paths)
        end = max((header.next_offset for _, header in iter_headers(log)), default=0)
        if end != held.owner.next_offset:
            return None
        replay = Replay(held.owner.fence, end)
        replay.take(log)
        while replay.go_on(loaded):
            pass
        return loaded


def _durable(shard: Any) -> dict[str, Any]:
    """Return the parts of a shard's state that its log determines, by their names."""
    if isinstance(shard, TransactionShard):
        parts: dict[str, Any] = {f"transactional id {name}": record for name, record in shard.records()}
        parts |= {f"when {name} began": at for name, at in shard._started_at_ms.items()}
        return parts | {f"the number of ids {state.name}": count for state, count in shard.states.items() if count}
    assert isinstance(shard, GroupShard)
    parts = {f"group {name}": group.record() for name, group in shard._groups.items()}
    for name, consumers in shard._consumers.items():
        keys = tuple(consumers.keys())
        parts |= {f"of group {name}, {key}": consumers.value_of(key) for key in keys}
    for name, offsets in shard._offsets.items():
        parts |= {f"the offset of {name} in {partition}": offset for partition, offset in offsets.items()}
    for producer, held in shard.pending._by_producer.items():
        parts |= {f"what {producer} has pending in {key}": each.offset for key, each in held.items()}
    for topic, groups in shard._groups_in.items():
        parts[f"the groups that have committed in {topic}"] = dict(groups)
    for name, producers in shard.pending._producers.items():
        parts[f"the producers with offsets for {name}"] = producers
    transactions = shard.transactions
    for producer, epochs in [*transactions._ended._older.items(), *transactions._ended._newer.items()]:
        parts[f"ended producer {producer}"] = epochs
    return parts | {f"open producer {producer}": epochs for producer, epochs in transactions._open.items()}


def _unwritten(shard: Any) -> set[str]:
    """Return the names of the groups that may differ from their records, or have no record."""
    if not isinstance(shard, GroupShard):
        return set()
    groups = shard._groups.items()
    return {f"group {name}" for name, group in groups if group.state not in _WRITTEN or not group.generation}


def _differences(there: dict[str, Any], in_log: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*there, *in_log])
    return {name: (there.get(name), in_log.get(name)) for name in names if there.get(name) != in_log.get(name)}
