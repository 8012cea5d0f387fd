"""What still ties a broker to its partitions, where others could take its place."""

from __future__ import annotations

from ottla_core.cluster.image import ClusterImage, Partition


def leads_what_others_could(image: ClusterImage, broker_id: int) -> bool:
    """Whether a partition that this broker leads has another live in-sync replica (rule C8)."""
    return any(p.leader == broker_id and _has_others(image, p, broker_id) for p in image.partitions.values())


def is_relied_upon(image: ClusterImage, broker_id: int) -> bool:
    """Whether a partition counts on all that this broker had: it leads it, or may be elected as it is (rule C15).

    A leader would go on in its epoch, and write other records at offsets that followers may have. What is in doubt
    counts on nobody (rule C18).
    """
    return any(broker_id in (p.leader, *p.isr, *p.elr) and not image.is_in_doubt(p) for p in image.partitions.values())


def _has_others(image: ClusterImage, partition: Partition, broker_id: int) -> bool:
    others = (image.brokers.get(r) for r in partition.isr if r != broker_id)
    return any(other is not None and not other.fenced and not other.shutting_down for other in others)
