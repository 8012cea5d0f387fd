"""The brokers that an election may count on, as one value that is read from the image once.

An election looks at thousands of partitions and asks the same questions of each: which brokers are live, which have
only lost their session, and which may have lost records. With one `Availability`, all of them are decided by the same
facts, and cheaply.

It only says how brokers are. `machines.standing` says what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_core.cluster.image import ClusterImage, Partition


@dataclass(frozen=True, slots=True)
class Availability:
    """Brokers as elections see them.

    Those `within_grace` are away or fenced, and count as present for the moment: they may have lost only their session.
    """

    willing: frozenset[int]  # live, and not shutting down: may be elected
    live: frozenset[int]
    within_grace: frozenset[int]
    fenced: frozenset[int]
    read_only: frozenset[int]  # their disks take no appends: they lead only if no other broker can
    tail_lost: frozenset[int]  # registered, fenced, and without proof of all they acknowledged (rule 21)
    directories: Mapping[int, str]  # those of the registered brokers
    restored: int  # which restoration of the metadata this is; a partition of another one is in doubt

    def lost(self, partition: Partition) -> frozenset[int]:
        """Return the members of ISR and ELR that may have lost acknowledged records."""
        return frozenset(
            b for b in (*partition.isr, *partition.elr) if b in self.tail_lost or self.has_moved(partition, b)
        )

    def has_moved(self, partition: Partition, broker_id: int) -> bool:
        """Return whether the broker is back with another directory than the replica's (I27).

        Partitions of an older release note no directory, and are taken as they are.
        """
        noted = partition.directories.get(broker_id)
        # A broker that is away has no directory, which is no move.
        return noted is not None and self.directories.get(broker_id, noted) != noted


def available(image: ClusterImage, within_grace: frozenset[int] = frozenset()) -> Availability:
    brokers = image.brokers.values()
    return Availability(
        willing=frozenset(b.id for b in brokers if not b.fenced and not b.shutting_down),
        live=frozenset(b.id for b in brokers if not b.fenced),
        within_grace=within_grace,
        fenced=frozenset(b.id for b in brokers if b.fenced),
        read_only=frozenset(b.id for b in brokers if b.read_only),
        # A broker counts here only while it is fenced: it is unfenced once no partition relies on what it may have
        # lost.
        tail_lost=frozenset(b.id for b in brokers if b.fenced and b.unclean),
        directories={b.id: b.directory_id for b in brokers},
        # If a broker is ahead of the metadata, no leader is elected, even before the restoration is counted. One more
        # than the count puts every partition in doubt.
        restored=image.restored.count + image.is_behind,
    )
