"""confluent-kafka: librdkafka, by its Python binding."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, cast

import confluent_kafka
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from peers import security
from peers.client import ADMIN_STEPS, LIMIT_S, End, Member, Rec, Step
from tests.compat import kafka_groups

Headers = list[tuple[str, bytes | None]]


class Confluent:
    name = "confluent-kafka"
    version = str(confluent_kafka.__version__)  # its stub says otherwise

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Iterable[Rec],
        *,
        acks: int = -1,
        codec: str = "none",
        idempotent: bool = False,
        partition: int = 0,
    ) -> list[int]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                **security.librdkafka(),
                "acks": acks,
                "compression.type": codec,
                "linger.ms": 5,
                "message.max.bytes": 10_000_000,
                "enable.idempotence": idempotent,
            }
        )
        offsets: dict[int, int] = {}
        errors: list[Any] = []

        def report_to(number: int) -> Any:
            def on_delivery(error: Any, message: Any) -> None:
                if error is not None:
                    errors.append(error)
                offsets[number] = -1 if acks == 0 else message.offset()

            return on_delivery

        for number, r in enumerate(records):
            headers: list[tuple[str, str | bytes | None]] = list(r.headers)
            producer.produce(
                topic,
                r.value,
                r.key,
                partition,
                on_delivery=report_to(number),
                timestamp=r.timestamp_ms,
                headers=headers,
            )
        assert producer.flush(LIMIT_S) == 0
        assert errors == []
        return [offsets[number] for number in range(len(offsets))]

    def consume(
        self,
        bootstrap: str,
        topic: str,
        count: int,
        *,
        offset: int = 0,
        partitions: int = 1,
        isolation: str = "read_uncommitted",
    ) -> list[Rec]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                **security.librdkafka(),
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": isolation,
            }
        )
        consumer.assign([TopicPartition(topic, number, offset) for number in range(partitions)])
        got: list[Rec] = []
        give_up_at = time.monotonic() + LIMIT_S
        while len(got) < count and time.monotonic() < give_up_at:
            for m in consumer.consume(count - len(got), 0.2):
                assert m.error() is None, m.error()
                headers = cast(Headers | None, m.headers()) or []  # its stub has all that may be sent
                got.append(Rec(m.key(), m.value(), tuple(headers), m.timestamp()[1]))
        consumer.close()
        return got

    def transact(self, bootstrap: str, topic: str, transactional_id: str, steps: Iterable[Step]) -> None:
        producer = _transactional(bootstrap, transactional_id)
        for step in steps:
            if isinstance(step, Rec):
                producer.produce(topic, step.value, step.key, 0)
            else:
                getattr(producer, f"{step}_transaction")()

    def transform(
        self, bootstrap: str, source: str, topic: str, group: str, transactional_id: str, count: int, *, end: End
    ) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                **security.librdkafka(),
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([source])
        try:
            got = consumer.consume(count, LIMIT_S)
            assert [m.error() for m in got] == [None] * count
            producer = _transactional(bootstrap, transactional_id)
            producer.begin_transaction()
            for m in got:
                producer.produce(topic, m.value(), m.key(), 0)
            next_offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(next_offsets, consumer.consumer_group_metadata(), LIMIT_S)
            getattr(producer, f"{end}_transaction")(LIMIT_S)
        finally:
            consumer.close()

    def offset_for_time(self, bootstrap: str, topic: str, timestamp_ms: int) -> int | None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", **security.librdkafka()}
        )
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=LIMIT_S)
        consumer.close()
        return None if found.offset < 0 else int(found.offset)

    def join(self, bootstrap: str, topic: str, group: str, **settings: Any) -> Member:
        return kafka_groups.Confluent(bootstrap, topic, group, **settings)

    def admin_round_trip(self, bootstrap: str, topic: str) -> list[str]:
        admin = AdminClient({"bootstrap.servers": bootstrap, **security.librdkafka()})
        config = ConfigResource(ConfigResource.Type.TOPIC, topic)
        retention = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)

        def described() -> Any:
            return _outcome(admin.describe_topics(TopicCollection([topic]), request_timeout=LIMIT_S))

        _outcome(admin.create_topics([NewTopic(topic, 3)]))
        assert len(described().partitions) == 3
        _outcome(admin.create_partitions([NewPartitions(topic, 5)]))
        assert len(described().partitions) == 5
        _outcome(
            admin.incremental_alter_configs([ConfigResource(config.restype, topic, incremental_configs=[retention])])
        )
        assert _outcome(admin.describe_configs([config]))["retention.ms"].value == "60000"
        assert topic in admin.list_topics(timeout=LIMIT_S).topics
        self.produce(bootstrap, topic, [Rec(None, b"%d" % n) for n in range(3)])
        can_delete_records = hasattr(admin, "delete_records")  # not in 2.3.0
        if can_delete_records:
            assert _outcome(admin.delete_records([TopicPartition(topic, 0, 2)])).low_watermark == 2
        _outcome(admin.delete_topics([topic], operation_timeout=LIMIT_S))
        assert topic not in admin.list_topics(timeout=LIMIT_S).topics
        return [step for step in ADMIN_STEPS if step != "delete records" or can_delete_records]


def _transactional(bootstrap: str, transactional_id: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 5,
            **security.librdkafka(),
        }
    )
    producer.init_transactions(LIMIT_S)
    return producer


def _outcome(futures: Mapping[Any, Any]) -> Any:
    """Return the outcome of the only future."""
    (future,) = futures.values()
    return future.result(LIMIT_S)
