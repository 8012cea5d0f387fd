"""Mirrors from the cluster `east` to the cluster `west`, in the test's own process, and what they have copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ottla
from ottla.testing import Cluster
from ottla_core.clock import SystemClock
from ottla_mirror.flow import Flow
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings, check


@contextmanager
def mirrored(
    east: Cluster, west: Cluster, topic: str, delivery: str, *, mirrors: int = 1, **more: Any
) -> Iterator[list[Flow]]:
    """Mirrors of one flow while the block runs, which copies `topic` alone; `more` are settings of it."""
    clusters = (ClusterSettings("east", (east.bootstrap,)), ClusterSettings("west", (west.bootstrap,)))
    kind = {"delivery": delivery, "heartbeats": False, **more}
    flow = FlowSettings("east", "west", topics=(topic,), **kind)
    with running(MirrorSettings(clusters, (flow,)), mirrors) as flows:
        yield flows


@contextmanager
def running(settings: MirrorSettings, mirrors: int = 1) -> Iterator[list[Flow]]:
    """So many mirrors of all flows of a configuration while the block runs."""
    check(settings)
    flows = [Flow(flow, settings, n, SystemClock()) for n in range(mirrors) for flow in settings.flows]
    for flow in flows:
        flow.start()
    try:
        yield flows
    finally:
        for flow in flows:
            flow.stop()


def copied(west: Cluster, topic: str) -> list[ottla.Record[bytes, bytes]]:
    """All that is in the copy of `topic`, of committed transactions."""
    name = f"east.{topic}"
    with ottla.Admin(west.bootstrap) as admin:
        if not admin.topics.exists(name):
            return []
    return everything(west, name)


def everything(cluster: Cluster, topic: str) -> list[ottla.Record[bytes, bytes]]:
    """All records of committed transactions."""
    reads: dict[str, Any] = {"start": "earliest", "stop": "end", "key": "bytes", "value": "bytes"}
    return list(ottla.Consumer(topic, bootstrap=cluster.bootstrap, **reads))
