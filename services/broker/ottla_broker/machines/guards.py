"""Guards of verifications under way: whether a transaction may still be the one that was verified (KIP-890, rule 39).

The txn-coordinator's response is true of the moment in which it was given. Before it arrives the transaction may end,
and its marker be written; what is appended then would open a transaction that no one ends. So a guard is made before
the request, and any marker of the producer takes it away.
"""

from __future__ import annotations


class VerificationGuards:
    """The guards of one partition, at most one for each producer."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, object] = {}

    def begin(self, producer_id: int) -> object:
        guard = self._guards[producer_id] = object()
        return guard

    def end(self, producer_id: int, guard: object) -> bool:
        """Whether no marker has come since it began; a guard is good for one append."""
        intact = self._guards.get(producer_id) is guard
        if intact:
            del self._guards[producer_id]
        return intact

    def on_marker(self, producer_id: int) -> None:
        self._guards.pop(producer_id, None)
