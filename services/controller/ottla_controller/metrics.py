"""The metrics that an operator looks at first, from the image of the active controller. A standby shows 0, as in
Kafka."""

from __future__ import annotations

from collections.abc import Callable

from ottla_controller.leadership import Leadership
from ottla_controller.machines.partition_index import (
    PartitionIndex,
    State,
    leaderless,
    under_replicated,
    unpreferred,
    with_elr,
    without_eligible,
)
from ottla_controller.presence import Presence
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage
from ottla_core.telemetry import Metrics


def add_metrics(
    metrics: Metrics, follower: MetadataFollower, index: PartitionIndex, leadership: Leadership, presence: Presence
) -> None:
    def gauge(name: str, help_text: str, count: Callable[[ClusterImage], int]) -> None:
        metrics.gauge(name, help_text, lambda: float(count(follower.image)) if leadership.active else 0.0)

    def partitions(name: str, help_text: str, state: State) -> None:
        gauge(f"ottla_controller_{name}", help_text, lambda image: len(index.where(state)))

    gauge("ottla_controller_active", "1 on the active controller, else 0.", lambda image: 1)
    partitions("offline_partitions", "Partitions without a leader.", leaderless)
    partitions("preferred_replica_imbalance", "Partitions whose leader is not the preferred one.", unpreferred)
    partitions("under_replicated_partitions", "Partitions with replicas out of sync.", under_replicated)
    partitions(
        "partitions_with_elr",
        "Partitions with eligible leader replicas: the ISR is below min.insync.replicas (KIP-966).",
        with_elr,
    )
    partitions(
        "partitions_to_recover",
        "Partitions without an eligible leader, whose logs decide who leads: after unclean stops or a restored store.",
        without_eligible,
    )
    gauge("ottla_controller_registered_brokers", "Brokers with a session.", lambda image: len(image.brokers))
    gauge(
        "ottla_controller_fenced_brokers",
        "Registered brokers that are fenced: they get no replicas and no leadership.",
        lambda image: sum(broker.fenced for broker in image.brokers.values()),
    )
    metrics.gauge(
        "ottla_controller_health_streams",
        "Processes whose crash this controller detects immediately: brokers or, on a standby, the active controller.",
        lambda: float(presence.held + leadership.watches_active),
    )
