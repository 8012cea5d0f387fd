"""Where leader epochs begin in the logs of a partition's replicas, and whether the replicas agree on it (I43). Pure.

A replica finds by its epochs where its log leaves its leader's (KIP-101). If an epoch begins later in an in-sync
replica than elsewhere, that replica may take records of a former leader for its own once it leads. So the epochs of all
in-sync replicas are equal wherever all of them have committed records. They may differ before the latest of the log
starts, and where nothing is committed yet: a leader's epoch begins before it has its first record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

R = TypeVar("R")


class EpochStart(NamedTuple):
    """A leader epoch, and the offset at which it began."""

    epoch: int
    start_offset: int


class ReplicaEpochs(NamedTuple):
    """The epochs of one replica, oldest first, of a log that starts at `start_offset` and is committed up to
    `high_watermark` (exclusive), as far as that replica knows."""

    entries: Sequence[EpochStart]
    start_offset: int
    high_watermark: int

    def between(self, start: int, end: int) -> tuple[EpochStart, ...]:
        """Return the epochs of the offsets from `start` to before `end`. The first of them begins at `start`."""
        first = [EpochStart(entry.epoch, start) for entry in self.entries if entry.start_offset <= start]
        return (*first[-1:], *(entry for entry in self.entries if start < entry.start_offset < end))


def unequal_epochs(replicas: Mapping[R, ReplicaEpochs]) -> dict[R, tuple[EpochStart, ...]]:
    """Return the epochs of each in-sync replica where all of them have committed records, or nothing if they are
    equal."""
    start = max((replica.start_offset for replica in replicas.values()), default=0)
    end = min((replica.high_watermark for replica in replicas.values()), default=0)
    if start >= end:
        return {}
    found = {name: replica.between(start, end) for name, replica in replicas.items()}
    return {} if len(set(found.values())) == 1 else found
