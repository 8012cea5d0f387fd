"""What still ties a broker to its partitions, where others could take its place."""

from __future__ import annotations

from ottla_core.cluster.image import ClusterImage, Partition


def leads_what_others_could(image: ClusterImage, broker_id: int) -> bool:
    """Whether a partition that this broker leads has another live in-sync replica (rule C8)."""
    return any(p.leader == broker_id and _has_others(image, p, broker_id) for p in image.partitions.values())


def is_relied_upon(image: ClusterImage, broker_id: int) -> bool:
    """Whether a partition counts on all that this broker had: it leads it, or is in an ISR with others (rule C15).

    A leader would go on in its epoch, and write other records at offsets that followers may have. Members that are away
    count too: they may have what this broker has lost.
    """
    partitions = image.partitions.values()
    return any(p.leader == broker_id or (broker_id in p.isr and len(p.isr) > 1) for p in partitions)


def _has_others(image: ClusterImage, partition: Partition, broker_id: int) -> bool:
    others = (image.brokers.get(r) for r in partition.isr if r != broker_id)
    return any(other is not None and not other.fenced and not other.shutting_down for other in others)
