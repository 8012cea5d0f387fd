"""The reasons why a departing broker is still tied to its partitions, though other brokers could take its place."""

from __future__ import annotations

from collections.abc import Iterator

from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.model import PartitionId


def leads_transferable(image: ClusterImage, broker_id: int) -> bool:
    """Return whether the broker leads a partition that another replica in sync could lead instead (rule C8)."""
    return any(p.leader == broker_id and _has_other_leaders(image, p, broker_id) for p in image.partitions.values())


def is_relied_upon(image: ClusterImage, broker_id: int) -> bool:
    """Return whether any partition counts on everything that this broker had."""
    return any(relied_upon(image, broker_id))


def relied_upon(image: ClusterImage, broker_id: int) -> Iterator[PartitionId]:
    """Yield the partitions that count on everything that this broker had: it leads them, or may be elected as it is.

    A broker that may have lost records is unfenced once there are none of these (rule C15). If it still led, it would
    go on in its epoch, and write other records at offsets that followers may have. A partition that is in doubt since
    the metadata was restored counts on no broker (rule C18).
    """
    for id_, partition in image.partitions.items():
        if broker_id in (partition.leader, *partition.isr, *partition.elr) and not image.is_in_doubt(partition):
            yield id_


def _has_other_leaders(image: ClusterImage, partition: Partition, broker_id: int) -> bool:
    rest = (image.brokers.get(r) for r in partition.isr if r != broker_id)
    return any(other is not None and not other.fenced and not other.shutting_down for other in rest)
