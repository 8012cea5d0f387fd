"""The cluster with two group-coordinators, few shards, and a clock that can be moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.faults.cluster import FaultCluster
from tests.faults.groups.client import SHARDS
from tests.faults.network import Network

import ottla
from ottla_core.routing import shard_of
from ottla_core.rpc.client import Peer
from ottla_core.rpc.status import raise_error
from ottla_proto import group_pb2
from ottla_proto.contracts import Group

COORDINATORS: Final = 2
OFFSETS_TOPIC: Final = "__consumer_offsets"
RETENTION_MINUTES: Final = 120
"""The retention of offsets: twice as long as the clock is ever moved."""

_ASK_S: Final = 2.0
_FIRST_WAIT_MS: Final = 500


class GroupCluster(FaultCluster):
    """`mutant` names one of tests.faults.groups.mutants; clocks follow files (tests.faults.groups.launch)."""

    def __init__(self, directory: Path, network: Network, *, mutant: str = "") -> None:
        self._launched = mutant or "none"
        self.clock_files: Final = directory / "clocks"
        self.clock_files.mkdir(parents=True, exist_ok=True)
        self._peers: dict[str, Peer] = {}
        super().__init__(directory, network, coordinators=COORDINATORS)

    def module(self, kind: str) -> list[str]:
        return ["tests.faults.groups.launch", self._launched, str(self.clock_files), kind]

    def settings(self, kind: str) -> Mapping[str, object]:
        match kind:
            case "controller":
                return {"first-configs": f"offsets.topic.num.partitions={SHARDS}"}
            case "broker":
                return {"retention-check-interval-s": 1.0}
            case _:
                return {
                    "group-initial-rebalance-delay-ms": _FIRST_WAIT_MS,
                    "offsets-retention-minutes": RETENTION_MINUTES,
                    "offsets-retention-check-interval-ms": 1000,
                }

    def move_clock(self, name: str, seconds: float) -> None:
        """What the wall clock of that service shows from now on, beside what is true."""
        (self.clock_files / name).write_text(str(seconds), encoding="utf-8")

    # ---- what the cluster says of its groups ------------------------------------------------------------------------

    @property
    def coordinator_addresses(self) -> str:
        return ",".join(self.address(name) for name in self.coordinators)

    def owners(self) -> Mapping[int, str]:
        """The coordinator of each shard, "" where there is none, by the metadata of a broker; raises OttlaError.

        A coordinator that was replaced while it stood still says for a while that it has its shards.
        """
        statuses = self.admin().groups.shards(timeout=_ASK_S)
        return {
            status.shard: "" if status.coordinator is None else f"coordinator-{status.coordinator}"
            for status in statuses
        }

    def is_settled(self, groups: Sequence[str], members: int) -> bool:
        """Whether each of them is stable, with that many members."""
        try:
            return all(self._is_settled(group, members) for group in groups)
        except ottla.OttlaError:
            return False

    def _is_settled(self, group: str, members: int) -> bool:
        owner = self.owners()[shard_of(group, SHARDS)]
        asked = group_pb2.DescribeGroupsRequest(groups=[group])
        [told] = self._peer(owner).call(Group.DESCRIBE_GROUPS, asked, timeout=_ASK_S).groups
        return not told.error.code and told.state == "Stable" and len(told.members) == members

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """As one who is no member. Raises OttlaError."""
        parts = [group_pb2.OffsetToCommit(topic=topic, partition=p, offset=o) for p, o in offsets.items()]
        asked = group_pb2.CommitOffsetsRequest(group=group, generation=-1, offsets=parts)
        owner = self._peer(self.owners()[shard_of(group, SHARDS)])
        for outcome in owner.call(Group.COMMIT_OFFSETS, asked, timeout=_ASK_S).partitions:
            raise_error(outcome.error)

    def tell(self, group: str) -> str:
        """In words, how the group stands."""
        try:
            owner = self.owners()[shard_of(group, SHARDS)]
            asked = group_pb2.DescribeGroupsRequest(groups=[group])
            [told] = self._peer(owner).call(Group.DESCRIBE_GROUPS, asked, timeout=_ASK_S).groups
        except ottla.OttlaError as error:
            return str(error)
        return f"{told.error.message or told.state}, generation {told.generation}, {len(told.members)} members"

    def _peer(self, name: str) -> Peer:
        if name not in self._peers:
            self._peers[name] = Peer(self.address(name), client_id="faults")
        return self._peers[name]

    def kill(self) -> None:
        for peer in self._peers.values():
            peer.close()
        super().kill()
