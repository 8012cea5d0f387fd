"""A follower keeps the partitions that it follows from one leader, and the changes that this leader has yet to learn.

A broker follows thousands of partitions, few of which change between two fetches. If each fetch named all of them, an
idle cluster would be busy with fetches. So both ends keep a session, after KIP-227. The first fetch names every
partition with its offset, and later ones name only what has changed. This module is the follower's end, and is pure.

The leader assumes that a partition is as it was last named. So each change is named, or the partition is forgotten, in
the very next request. That makes silence a statement: sending a request asserts that all else still holds, in the
leader epochs that were named. `leadership_confirmation` builds on it. A partition that the follower has left must
therefore never stay in the session.
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
    """One leader's partitions. `R` is the caller's type for a replica."""

    def __init__(self) -> None:
        self.session_id = 0
        self.responses = 0
        self.begins = True
        """It is true if the next request begins the session, so that it names all partitions."""
        self._followed: Final[dict[PartitionId, R]] = {}
        # This is a dict, because of its order: partitions are named in the order in which they changed, so none starves
        # (rule 57).
        self._changed: Final[dict[PartitionId, None]] = {}
        # These are what the leader believes now, as far as it was named in this session.
        self._named: Final[dict[PartitionId, Named]] = {}
        # These are not named while their logs are truncated, or for a while after an error.
        self._resting: Final[set[PartitionId]] = set()
        # The leader has these in its session, and has to drop them with the next request.
        self._forgotten: Final[dict[PartitionId, None]] = {}

    def begin(self, session_id: int) -> None:
        """Begin a session in which the leader knows nothing yet."""
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
        """Follow the partition no longer."""
        self._withdraw(partition_id)
        self._followed.pop(partition_id, None)

    def rest(self, partition_id: PartitionId) -> None:
        """Keep the partition out of fetches until `resume`. It is still followed."""
        self._withdraw(partition_id)
        self._resting.add(partition_id)

    def resume(self, partition_id: PartitionId) -> None:
        """Name the partition with the next request, because its log has changed or its rest is over."""
        self._resting.discard(partition_id)
        if partition_id in self._followed:
            self._changed[partition_id] = None

    def _withdraw(self, partition_id: PartitionId) -> None:
        self._changed.pop(partition_id, None)
        self._resting.discard(partition_id)
        # Only what was named has to be forgotten: a leader that never heard of the partition has nothing to drop.
        if self._named.pop(partition_id, None) is not None:
            self._forgotten[partition_id] = None

    # ---- the next request --------------------------------------------------------------------------------------------

    @property
    def followed(self) -> Collection[R]:
        return self._followed.values()

    def get(self, partition_id: PartitionId) -> R | None:
        return self._followed.get(partition_id)

    def named(self, partition_id: PartitionId) -> Named | None:
        return self._named.get(partition_id)

    def changed(self) -> list[tuple[PartitionId, R]]:
        """Return the partitions to be named, in the order in which they changed, so that none starves (rule 57)."""
        return [(p, self._followed[p]) for p in self._changed]

    def name(self, partition_id: PartitionId, named: Named) -> None:
        """Note that the next request says so. The leader assumes it from then on."""
        del self._changed[partition_id]
        self._named[partition_id] = named

    def take_forgotten(self) -> Iterable[PartitionId]:
        """Take the partitions that the next request forgets. It forgets them before it names others, since it may name
        one again."""
        forgotten = list(self._forgotten)
        self._forgotten.clear()
        return forgotten
