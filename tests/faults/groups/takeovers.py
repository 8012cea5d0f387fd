"""How long a shard's groups could not commit after a fault. Pure: operations and hits in, seconds out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

from tests.faults.gaps import SECOND_NS, Hit
from tests.faults.history import Operation

NEVER_S: Final = 1e9


class Takeovers:
    """Feed it every operation. `shard_of` gives the shard of each group that counts.

    A group that is rebalancing waits for its members too, those who are gone among them, whoever coordinates it.
    """

    def __init__(self, shard_of: Mapping[str, int]) -> None:
        self._shard_of = shard_of
        self._asked: dict[tuple[str, int], int] = {}
        self._commits: dict[int, list[tuple[int, int]]] = {}  # shard: (asked, acknowledged)

    def on_operation(self, operation: Operation) -> None:
        if operation["f"] != "commit":
            return
        key = operation["process"], operation["id"]
        if operation["type"] == "invoke":
            self._asked[key] = operation["mono_ns"]
        elif operation["type"] == "ok" and operation["group"] in self._shard_of:
            commits = self._commits.setdefault(self._shard_of[operation["group"]], [])
            commits.append((self._asked.pop(key), operation["mono_ns"]))

    def seconds(self, hits: Sequence[Hit]) -> Mapping[str, list[float]]:
        """By kind of hit and for every shard that it hit: until the first answer to a commit that was sent after it."""
        by_shard = {shard: sorted(commits) for shard, commits in self._commits.items()}
        taken: dict[str, list[float]] = {}
        for hit in hits:
            for shard in hit.partitions:
                if commits := by_shard.get(shard):
                    later = commits[bisect_left(commits, (hit.at_ns, 0)) :]
                    first_ns = min((answered for _, answered in later), default=None)
                    s = NEVER_S if first_ns is None else (first_ns - hit.at_ns) / SECOND_NS
                    taken.setdefault(hit.kind, []).append(s)
        return taken
