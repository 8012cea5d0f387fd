"""Guards of verifications under way: whether a transaction may still be the one that was verified (KIP-890, rule 39).

The txn-coordinator's response is true of the moment in which it was given. Before it arrives the transaction may end,
and its marker be written. A batch that is appended after that would open a transaction that no coordinator ends. So a
guard is made before the request, and any marker of the producer takes it away.

An addition of the partition that passes through its leader proves as much as a verification. The transaction has the
partition from then on, and the marker that ends it comes here, too. So the leader remembers the addition until the next
marker, and need not ask again before the first batch.
"""

from __future__ import annotations

from typing import NamedTuple


class AddedBy(NamedTuple):
    """The open transaction to which the partition was added."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class VerificationGuards:
    """The guards of one partition, at most one for each producer, and the additions that count."""

    __slots__ = ("_added", "_guards")

    def __init__(self) -> None:
        self._guards: dict[int, object] = {}
        self._added: dict[int, AddedBy] = {}

    def begin(self, producer_id: int) -> object:
        guard = self._guards[producer_id] = object()
        return guard

    def end(self, producer_id: int, guard: object) -> bool:
        """Return whether no marker has come since the guard was made. A guard is good for one append."""
        intact = self._guards.get(producer_id) is guard
        if intact:
            del self._guards[producer_id]
        return intact

    def begin_addition(self, producer_id: int) -> object | None:
        """Return the guard of an addition, or None if a verification is under way, whose guard must stay."""
        return None if producer_id in self._guards else self.begin(producer_id)

    def end_addition(self, added_by: AddedBy, guard: object, *, succeeded: bool) -> None:
        """Remember an addition that succeeded, unless a marker has come since it began."""
        if self.end(added_by.producer_id, guard) and succeeded:
            self._added[added_by.producer_id] = added_by

    def has_added(self, producer: AddedBy) -> bool:
        """Return whether the partition is known to be in this producer's open transaction."""
        return self._added.get(producer.producer_id) == producer

    def on_marker(self, producer_id: int) -> None:
        self._guards.pop(producer_id, None)
        self._added.pop(producer_id, None)

    def clear(self) -> None:
        """Forget everything, because another broker may write markers from now on."""
        self._guards.clear()
        self._added.clear()
