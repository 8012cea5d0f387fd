"""Which brokers an election may count on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_core.cluster.image import ClusterImage, Partition


@dataclass(frozen=True, slots=True)
class Availability:
    """Brokers as elections see them. `within_grace` are away or fenced and kept for the moment (rule C6)."""

    willing: frozenset[int]  # live, and not shutting down: may be elected
    live: frozenset[int]
    within_grace: frozenset[int]
    fenced: frozenset[int]
    read_only: frozenset[int]  # their disks take no appends: they lead where no other can
    tail_lost: frozenset[int]  # registered, fenced, and without proof that they have all they acknowledged (rule C15)
    directories: Mapping[int, str]  # of the registered ones
    restored: int  # which restoration of the metadata this is; a partition of another one is in doubt

    def lost(self, partition: Partition) -> frozenset[int]:
        """Return the members of ISR and ELR that may have lost acknowledged records."""
        return frozenset(
            b for b in (*partition.isr, *partition.elr) if b in self.tail_lost or self.has_moved(partition, b)
        )

    def has_moved(self, partition: Partition, broker_id: int) -> bool:
        """Return whether the broker is back with another directory than the replica's.

        Partitions of an older release note no directory.
        """
        noted = partition.directories.get(broker_id)
        return noted is not None and self.directories.get(broker_id, noted) != noted


def available(image: ClusterImage, within_grace: frozenset[int] = frozenset()) -> Availability:
    brokers = image.brokers.values()
    return Availability(
        willing=frozenset(b.id for b in brokers if not b.fenced and not b.shutting_down),
        live=frozenset(b.id for b in brokers if not b.fenced),
        within_grace=within_grace,
        fenced=frozenset(b.id for b in brokers if b.fenced),
        read_only=frozenset(b.id for b in brokers if b.read_only),
        tail_lost=frozenset(b.id for b in brokers if b.fenced and b.unclean),
        directories={b.id: b.directory_id for b in brokers},
        # No leader is elected by what is known to be older than the logs, also before the restoration is counted.
        restored=image.restored.count + image.is_behind,
    )
