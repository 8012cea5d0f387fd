"""How long a partition was without an acknowledgement after its leader was hit."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tests.faults.history import Operation

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Hit:
    """One fault: what was done to whom, and which partitions it led. `until_ns` is when all was well again."""

    kind: str
    node: str
    at_ns: int
    until_ns: int
    partitions: tuple[int, ...]

    def ended(self, until_ns: int) -> Hit:
        return replace(self, until_ns=until_ns)


class Acknowledgements:
    """When each partition acknowledged something."""

    def __init__(self) -> None:
        self._at_ns: dict[int, array[int]] = {}

    def on_operation(self, operation: Operation) -> None:
        if operation["f"] == "send" and operation["type"] == "ok":
            self._at_ns.setdefault(operation["partition"], array("q")).append(operation["mono_ns"])

    def gap_ns(self, hit: Hit) -> int:
        """The longest time between two acknowledgements that the hit touches, over the partitions that it hit.

        It may begin before the hit and end after `until_ns`; a partition that never acknowledged again has a gap up to
        `until_ns`. 0 where the hit node led nothing.
        """
        return max((self._gap_ns(partition, hit) for partition in hit.partitions), default=0)

    def _gap_ns(self, partition: int, hit: Hit) -> int:
        instants = self.sorted_instants(partition)
        begin = max(0, bisect_right(instants, hit.at_ns) - 1)
        end = bisect_left(instants, hit.until_ns) + 1
        touched = instants[begin:end].tolist()
        if not touched or touched[0] > hit.at_ns:
            touched.insert(0, hit.at_ns)
        if touched[-1] < hit.until_ns:
            touched.append(hit.until_ns)
        return max(later - earlier for earlier, later in pairwise(touched))

    def sorted_instants(self, partition: int) -> array[int]:
        """Return the instants of one partition, sorted, because files of several writers follow each other."""
        instants = self._at_ns.get(partition, array("q"))
        if any(later < earlier for earlier, later in pairwise(instants)):
            instants = self._at_ns[partition] = array("q", sorted(instants))
        return instants


def percentile(values: Iterable[float], share: float) -> float:
    """Nearest rank: the smallest value that at least `share` of them do not exceed; 0 without any."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


def gaps_by_kind(hits: Sequence[Hit], acknowledgements: Acknowledgements) -> Mapping[str, list[float]]:
    """Seconds, of every hit that hit a leader."""
    gaps: dict[str, list[float]] = {}
    for hit in hits:
        if hit.partitions:
            gaps.setdefault(hit.kind, []).append(acknowledgements.gap_ns(hit) / SECOND_NS)
    return gaps
