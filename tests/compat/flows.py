"""What MirrorMaker 2 copies from cluster to cluster, seen by their Kafka listeners."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import confluent_kafka
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
from peers.mirror_maker.process import MirrorMaker
from peers.security import java, librdkafka
from tests.compat.crossing import BASE_MS
from tests.compat.rows import Row, row, rows_in
from waiting import wait_until

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
NOT_SYNCED = re.compile(
    r"(follower|leader)\.replication\.throttled\.replicas|message\.timestamp\.(difference\.max\.ms|type)|"
    r"message\.timestamp\.(before|after)\.max\.ms|unclean\.leader\.election\.enable|min\.insync\.replicas"
)
"""What `config.properties.exclude` leaves to the target by default."""

Records = dict[int, list[tuple[Any, ...]]]
"""Timestamp, key, value and headers of each record, by partition."""


class Side:
    """A cluster by its alias, seen by its Kafka listener, whichever system it is of."""

    def __init__(self, alias: str, bootstrap: str) -> None:
        self.alias = alias
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **librdkafka()})

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
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap, **librdkafka()})
        for n in numbers:
            key = b"\xff\0%d" % n if n % 5 else None
            value = b"\x80value %d" % n if n % 7 else None
            headers: list[tuple[str, str | bytes | None]] = [("a", b"\x80"), ("a", None), ("b", b"")] if n % 3 else []
            producer.produce(topic, value, key, partition, timestamp=BASE_MS + n, headers=headers)
        assert producer.flush(LIMIT_S) == 0

    def read(self, topic: str) -> Records:
        return {n: [content(found) for found in rows_in(self.bootstrap, topic, n)] for n in self.partitions(topic)}

    def read_in_group(self, group: str, topic: str, count: int, protocol: str = "classic") -> Records:
        """The next records of the group, which has committed them then and has no member any more."""
        settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        settings["group.protocol"] = protocol
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.bootstrap, **librdkafka(), **settings})
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
    """One flow of a MirrorMaker."""

    source: Side
    target: Side
    maker: MirrorMaker

    def copy(self, topic: str) -> str:
        return f"{self.source.alias}.{topic}"

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
        self.until(lambda: self.target.ends(self.copy(topic)) == self.source.ends(topic))
        assert self.target.read(self.copy(topic)) == self.source.read(topic)

    def check_log(self) -> None:
        assert self.maker.errors() == []


@contextmanager
def mirroring(
    folder: Path, *flows: tuple[Side, Side], more: Mapping[str, object] = MappingProxyType({})
) -> Iterator[list[Mirror]]:
    """One MirrorMaker for these flows, each from a source to a target; `more` are settings of it. What it does at
    intervals it does each second."""
    sides = {side.alias: side for flow in flows for side in flow}
    settings = {
        "clusters": ",".join(sides),
        **{f"{alias}.bootstrap.servers": side.bootstrap for alias, side in sides.items()},
        **{name: value for alias in sides for name, value in java(f"{alias}.").items()},
        **{f"{source.alias}->{target.alias}.enabled": "true" for source, target in flows},
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": 0,
        "offset.flush.interval.ms": 1000,
        "plugin.discovery": "service_load",
        **dict.fromkeys(ONE_REPLICA, 1),
        **{f"{task}.interval.seconds": 1 for task in EACH_SECOND},
    }
    maker = MirrorMaker(folder, {**settings, **more})
    maker.start()
    try:
        yield [Mirror(source, target, maker) for source, target in flows]
    finally:
        maker.stop()
