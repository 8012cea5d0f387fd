"""Ottla's own mirror with Apache Kafka as its source, as its target, and as both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from mirror_process import MirrorProcess
from peers.kafka.server import KafkaServer
from peers.mirror_maker.remote import Remote, remote
from tests.compat.cells import CODECS, MM2
from tests.compat.flows import LIMIT_S, PARTITIONS, RECORDS, Side
from waiting import wait_until

import ottla
from ottla.connect import BatchReader
from ottla_core.records.batch import HEADER_SIZE, iter_headers
from ottla_stack.cluster import Cluster

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "log.cleaner.backoff.ms": 200}
SMALL = 32
"""Batches of at most this many records may be joined."""

EACH_WAY = pytest.mark.parametrize(
    ("source", "target"), [("Kafka", "ottla"), ("ottla", "Kafka"), ("Kafka", "Kafka")], ids=str
)


class Sites(NamedTuple):
    """Two clusters of Apache Kafka."""

    near: str
    far: str


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with ExitStack() as ended:
        servers = [
            ended.enter_context(KafkaServer(tmp_path_factory.mktemp(name) / "nodes", settings=SETTINGS, heap="512m"))
            for name in Sites._fields
        ]
        yield Sites(*(server.bootstrap for server in servers))


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with Cluster(txn_coordinators=1) as cluster:
        yield cluster.bootstrap


@pytest.fixture
def sides(kafkas: Sites, ours: str, source: str, target: str) -> tuple[Side, Side]:
    near = kafkas.near if source == "Kafka" else ours
    return Side("east", near), Side("west", kafkas.far if target == "Kafka" else ours)


def write_transactions(side: Side, topic: str, count: int) -> None:
    """Write transactions of ten records each, and abort every third one."""
    producer = confluent_kafka.Producer({"bootstrap.servers": side.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        for n in range(10):
            producer.produce(topic, b"%d.%d" % (number, n), partition=n % PARTITIONS)
        producer.commit_transaction(30) if number % 3 else producer.abort_transaction(30)


def write_in_codecs(side: Side, topic: str) -> None:
    """Write large batches of each codec."""
    for codec in CODECS:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": side.bootstrap, "compression.type": codec, "linger.ms": 200}
        )
        for n in range(RECORDS):
            producer.produce(topic, b"%d of %s" % (n, codec.encode()), b"key", partition=n % PARTITIONS)
        assert producer.flush(30) == 0


def large_batches(side: Side, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    """Return codec and records, as they are stored, of the batches that a mirror does not join with others."""
    found: dict[int, list[tuple[int, bytes]]] = {}
    with closing(BatchReader(side.bootstrap)) as reader:
        ends = side.ends(topic)
        for partition in ends:
            reader.assign(ottla.TopicPartition(topic, partition))
        while any((at.offset or 0) < ends[p.partition] for p, at in reader.positions().items()):
            fetched = reader.poll(LIMIT_S)
            assert fetched is not None
            data = memoryview(fetched.records)
            found.setdefault(fetched.partition.partition, []).extend(
                (header.codec, bytes(data[at + HEADER_SIZE : at + header.size_bytes]))
                for at, header in iter_headers(data)
                if header.record_count > SMALL
            )
    return found


def committed(side: Side, group: str) -> dict[tuple[str, int], int]:
    """Return the group's offsets. A Kafka that has just started has no coordinators for a while."""
    try:
        return side.committed(group)
    except confluent_kafka.KafkaException:
        return {}


@MM2.cell
@EACH_WAY
def test_it_copies_exactly_once_and_groups_go_on(sides: tuple[Side, Side], tmp_path: Path) -> None:
    east, west = sides
    topic = f"exactly-once-{tmp_path.name}"
    east.create(topic)
    for partition in range(PARTITIONS):
        east.write(topic, partition, range(RECORDS))
    write_transactions(east, topic, 12)
    read = east.read_in_group(f"{topic}-readers", topic, RECORDS)
    at = {partition: len(rows) for partition, rows in read.items()}
    with MirrorProcess(tmp_path, east.bootstrap, west.bootstrap, topic, delivery="exactly_once") as mirror:
        copy = f"east.{topic}"
        wait_until(lambda: west.partitions(copy) and west.read(copy) == east.read(topic))
        assert west.config(copy)["retention.ms"] == "-1"
        wait_until(lambda: committed(west, f"{topic}-readers").keys() == {(copy, n) for n in at})
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


@MM2.cell
@EACH_WAY
def test_batches_travel_as_the_bytes_that_they_are(sides: tuple[Side, Side], tmp_path: Path) -> None:
    """Records of every kind are in the copy, and aborted ones and markers are not."""
    east, west = sides
    topic = f"bytes-{tmp_path.name}"
    east.create(topic)
    write_in_codecs(east, topic)
    east.write(topic, 0, range(RECORDS))
    write_transactions(east, topic, 6)
    with MirrorProcess(tmp_path, east.bootstrap, west.bootstrap, topic) as mirror:
        copy = f"east.{topic}"
        wait_until(lambda: west.partitions(copy) and west.read(copy) == east.read(topic))
        batches = large_batches(east, topic)
        assert {codec for codec, _ in batches[1]} == set(range(len(CODECS)))
        assert large_batches(west, copy) == batches
        wait_until(lambda: {p.lag for p in mirror.flow().partitions} == {0})
        assert [check.is_good for check in mirror.client.verify("east->west")] == [True] * PARTITIONS
        assert mirror.flow().trouble == ""
        mirror.terminate()


@MM2.cell
@EACH_WAY
def test_topics_configs_and_groups_follow_and_fail_over(sides: tuple[Side, Side], tmp_path: Path) -> None:
    east, west = sides
    topic, group = f"follow-{tmp_path.name}", f"readers-{tmp_path.name}"
    copy = f"east.{topic}"
    with MirrorProcess(tmp_path, east.bootstrap, west.bootstrap, topic, heartbeats=True) as mirror:
        east.create(topic, partitions=1)
        wait_until(lambda: west.partitions(copy) == [0])
        east.alter(topic, max_message_bytes="200000")
        east.add_partition(topic)
        wait_until(lambda: west.partitions(copy) == [0, 1])
        wait_until(lambda: west.config(copy)["max.message.bytes"] == "200000")
        write_transactions(east, topic, 30)
        read = east.read_in_group(group, topic, 150)
        at = {partition: len(rows) for partition, rows in read.items()}
        wait_until(lambda: committed(west, group) == {(copy, n): offset for n, offset in at.items()})
        wait_until(lambda: west.ends("east.heartbeats").get(0))
        assert remote(west.bootstrap, "east", group) == Remote(
            upstream=["east"],
            hops=1,
            topics=sorted(t for t in west.topics() if t.startswith("east.") and not t.endswith(".internal")),
            heartbeats=["east.heartbeats"],
            checkpoints=["east.checkpoints.internal"],
            offsets={f"{copy}-{n}": offset for n, offset in at.items()},
        )
        in_east = {ottla.TopicPartition(*at): offset for at, offset in east.committed(group).items()}
        translated = {ottla.TopicPartition(copy, n): offset for n, offset in at.items()}
        assert mirror.client.translate("east->west", in_east) == translated
        (moved,) = mirror.client.failover("east->west", [group]).groups
        assert moved.error is None
        more = west.read_in_group(group, copy, 30)
        left = {n: rows[at[n] :][: len(more.get(n, ()))] for n, rows in east.read(topic).items()}
        assert more == {n: rows for n, rows in left.items() if rows}
        (moved,) = mirror.client.failback("east->west", [group]).groups
        assert moved.error is None
        count = sum(map(len, east.read(topic).values())) - 180
        rest = east.read_in_group(group, topic, count)
        assert sum(map(len, rest.values())) == count
        assert mirror.flow().trouble == ""
        mirror.terminate()


@MM2.cell
@pytest.mark.parametrize(("source", "target"), [("Kafka", "Kafka")])
def test_groups_of_kafka_s_new_protocol_follow(sides: tuple[Side, Side], tmp_path: Path) -> None:
    """Their members are of KIP-848. One that has members in the target is named, and stays as it is."""
    east, west = sides
    topic, group = f"new-{tmp_path.name}", f"new-readers-{tmp_path.name}"
    copy = f"east.{topic}"
    east.create(topic, partitions=1)
    east.write(topic, 0, range(RECORDS))
    east.read_in_group(group, topic, 50, "consumer")
    with MirrorProcess(tmp_path, east.bootstrap, west.bootstrap, topic) as mirror:
        wait_until(lambda: committed(west, group) == {(copy, 0): 50})
        settings = {"bootstrap.servers": west.bootstrap, "group.id": group, "group.protocol": "consumer"}
        consumer = confluent_kafka.Consumer(settings)
        try:
            consumer.subscribe([copy])
            assert consumer.poll(LIMIT_S) is not None
            east.read_in_group(group, topic, 50, "consumer")
            wait_until(lambda: "while it has members" in mirror.flow().groups.get(group, ""))
            assert committed(west, group) == {(copy, 0): 50}
        finally:
            consumer.close()
        wait_until(lambda: committed(west, group) == {(copy, 0): 100})
        assert west.read_in_group(group, copy, 100, "consumer") == {0: east.read(topic)[0][100:]}
        assert mirror.flow().trouble == ""
        mirror.terminate()


@MM2.cell
@pytest.mark.parametrize(("source", "target"), [("Kafka", "ottla")])
def test_what_kafka_s_cleaner_leaves_is_copied(sides: tuple[Side, Side], tmp_path: Path) -> None:
    """Its batches have gaps, and delete horizons."""
    east, west = sides
    topic = f"compacted-{tmp_path.name}"
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "86400000",
    }
    east.create(topic, partitions=1, config=config)
    producer = confluent_kafka.Producer({"bootstrap.servers": east.bootstrap, "linger.ms": 200})

    def write(numbers: range) -> None:
        for n in numbers:
            producer.produce(topic, None if n % 5 == 0 else b"%d" % n, b"key %d" % (n % 7 if n % 2 else n), 0)
        assert producer.flush(30) == 0

    write(range(RECORDS))
    rounds = iter(range(RECORDS, 100 * RECORDS))

    def is_cleaned() -> bool:
        write(range(next(rounds), next(rounds) + 1))  # a new segment, so that the former one can be cleaned
        return len(east.read(topic)[0]) < RECORDS

    wait_until(is_cleaned)
    with MirrorProcess(tmp_path, east.bootstrap, west.bootstrap, topic) as mirror:
        copy = f"east.{topic}"
        wait_until(lambda: west.partitions(copy) and latest(west, copy) == latest(east, topic))
        assert mirror.flow().trouble == ""
        mirror.terminate()


def latest(side: Side, topic: str) -> dict[Any, Any]:
    """Return the last record of each key."""
    return {row[1]: row for row in side.read(topic)[0]}


@MM2.cell
@pytest.mark.parametrize(("source", "target"), [("Kafka", "ottla")])
def test_a_copy_of_kafka_s_topic_in_ottla_can_have_its_offsets(sides: tuple[Side, Side], tmp_path: Path) -> None:
    east, west = sides
    topic = f"same-{tmp_path.name}"
    east.create(topic)
    write_in_codecs(east, topic)
    write_transactions(east, topic, 12)
    with MirrorProcess(tmp_path, east.bootstrap, west.bootstrap, topic, delivery="same_offsets") as mirror:
        copy = f"east.{topic}"
        wait_until(lambda: west.partitions(copy) and west.read(copy) == east.read(topic))
        assert large_batches(west, copy) == large_batches(east, topic)
        assert mirror.flow().trouble == ""
        mirror.terminate()


@MM2.cell
@pytest.mark.parametrize(("source", "target"), [("ottla", "Kafka")])
def test_a_copy_in_kafka_can_t_have_the_source_s_offsets(sides: tuple[Side, Side], tmp_path: Path) -> None:
    east, west = sides
    with MirrorProcess(tmp_path, east.bootstrap, west.bootstrap, "none", delivery="same_offsets") as mirror:
        wait_until(lambda: "west is not an ottla cluster" in mirror.flow().trouble)
        assert 'use delivery = "exactly_once"' in mirror.flow().trouble
        mirror.terminate()
