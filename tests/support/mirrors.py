"""Mirrors from the cluster `east` to the cluster `west`, in the test's own process, and what they have copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ottla
from ottla.testing import Cluster
from ottla_core.clock import SystemClock
from ottla_core.security.secret import Secret
from ottla_mirror.flow import Flow
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings, check
from ottla_mirror.syncing.offset_syncs import OffsetSyncs


@contextmanager
def mirrored(
    east: Cluster,
    west: Cluster,
    topic: str,
    delivery: str,
    *,
    mirrors: int = 1,
    balance_s: float = 300.0,
    redis: str = "",
    **more: Any,
) -> Iterator[list[Flow]]:
    """Mirrors of one flow while the block runs, which copies `topic` alone; `more` are settings of it."""
    clusters = tuple(
        ClusterSettings(alias, tuple(at.bootstrap.split(","))) for alias, at in (("east", east), ("west", west))
    )
    kind = {"delivery": delivery, "heartbeats": False, **more}
    flow = FlowSettings("east", "west", topics=(topic,), **kind)
    with running(MirrorSettings(clusters, (flow,), Secret(redis)), mirrors, balance_s) as flows:
        yield flows


@contextmanager
def brokers_that_know(*mirrors: str) -> Iterator[Cluster]:
    """Run a cluster of one broker that forwards calls to the mirrors at these addresses."""
    cluster = Cluster(brokers=1, group_coordinators=0)
    for broker in cluster.brokers:
        broker._config = replace(broker._config, mirrors=mirrors)
    with cluster:
        yield cluster


@contextmanager
def running(settings: MirrorSettings, mirrors: int = 1, balance_s: float = 300.0) -> Iterator[list[Flow]]:
    """So many mirrors of all flows of a configuration while the block runs."""
    check(settings)
    made = [(flow, n) for n in range(mirrors) for flow in settings.flows]
    flows = [Flow(flow, settings, n, SystemClock(), balance_s=balance_s) for flow, n in made]
    for flow in flows:
        flow.start()
    try:
        yield flows
    finally:
        for flow in flows:
            flow.stop()


def write_of_all_kinds(east: Cluster, topic: str) -> int:
    """Records of each codec, and of transactions of which every other one is aborted. How many there are to be read."""
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        east.produce(topic, [{"codec": codec, "n": n} for n in range(200)], compression=codec)
    with ottla.Producer(east.bootstrap, topic=topic, transactional_id=f"t-{topic}") as producer:
        for number in range(6):
            producer.init_transactions() if number == 0 else None
            producer.begin_transaction()
            for n in range(10):
                producer.send({"transaction": number, "n": n}, key=b"k%d" % n, headers={"h": b"1", "none": None})
            producer.commit_transaction() if number % 2 else producer.abort_transaction()
    return 200 * len(codecs) + 30


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


def by_partition(records: Sequence[ottla.Record[bytes, bytes]]) -> dict[int, list[tuple[object, ...]]]:
    found: dict[int, list[tuple[object, ...]]] = {}
    for record in records:
        content = (record.key, record.value, tuple(record.headers), record.timestamp)
        found.setdefault(record.partition, []).append(content)
    return found


def written(east: Cluster, topic: str) -> dict[int, list[tuple[object, ...]]]:
    return by_partition(everything(east, topic))


def assert_exact(offsets: OffsetSyncs, east: Cluster, west: Cluster, topic: str) -> None:
    """Readers at each record of the source, whose values are all different, go on with that very record."""
    copies = {(record.partition, record.value): record.offset for record in copied(west, topic)}
    for record in everything(east, topic):
        found = offsets.translate(ottla.TopicPartition(topic, record.partition), record.offset)
        assert found is not None
        after = min(at for (partition, _), at in copies.items() if partition == record.partition and at >= found)
        assert after == copies[record.partition, record.value], f"{record.offset} translates to {found}"
