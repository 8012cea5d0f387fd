"""A member of a consumer group: its own data, and its assignment."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_group_coordinator.machines.consumer.partitions import NO_EPOCHS, EpochOfPartition
from ottla_group_coordinator.machines.consumer.states import MemberState

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_NOW: Final = -2
"""A static member with this epoch keeps its place until its session ends."""


class ClassicProtocols(NamedTuple):
    """What a classic member has sent in its join: its assignors with their metadata, preferred ones first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.protocols)


class MemberMetadata(NamedTuple):
    """`classic` is None for a member of the consumer protocol."""

    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocols | None = None


class CurrentAssignment(NamedTuple):
    """A member's assignment. `revoking` are partitions that it has to give up, and owns until then."""

    epoch: int = JOINS
    previous_epoch: int = JOINS
    state: MemberState = MemberState.STABLE
    assigned: EpochOfPartition = NO_EPOCHS
    revoking: EpochOfPartition = NO_EPOCHS


class ConsumerMember(NamedTuple):
    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def client_id(self) -> str:
        return self.metadata.client_id

    @property
    def client_host(self) -> str:
        return self.metadata.client_host

    @property
    def epoch(self) -> int:
        return self.current.epoch

    @property
    def is_classic(self) -> bool:
        return self.metadata.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.current.epoch == epoch and self.current.state is MemberState.STABLE
