"""The partitions that this broker follows from one leader, and the changes that the leader has yet to learn: the
follower's end of a fetch session (after KIP-227). Pure.

The leader assumes that a partition is as it was last named. So each change is named, or the partition is forgotten, in
the very next request: sending a request asserts that all else still holds (leadership_confirmation builds on that).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from ottla_core.model import PartitionId

R = TypeVar("R")


class Named(NamedTuple):
    """The leader epoch, the log's end and its start, as last reported to the leader."""

    leader_epoch: int
    log_end_offset: int
    log_start_offset: int


class FollowedLeader(Generic[R]):
    """`R` is what stands for a replica here."""

    def __init__(self) -> None:
        self.session_id = 0
        self.responses = 0
        self.begins = True
        """The next request begins the session: it names all."""
        self._followed: Final[dict[PartitionId, R]] = {}
        self._changed: Final[dict[PartitionId, None]] = {}
        self._named: Final[dict[PartitionId, Named]] = {}
        self._resting: Final[set[PartitionId]] = set()
        self._forgotten: Final[set[PartitionId]] = set()

    def begin(self, session_id: int) -> None:
        """The leader knows nothing."""
        self.session_id, self.responses, self.begins = session_id, 0, True
        self._named.clear()
        self._forgotten.clear()
        self._changed.clear()
        self._changed.update(dict.fromkeys(p for p in self._followed if p not in self._resting))

    # ---- what happens here -------------------------------------------------------------------------------------------

    def follow(self, partition_id: PartitionId, replica: R) -> None:
        """Begin to follow the partition, or follow it in another way."""
        self._withdraw(partition_id)
        self._followed[partition_id] = replica
        self._changed[partition_id] = None

    def leave(self, partition_id: PartitionId) -> None:
        self._withdraw(partition_id)
        self._followed.pop(partition_id, None)

    def rest(self, partition_id: PartitionId) -> None:
        """It is followed, and for now not fetched: until `resume`."""
        self._withdraw(partition_id)
        self._resting.add(partition_id)

    def resume(self, partition_id: PartitionId) -> None:
        """It is to be named: its log has changed, or its rest is over."""
        self._resting.discard(partition_id)
        if partition_id in self._followed:
            self._changed[partition_id] = None

    def _withdraw(self, partition_id: PartitionId) -> None:
        self._changed.pop(partition_id, None)
        self._resting.discard(partition_id)
        if self._named.pop(partition_id, None) is not None:
            self._forgotten.add(partition_id)

    # ---- the next request --------------------------------------------------------------------------------------------

    @property
    def followed(self) -> Collection[R]:
        return self._followed.values()

    def get(self, partition_id: PartitionId) -> R | None:
        return self._followed.get(partition_id)

    def named(self, partition_id: PartitionId) -> Named | None:
        return self._named.get(partition_id)

    def changed(self) -> list[tuple[PartitionId, R]]:
        """The partitions to be named, in the order in which they changed (rule 57)."""
        return [(p, self._followed[p]) for p in self._changed]

    def name(self, partition_id: PartitionId, named: Named) -> None:
        """The next request says so."""
        del self._changed[partition_id]
        self._named[partition_id] = named

    def take_forgotten(self) -> Iterable[PartitionId]:
        """Take the partitions that the next request forgets, before those that it names."""
        forgotten = list(self._forgotten)
        self._forgotten.clear()
        return forgotten
