"""MirrorMaker 2 in its dedicated mode, unchanged, with ottla as its source, its target, and both.

After each test its log has no line of level ERROR, but for those that peers/mirror_maker/process.py names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from peers.kafka.server import KafkaServer
from peers.mirror_maker.remote import remote
from tests.compat.cells import MM2
from tests.compat.flows import KEPT, PARTITIONS, RECORDS, Mirror, Side, mirroring
from tests.compat.secured import is_secured

from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.timeout(900)

SYSTEMS = (("ottla", "ottla"), *(() if is_secured() else (("kafka", "ottla"), ("ottla", "kafka"))))
"""Kafka has no security here."""


@contextmanager
def begun(system: str, folder: Path) -> Iterator[str]:
    """A cluster of one broker, and the address of its Kafka listener."""
    if system == "kafka":
        with KafkaServer(folder, settings={"group.initial.rebalance.delay.ms": 0}) as kafka:
            yield kafka.bootstrap
    else:
        with Cluster() as cluster:
            yield cluster.bootstrap


@pytest.fixture(scope="module", params=SYSTEMS, ids=" to ".join)
def mirror(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    folder = tmp_path_factory.mktemp("mirror-maker")
    with ExitStack() as stack:
        names = ("source", "target")
        source, target = (
            Side(name, stack.enter_context(begun(system, folder / name)))
            for name, system in zip(names, request.param, strict=True)
        )
        source.create("orders", config={**KEPT, "max.message.bytes": "2000000"})
        for partition in range(PARTITIONS):
            source.write("orders", partition, range(RECORDS))
        (mirror,) = stack.enter_context(mirroring(folder, (source, target)))
        yield mirror


@MM2.cell
def test_topics_are_copied(mirror: Mirror) -> None:
    """One with records from before, and more of them; one that comes later; and a partition that is added."""
    mirror.until_copied("orders")
    for partition in range(PARTITIONS):
        mirror.source.write("orders", partition, range(RECORDS, 2 * RECORDS))
    mirror.source.create("returns")
    mirror.source.write("returns", 0, range(RECORDS))
    mirror.until_copied("orders")
    mirror.until_copied("returns")
    mirror.source.write("orders", mirror.source.add_partition("orders"), range(RECORDS))
    mirror.until_copied("orders")
    mirror.check_log()


@MM2.cell
def test_configs_are_synced(mirror: Mirror) -> None:
    """As the topic was created, and what is set and deleted afterwards."""

    def is_synced() -> bool:
        """By all names that both systems have."""
        source, target = mirror.source.config("orders"), mirror.target.config("source.orders")
        return all(source[name] == target[name] for name in source.keys() & target.keys())

    mirror.until(is_synced)
    assert mirror.target.config("source.orders")["max.message.bytes"] == "2000000"
    mirror.source.alter("orders", segment_bytes="2097152", cleanup_policy="compact,delete", max_message_bytes=None)
    mirror.until(is_synced)
    altered = mirror.target.config("source.orders")
    assert (altered["segment.bytes"], altered["cleanup.policy"]) == ("2097152", "compact,delete")
    assert altered["max.message.bytes"] != "2000000"
    mirror.check_log()


@MM2.cell
def test_a_group_goes_on_in_the_target(mirror: Mirror) -> None:
    """Where it has committed in the source, again and again, and where a program finds that by MirrorMaker's client."""
    mirror.source.create("payments")
    copy = "source.payments"
    for round_ in range(2):
        for partition in range(PARTITIONS):
            mirror.source.write("payments", partition, range(round_ * RECORDS, (round_ + 1) * RECORDS))
        mirror.source.read_in_group("readers", "payments", PARTITIONS * RECORDS)
        end = {(copy, partition): (round_ + 1) * RECORDS for partition in range(PARTITIONS)}
        mirror.until(lambda end=end: mirror.target.committed("readers") == end)
    for partition in range(PARTITIONS):
        mirror.source.write("payments", partition, range(2 * RECORDS, 3 * RECORDS))
    mirror.until_copied("payments")
    found = remote(mirror.target.bootstrap, "source", "readers")
    assert found.checkpoints == ["source.checkpoints.internal"]
    assert found.offsets == {f"{topic}-{partition}": offset for (topic, partition), offset in end.items()}
    new = {partition: rows[2 * RECORDS :] for partition, rows in mirror.source.read("payments").items()}
    assert mirror.target.read_in_group("readers", copy, PARTITIONS * RECORDS) == new
    mirror.check_log()


@MM2.cell
def test_heartbeats_arrive(mirror: Mirror) -> None:
    """Again and again; by them a program finds what is upstream of a cluster, and how far away."""
    beats: list[int] = []

    def beat() -> bool:
        beats.append(sum(mirror.target.ends("source.heartbeats").values()))
        return 0 < beats[0] < beats[-1] or beats[0] == 0 < beats[-1]

    mirror.until(beat)
    found = remote(mirror.target.bootstrap, "source", "readers")
    assert (found.upstream, found.hops) == (["source"], 1)
    assert "source.heartbeats" in found.heartbeats
    mirror.check_log()


@MM2.cell
def test_it_goes_on_after_a_restart(mirror: Mirror) -> None:
    """It copies what was written meanwhile, nothing a second time, and moves the group as before."""
    mirror.source.create("stock")
    for restarted in range(2):
        if restarted:
            mirror.maker.stop()
        mirror.source.write("stock", 0, range(restarted * RECORDS, (restarted + 1) * RECORDS))
        mirror.source.read_in_group("counters", "stock", RECORDS)
        if restarted:
            mirror.maker.start()
        mirror.until_copied("stock")
        end = {("source.stock", 0): (restarted + 1) * RECORDS}
        mirror.until(lambda end=end: mirror.target.committed("counters") == end)
        mirror.check_log()
