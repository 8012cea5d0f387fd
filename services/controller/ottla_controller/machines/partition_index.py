"""An index tells which partitions each broker has a replica of, and which are not as they should be. Otherwise that
would take a walk through all of them. Changes of the image keep it up to date.

So the death of a broker costs as much as it has partitions, and an idle partition costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, KeysView, Mapping
from typing import Final

from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.model import NO_LEADER, PartitionId

State = Callable[[Partition], bool]


def leaderless(partition: Partition) -> bool:
    return partition.leader == NO_LEADER


def unpreferred(partition: Partition) -> bool:
    """Return whether another than the preferred leader leads, or none."""
    return partition.leader != partition.replicas[0]


def under_replicated(partition: Partition) -> bool:
    return len(partition.isr) < len(partition.replicas)


def with_elr(partition: Partition) -> bool:
    return bool(partition.elr)


def without_eligible(partition: Partition) -> bool:
    return partition.has_none_eligible


class PartitionIndex:
    """Indexes the image that it followed last. The views that it returns are its own: the next image changes them."""

    def __init__(self) -> None:
        self.preferred: Final[Counter[int]] = Counter()
        """It counts the partitions for which each broker is the preferred leader."""
        self._image: ClusterImage | None = None
        self._of: Final[dict[int, dict[PartitionId, None]]] = {}
        states = (leaderless, unpreferred, under_replicated, with_elr, without_eligible)
        self._where: Final[dict[State, dict[PartitionId, None]]] = {state: {} for state in states}

    def of(self, broker_id: int) -> KeysView[PartitionId]:
        """Return the partitions of which the broker has a replica."""
        return self._of.get(broker_id, {}).keys()

    def where(self, state: State) -> KeysView[PartitionId]:
        """Return the partitions for which this one of the states above holds."""
        return self._where[state].keys()

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Go on to `new`. If it is not known what differs from the last image, begin from the beginning."""
        changed: Iterable[PartitionId] | None = new.changed_partitions
        before: Mapping[PartitionId, Partition] = old.partitions
        if changed is None or old is not self._image:
            changed, before = new.partitions, {}
            self._of.clear()
            self.preferred.clear()
            for ids in self._where.values():
                ids.clear()
        for id_ in changed:
            self._note(id_, before.get(id_), new.partitions.get(id_))
        self._image = new

    def concerned(self, old: ClusterImage, new: ClusterImage) -> KeysView[PartitionId]:
        """Return the partitions whose election may end differently in `new`, which was followed. `old` is the image
        before.

        Of the brokers, only a partition's replicas count. The cluster's configs count for partitions that may be
        without a leader. If `new` could not be followed, all partitions are returned, so that none is missed.
        """
        changed = new.changed_partitions
        whole = new is not self._image or new.restored is not old.restored or new.is_behind != old.is_behind
        if changed is None or whole:
            return new.partitions.keys()
        concerned = dict.fromkeys(changed)
        if new.configs is not old.configs:
            concerned |= self._where[leaderless]
        if new.brokers is not old.brokers:
            for broker_id in {*old.brokers, *new.brokers}:
                if old.brokers.get(broker_id) is not new.brokers.get(broker_id):
                    concerned |= self._of.get(broker_id, {})
        return concerned.keys()

    def _note(self, id_: PartitionId, before: Partition | None, after: Partition | None) -> None:
        were = before.replicas if before is not None else ()
        are = after.replicas if after is not None else ()
        if were != are:
            for broker_id in were:
                self._of[broker_id].pop(id_, None)
            for broker_id in are:
                self._of.setdefault(broker_id, {})[id_] = None
            self.preferred.subtract(were[:1])
            self.preferred.update(are[:1])
        for state, ids in self._where.items():
            if after is not None and state(after):
                ids[id_] = None
            else:
                ids.pop(id_, None)
