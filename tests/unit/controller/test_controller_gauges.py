"""What an operator reads of the cluster: from the active controller, and 0 from a standby."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from partitions import image_with, index_of, partition

from ottla_controller.metrics import add_metrics
from ottla_core.model import NO_LEADER
from ottla_core.telemetry import Metrics


def read(*, active: bool) -> dict[str, float]:
    image = image_with(
        {0: {}, 1: {"fenced": True}},
        partition(0, 1),
        partition(1, 0, leader=0, isr=(0,)),
        partition(1, leader=NO_LEADER),
        partition(0, 1, isr=(0,)),
    )
    parts: Any = SimpleNamespace(image=image, active=active, watches_active=not active, held=0)
    metrics = Metrics()
    add_metrics(metrics, parts, index_of(image), parts, parts)
    values = {}
    for name, samples in metrics.samples.items():
        (gauge,) = samples.values()
        assert callable(gauge)
        values[name.removeprefix("ottla_controller_")] = gauge()
    return values


def test_the_active_controller_tells_how_the_cluster_is() -> None:
    assert read(active=True) == {
        "active": 1,
        "offline_partitions": 1,
        "preferred_replica_imbalance": 2,
        "under_replicated_partitions": 2,
        "registered_brokers": 2,
        "fenced_brokers": 1,
        "health_streams": 0,
        "partitions_with_elr": 0,
        "partitions_to_recover": 0,
    }


def test_a_standby_tells_only_whether_it_watches_the_active_one() -> None:
    values = read(active=False)
    assert values.pop("health_streams") == 1
    assert set(values.values()) == {0}
