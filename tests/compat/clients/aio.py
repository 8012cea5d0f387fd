"""aiokafka, each call on an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from peers import security
from peers.client import ADMIN_STEPS, LIMIT_S, End, Member, Rec, Step
from tests.compat import kafka_groups

_T = TypeVar("_T")
_END: Final = object()


class Aiokafka:
    name = "aiokafka"
    version = aiokafka.__version__

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
        to = None if partition == -1 else partition

        async def produce() -> list[int]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                **security.aiokafka(),
                acks="all" if acks == -1 else acks,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                max_request_size=10_000_000,
                linger_ms=5,
            )
            await producer.start()
            try:
                coming, sent = iter(records), []
                # On a thread: while the next record is being waited for, the loop sends.
                while isinstance(r := await asyncio.to_thread(next, coming, _END), Rec):
                    sent.append(await producer.send(topic, r.value, r.key, to, r.timestamp_ms, headers=list(r.headers)))
                told = await asyncio.gather(*sent)
            finally:
                await producer.stop()
            return [-1 if acks == 0 else t.offset for t in told]

        return _run(produce)

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
        async def consume() -> list[Rec]:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                max_partition_fetch_bytes=8_000_000,
                isolation_level=isolation,
                **security.aiokafka(),
            )
            assigned = [aiokafka.TopicPartition(topic, number) for number in range(partitions)]
            consumer.assign(assigned)
            await consumer.start()
            try:
                for partition in assigned:
                    consumer.seek(partition, offset)
                got: list[Rec] = []
                while len(got) < count:
                    m = await consumer.getone()
                    got.append(Rec(m.key, m.value, tuple(m.headers), m.timestamp))
            finally:
                await consumer.stop()
            return got

        return _run(consume)

    def transact(self, bootstrap: str, topic: str, transactional_id: str, steps: Iterable[Step]) -> None:
        async def transact() -> None:
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id, **security.aiokafka()
            ) as producer:
                coming = iter(steps)
                while (step := await asyncio.to_thread(next, coming, _END)) is not _END:
                    if isinstance(step, Rec):
                        await producer.send(topic, step.value, step.key, 0)
                    else:
                        await getattr(producer, f"{step}_transaction")()

        _run(transact)

    def transform(
        self, bootstrap: str, source: str, topic: str, group: str, transactional_id: str, count: int, *, end: End
    ) -> None:
        async def transform() -> None:
            consumer = aiokafka.AIOKafkaConsumer(
                source,
                bootstrap_servers=bootstrap,
                **security.aiokafka(),
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            )
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id, **security.aiokafka()
            )
            async with consumer, producer:
                await producer.begin_transaction()
                for _ in range(count):
                    m = await consumer.getone()
                    await producer.send(topic, m.value, m.key, 0)
                offsets = {aiokafka.TopicPartition(source, 0): m.offset + 1}
                await producer.send_offsets_to_transaction(offsets, group)
                await getattr(producer, f"{end}_transaction")()

        _run(transform)

    def offset_for_time(self, bootstrap: str, topic: str, timestamp_ms: int) -> int | None:
        async def find() -> int | None:
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, **security.aiokafka())
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.start()
            try:
                found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
            finally:
                await consumer.stop()
            return None if found is None else int(found.offset)

        return _run(find)

    def join(self, bootstrap: str, topic: str, group: str, **settings: Any) -> Member:
        return kafka_groups.Aio(bootstrap, topic, group, **settings)

    def admin_round_trip(self, bootstrap: str, topic: str) -> list[str]:
        async def partitions(admin: AIOKafkaAdminClient) -> int:
            return len((await admin.describe_topics([topic]))[0]["partitions"])

        async def retention(admin: AIOKafkaAdminClient) -> Any:
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            (resource,) = answer.resources
            return next(entry[1] for entry in resource[4] if entry[0] == "retention.ms")

        async def round_trip() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, **security.aiokafka())
            await admin.start()
            try:
                await admin.create_topics([NewTopic(topic, 3, 1)])
                assert await partitions(admin) == 3
                await admin.create_partitions({topic: NewPartitions(5)})
                assert await partitions(admin) == 5
                await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "60000"})])
                assert await retention(admin) == "60000"
                assert topic in await admin.list_topics()
                await asyncio.to_thread(self.produce, bootstrap, topic, [Rec(None, b"%d" % n) for n in range(3)])
                partition = aiokafka.TopicPartition(topic, 0)
                assert await admin.delete_records({partition: RecordsToDelete(2)}) == {partition: 2}
                await admin.delete_topics([topic])
                assert topic not in await admin.list_topics()
            finally:
                await admin.close()

        _run(round_trip)
        return list(ADMIN_STEPS)


def _run(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    return asyncio.run(asyncio.wait_for(work(), LIMIT_S))
