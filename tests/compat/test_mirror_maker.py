"""MirrorMaker 2 in its dedicated mode, unchanged, with ottla as its source, its target, and both.

After each test its log has no line of level ERROR, but for those that peers/mirror_maker/process.py names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from peers.kafka.server import KafkaServer
from peers.mirror_maker.process import MirrorMaker
from peers.mirror_maker.remote import remote
from tests.compat.cells import MM2
from tests.compat.crossing import BASE_MS
from tests.compat.rows import Row, row, rows_in
from waiting import wait_until

from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.timeout(900)

LIMIT_S = 150.0
"""As long as a JVM may need that has just been started on a busy machine."""
PARTITIONS = 2
RECORDS = 200
KEPT = {"retention.ms": "-1"}
"""For records that are older than what is kept by default."""
ONE_REPLICA = (
    "replication.factor",
    *(f"{topic}.topic.replication.factor" for topic in ("checkpoints", "heartbeats", "offset-syncs")),
    *(f"{kind}.storage.replication.factor" for kind in ("config", "offset", "status")),
)
EACH_SECOND = (
    *("refresh.topics", "refresh.groups", "sync.topic.configs", "sync.topic.acls"),
    *("emit.checkpoints", "emit.heartbeats", "sync.group.offsets"),
)
SETTINGS = {
    "clusters": "source,target",
    "source->target.enabled": "true",
    "sync.group.offsets.enabled": "true",
    "offset.lag.max": 0,
    "offset.flush.interval.ms": 1000,
    "plugin.discovery": "service_load",
    **dict.fromkeys(ONE_REPLICA, 1),
    **{f"{task}.interval.seconds": 1 for task in EACH_SECOND},
}
NOT_SYNCED = re.compile(
    r"(follower|leader)\.replication\.throttled\.replicas|message\.timestamp\.(difference\.max\.ms|type)|"
    r"message\.timestamp\.(before|after)\.max\.ms|unclean\.leader\.election\.enable|min\.insync\.replicas"
)
"""What `config.properties.exclude` leaves to the target by default."""
SYSTEMS = (("ottla", "ottla"), ("kafka", "ottla"), ("ottla", "kafka"))

Records = dict[int, list[tuple[Any, ...]]]
"""Timestamp, key, value and headers of each record, by partition."""


class Side:
    """A cluster, seen by its Kafka listener, whichever system it is of."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int = PARTITIONS, config: Mapping[str, str] = KEPT) -> None:
        new = NewTopic(topic, partitions, 1, config=dict(config))
        self._admin.create_topics([new])[topic].result(LIMIT_S)

    def add_partition(self, topic: str) -> int:
        """Its number."""
        partitions = len(self.partitions(topic))
        self._admin.create_partitions([NewPartitions(topic, partitions + 1)])[topic].result(LIMIT_S)
        return partitions

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=LIMIT_S).topics)

    def partitions(self, topic: str) -> list[int]:
        """None where the topic is not there."""
        found = self._admin.list_topics(timeout=LIMIT_S).topics.get(topic)
        return sorted(found.partitions) if found else []

    def ends(self, topic: str) -> dict[int, int]:
        """The offset after the last record of each partition."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client leaves it untyped
        partitions = {confluent_kafka.TopicPartition(topic, n): latest for n in self.partitions(topic)}
        found = self._admin.list_offsets(partitions) if partitions else {}
        return {at.partition: end.result(LIMIT_S).offset for at, end in found.items()}

    def config(self, topic: str) -> dict[str, str | None]:
        """What holds for the topic, wherever it is set, but for what isn't synced."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self._admin.describe_configs([resource])[resource].result(LIMIT_S).values()
        return {entry.name: entry.value for entry in entries if not NOT_SYNCED.fullmatch(entry.name)}

    def alter(self, topic: str, **values: str | None) -> None:
        """None deletes what is set for the topic."""
        entries = [
            ConfigEntry(
                name.replace("_", "."),
                value or "",
                incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE,
            )
            for name, value in values.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(LIMIT_S)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets by topic and partition."""
        whole = confluent_kafka.ConsumerGroupTopicPartitions(group)
        found = self._admin.list_consumer_group_offsets([whole])[group].result(LIMIT_S)
        return {(at.topic, at.partition): at.offset for at in found.topic_partitions or ()}

    def write(self, topic: str, partition: int, numbers: range) -> None:
        """Keys, values and headers of any bytes; nulls and repeated names among them."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap})
        for n in numbers:
            key = b"\xff\0%d" % n if n % 5 else None
            value = b"\x80value %d" % n if n % 7 else None
            headers: list[tuple[str, str | bytes | None]] = [("a", b"\x80"), ("a", None), ("b", b"")] if n % 3 else []
            producer.produce(topic, value, key, partition, timestamp=BASE_MS + n, headers=headers)
        assert producer.flush(LIMIT_S) == 0

    def read(self, topic: str) -> Records:
        return {n: [content(found) for found in rows_in(self.bootstrap, topic, n)] for n in self.partitions(topic)}

    def read_in_group(self, group: str, topic: str, count: int) -> Records:
        """The next records of the group, which has committed them then and has no member any more."""
        settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.bootstrap, **settings})
        found: Records = {}
        try:
            consumer.subscribe([topic])
            for _ in range(count):
                message = consumer.poll(LIMIT_S)
                assert message is not None
                assert message.error() is None
                found.setdefault(message.partition() or 0, []).append(content(row(message)))
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return found


def content(found: Row) -> tuple[Any, ...]:
    """Without its offset, which may be another one in a copy."""
    return found[1:]


class Mirror(NamedTuple):
    source: Side
    target: Side
    maker: MirrorMaker

    def until(self, condition: Callable[[], object]) -> None:
        """Waits for it while MirrorMaker runs. Raises PeerError where that ends."""

        def holds() -> object:
            self.maker.check()
            try:
                return condition()
            except confluent_kafka.KafkaException:  # a Kafka that has just started has no coordinators for a while
                return False

        wait_until(holds, limit_s=LIMIT_S)

    def until_copied(self, topic: str) -> None:
        """All of the topic as it is now, once, and each partition in order."""
        self.until(lambda: self.target.ends(f"source.{topic}") == self.source.ends(topic))
        assert self.target.read(f"source.{topic}") == self.source.read(topic)

    def check_log(self) -> None:
        assert self.maker.errors() == []


@contextmanager
def begun(system: str, folder: Path) -> Iterator[str]:
    """A cluster of one broker, and the address of its Kafka listener."""
    if system == "kafka":
        with KafkaServer(folder, settings={"group.initial.rebalance.delay.ms": 0}) as kafka:
            yield kafka.bootstrap
    else:
        with Cluster() as cluster:
            yield cluster.kafka_bootstrap


@pytest.fixture(scope="module", params=SYSTEMS, ids=" to ".join)
def mirror(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    folder = tmp_path_factory.mktemp("mirror-maker")
    with ExitStack() as stack:
        names = ("source", "target")
        source, target = (
            Side(stack.enter_context(begun(system, folder / name)))
            for name, system in zip(names, request.param, strict=True)
        )
        source.create("orders", config={**KEPT, "max.message.bytes": "2000000"})
        for partition in range(PARTITIONS):
            source.write("orders", partition, range(RECORDS))
        clusters = {"source.bootstrap.servers": source.bootstrap, "target.bootstrap.servers": target.bootstrap}
        maker = MirrorMaker(folder, SETTINGS | clusters)
        maker.start()
        stack.callback(maker.stop)
        yield Mirror(source, target, maker)


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
