"""kafka-python: Python alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import kafka
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata
from peers import security
from peers.client import ADMIN_STEPS, LIMIT_S, End, Member, Rec, Step
from tests.compat import kafka_groups


class KafkaPython:
    name = "kafka-python"
    version = kafka.__version__

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
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            **security.kafka_python(),
            acks="all" if acks == -1 else acks,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            max_request_size=10_000_000,
            linger_ms=5,
        )
        to = None if partition == -1 else partition
        sent = [
            producer.send(topic, r.value, r.key, list(r.headers), partition=to, timestamp_ms=r.timestamp_ms)
            for r in records
        ]
        producer.flush(LIMIT_S)
        offsets = [s.get(LIMIT_S).offset for s in sent]
        producer.close()
        return [-1 if acks == 0 else offset for offset in offsets]

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
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            **security.kafka_python(),
            group_id=None,
            consumer_timeout_ms=int(LIMIT_S * 1000),
            isolation_level=isolation,
        )
        assigned = [kafka.TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(assigned)
        for partition in assigned:
            consumer.seek(partition, offset)
        got = []
        for m in consumer:
            got.append(Rec(m.key, m.value, tuple(m.headers), m.timestamp))
            if len(got) == count:
                break
        consumer.close()
        return got

    def transact(self, bootstrap: str, topic: str, transactional_id: str, steps: Iterable[Step]) -> None:
        with _transactional(bootstrap, transactional_id) as producer:
            for step in steps:
                if isinstance(step, Rec):
                    producer.send(topic, step.value, step.key, partition=0)
                else:
                    getattr(producer, f"{step}_transaction")()

    def transform(
        self, bootstrap: str, source: str, topic: str, group: str, transactional_id: str, count: int, *, end: End
    ) -> None:
        consumer = kafka.KafkaConsumer(
            source,
            bootstrap_servers=bootstrap.split(","),
            **security.kafka_python(),
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            consumer_timeout_ms=int(LIMIT_S * 1000),
        )
        got = list(islice(consumer, count))
        assert len(got) == count
        with _transactional(bootstrap, transactional_id) as producer:
            producer.begin_transaction()
            for m in got:
                producer.send(topic, m.value, m.key, partition=0)
            next_offsets = {kafka.TopicPartition(source, 0): OffsetAndMetadata(got[-1].offset + 1, "", -1)}
            producer.send_offsets_to_transaction(next_offsets, consumer.group_metadata())
            getattr(producer, f"{end}_transaction")()
        consumer.close()

    def offset_for_time(self, bootstrap: str, topic: str, timestamp_ms: int) -> int | None:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap.split(","), group_id=None, **security.kafka_python())
        partition = kafka.TopicPartition(topic, 0)
        found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
        consumer.close()
        return None if found is None else int(found.offset)

    def join(self, bootstrap: str, topic: str, group: str, **settings: Any) -> Member:
        return kafka_groups.Python(bootstrap, topic, group, **settings)

    def admin_round_trip(self, bootstrap: str, topic: str) -> list[str]:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","), **security.kafka_python())
        admin.create_topics([NewTopic(topic, 3, -1)])
        assert len(admin.describe_topics([topic])[0]["partitions"]) == 3
        admin.create_partitions({topic: 5})
        assert len(admin.describe_topics([topic])[0]["partitions"]) == 5
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "60000"})])
        told = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
        assert told["retention.ms"]["value"] == "60000"
        assert topic in admin.list_topics()
        self.produce(bootstrap, topic, [Rec(None, b"%d" % n) for n in range(3)])
        partition = kafka.TopicPartition(topic, 0)
        assert admin.delete_records({partition: 2})[partition]["low_watermark"] == 2
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
        admin.close()
        return list(ADMIN_STEPS)


def _transactional(bootstrap: str, transactional_id: str) -> kafka.KafkaProducer:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap.split(","), transactional_id=transactional_id, **security.kafka_python()
    )
    producer.init_transactions()
    return producer
