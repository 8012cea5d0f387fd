"""What still ties a broker to its partitions, where others could take its place."""

from __future__ import annotations

from ottla_core.cluster.image import ClusterImage, Partition


def leads_what_others_could(image: ClusterImage, broker_id: int) -> bool:
    """Whether a partition that this broker leads has another live in-sync replica (rule C8)."""
    return any(p.leader == broker_id and _has_others(image, p, broker_id) for p in image.partitions.values())


def is_in_sync_beside_others(image: ClusterImage, broker_id: int) -> bool:
    """Whether this broker is in an ISR that has another live member, and so could leave it (rule C15)."""
    return any(broker_id in p.isr and _has_others(image, p, broker_id) for p in image.partitions.values())


def _has_others(image: ClusterImage, partition: Partition, broker_id: int) -> bool:
    others = (image.brokers.get(r) for r in partition.isr if r != broker_id)
    return any(other is not None and not other.fenced and not other.shutting_down for other in others)
