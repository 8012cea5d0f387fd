"""Ottla's own mirror with Kafka itself as its source, and as its target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import pytest
from mirror_process import MirrorProcess
from peers.kafka.server import KafkaServer
from tests.compat.cells import MM2
from tests.compat.flows import PARTITIONS, RECORDS, Side
from waiting import wait_until

from ottla_stack.cluster import Cluster


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with KafkaServer(tmp_path_factory.mktemp("kafka") / "nodes") as server:
        yield server.bootstrap


def write_transactions(side: Side, topic: str, count: int) -> None:
    """Write transactions of ten records each, and abort every third one."""
    producer = confluent_kafka.Producer({"bootstrap.servers": side.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        for n in range(10):
            producer.produce(topic, b"%d.%d" % (number, n), partition=n % PARTITIONS)
        producer.commit_transaction(30) if number % 3 else producer.abort_transaction(30)


@MM2.cell
@pytest.mark.parametrize("source", ["Kafka", "ottla"])
def test_it_copies_exactly_once_and_groups_go_on(kafka: str, tmp_path: Path, source: str) -> None:
    with ExitStack() as ended:
        cluster = ended.enter_context(Cluster(txn_coordinators=1))
        ours, theirs = (cluster.bootstrap,) * 2, (kafka, f"kafka://{kafka}")
        (near, east_at), (far, west_at) = (theirs, ours) if source == "Kafka" else (ours, theirs)
        east, west, topic = Side("east", near), Side("west", far), f"from-{source}"
        east.create(topic)
        for partition in range(PARTITIONS):
            east.write(topic, partition, range(RECORDS))
        write_transactions(east, topic, 12)
        read = east.read_in_group(f"{topic}-readers", topic, RECORDS)
        at = {partition: len(rows) for partition, rows in read.items()}
        mirror = ended.enter_context(MirrorProcess(tmp_path, east_at, west_at, topic, delivery="exactly_once"))
        copy = f"east.{topic}"
        wait_until(lambda: west.partitions(copy) and west.read(copy) == east.read(topic))
        assert west.config(copy)["retention.ms"] == "-1"
        wait_until(lambda: west.committed(f"{topic}-readers").keys() == {(copy, n) for n in at})
        for kill in range(3):
            mirror.kill()
            east.write(topic, 0, range(1000 * (kill + 1), 1000 * (kill + 1) + RECORDS))
            write_transactions(east, topic, 3)
            mirror.start()
        wait_until(lambda: west.read(copy) == east.read(topic))
        left = {partition: rows[at.get(partition, 0) :] for partition, rows in east.read(topic).items()}
        count = sum(map(len, left.values()))
        assert west.read_in_group(f"{topic}-readers", copy, count) == {n: rows for n, rows in left.items() if rows}
        assert mirror.flow().trouble == ""
        mirror.terminate()
