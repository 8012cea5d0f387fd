"""The asyncio facade against scripted brokers: an await is an acknowledgement, a cancellation loses nothing."""

import asyncio
from typing import Any

import pytest

import ottla.aio
from ottla.client.kafka.apis import FETCH, PRODUCE
from ottla.errors import ConnectError, ErrorCode, OttlaError, SerializationError
from ottla.fakes.scripted import Hang, Hold, Reject, ScriptedCluster
from ottla.producer.producer import Producer as SyncProducer
from ottla_core.kafka.messages import ProduceRequest
from ottla_core.model import TopicPartition

T0 = TopicPartition("t", 0)


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> ottla.aio.Producer[Any, Any]:
    return ottla.aio.Producer("b0:1", topic="t", value="bytes", _transport=cluster.connect, **arguments)


def consumer_of(cluster: ScriptedCluster, **arguments: Any) -> ottla.aio.Consumer[Any, Any]:
    defaults = {"start": "earliest", "fetch_max_wait": 0.05, "value": int}
    return ottla.aio.Consumer("t", bootstrap="b0:1", _transport=cluster.connect, **{**defaults, **arguments})


def filled(count: int) -> ScriptedCluster:
    cluster = ScriptedCluster({"t": 1})
    with SyncProducer[Any, Any]("b0:1", topic="t", value="int", _transport=cluster.connect) as producer:
        for n in range(count):
            producer.send(n)
    return cluster


async def test_one_await_is_acknowledged_and_many_share_their_batches() -> None:
    cluster = ScriptedCluster({"t": 1})
    async with producer_of(cluster) as producer:
        assert (await producer.send(b"first")).offset == 0
        places = await asyncio.gather(*(producer.send(b"%d" % n) for n in range(500)))
    assert [place.offset for place in places] == list(range(1, 501))
    assert cluster.values("t", 0) == [b"first", *(b"%d" % n for n in range(500))]
    assert len(cluster.requests(ProduceRequest)) < 20


async def test_what_send_gives_is_awaited_gathered_made_a_task_of_or_left_alone() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hold())
    async with producer_of(cluster, linger=0.001) as producer:
        await asyncio.to_thread(producer._sync.partitions_for)
        left_alone, released = producer.send(b"0"), producer.send(b"1")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(released, 0.02)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(producer.send(b"2"))
            cancelled = group.create_task(producer.send(b"3"))
            await asyncio.sleep(0)
            cancelled.cancel()
            cluster.release()
        assert (task.result().offset, cancelled.cancelled(), released.cancelled()) == (2, True, True)
        assert [place.offset for place in await asyncio.gather(producer.send(b"4"), left_alone)] == [4, 0]
    assert cluster.values("t", 0) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_full_buffer_holds_the_sender_and_not_the_loop_and_keeps_the_order() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hold())
    async with producer_of(cluster, buffer_memory=3000, batch_size=1000, max_request_size=1000) as producer:
        sends = [asyncio.create_task(producer.send(b"%03d" % n * 250)) for n in range(12)]
        done, _ = await asyncio.wait(sends, timeout=0.1)
        assert not done
        cluster.release()
        await asyncio.gather(*sends)
    assert [value and value[:3] for value in cluster.values("t", 0)] == [b"%03d" % n for n in range(12)]


async def test_what_fails_is_raised_where_it_is_awaited() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "no key"))
    async with producer_of(cluster) as producer:
        with pytest.raises(OttlaError, match="no key"):
            await producer.send(b"x")
        with pytest.raises(SerializationError):
            await producer.send("not bytes")
        cluster.will(PRODUCE, Hang())
        waiting = asyncio.create_task(producer.send(b"y"))
        await asyncio.sleep(0)
        with pytest.raises(ottla.TimeoutError):
            await producer.flush(0.05)
        await producer.close(0.05)
        with pytest.raises(ConnectError):
            await waiting


async def test_reading_to_the_end() -> None:
    cluster = filled(1200)
    async with consumer_of(cluster, stop="end") as consumer:
        assert [r.value async for r in consumer] == list(range(1200))
    async with consumer_of(cluster, stop="end") as consumer:
        assert [len(batch) async for batch in consumer.batches(500)] == [500, 500, 200]
    async with consumer_of(cluster, stop=700) as consumer:
        assert len([r async for r in consumer]) == 700


async def test_leaving_a_loop_loses_nothing_and_positions_are_exact() -> None:
    cluster = filled(100)
    async with consumer_of(cluster, stop="end") as consumer:
        async for record in consumer:
            if record.offset == 9:
                break
        assert await consumer.position(T0) == 10
        assert (await consumer.poll(5, max_records=5)).values() == list(range(10, 15))
        await consumer.seek(T0, 90)
        assert [r.offset async for r in consumer] == list(range(90, 100))
        assert await consumer.assignment() == {T0}
        assert await consumer.offsets("earliest") == {T0: 0}


async def test_a_stop_after_so_many_counts_what_was_handed_out() -> None:
    cluster = filled(100)
    async with consumer_of(cluster, stop=30) as consumer:
        async for record in consumer:
            if record.offset == 4:
                break
        assert (await consumer.poll(5, max_records=3)).values() == [5, 6, 7]
        assert [r.offset async for r in consumer] == list(range(8, 30))


async def test_a_cancelled_poll_loses_nothing() -> None:
    cluster = filled(10)
    cluster.will(FETCH, Hold())
    async with consumer_of(cluster) as consumer:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.poll(10), 0.1)
        cluster.release()
        batch = await consumer.poll(10)
        assert batch.values() == list(range(10))
        assert not await consumer.poll(0.05)
        await consumer.pause()
        assert await consumer.paused() == {T0}
        await consumer.resume()
        await consumer.seek_to_beginning()
        assert len(await consumer.poll(10, max_records=4)) == 4


async def test_a_record_that_can_not_be_read_comes_again_until_somebody_seeks() -> None:
    cluster = filled(3)
    async with producer_of(cluster) as producer:
        await producer.send(b"bad")
    async with consumer_of(cluster, stop="end") as consumer:
        seen: list[int] = []

        async def read() -> None:
            async for record in consumer:
                seen.append(record.offset)  # noqa: PERF401 - those before the error count

        for _ in range(2):
            with pytest.raises(SerializationError):
                await read()
        assert seen == [0, 1, 2]
        assert await consumer.position(T0) == 3
        await consumer.seek(T0, 4)
        assert [r async for r in consumer] == []


async def test_closing_ends_a_task_that_reads() -> None:
    cluster = filled(1)
    consumer = consumer_of(cluster)
    arrived = asyncio.Event()

    async def read() -> int:
        count = 0
        async for _ in consumer:
            count += 1
            arrived.set()
        return count

    task = asyncio.create_task(read())
    await asyncio.wait_for(arrived.wait(), 10)
    await consumer.close()
    assert await asyncio.wait_for(task, 10) == 1


async def test_admin_has_the_same_methods() -> None:
    cluster = ScriptedCluster({"orders": 2})
    async with ottla.aio.Admin("b0:1", _transport=cluster.connect) as admin:
        assert await admin.topics.list() == ["orders"]
        assert await admin.topics.offsets("orders") == {0: 0, 1: 0}
        assert (await admin.cluster.describe()).cluster_id == "scripted"
