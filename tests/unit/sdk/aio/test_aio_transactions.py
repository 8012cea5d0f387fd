"""ottla.aio's transactions: the same as the threaded ones, cancelled blocks among them."""

import asyncio
from typing import Any

import pytest

import ottla
from ottla.client.kafka.apis import PRODUCE
from ottla.errors import ConfigError, ErrorCode, TransactionAborted
from ottla.fakes.scripted import Reject, ScriptedCluster
from ottla_core.kafka.messages import EndTxnRequest
from ottla_core.model import TopicPartition


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> ottla.aio.Producer[Any, Any]:
    given = {"topic": "t", "value": "bytes", "transactional_id": "tx", **arguments}
    return ottla.aio.Producer("b0:1", _transport=cluster.connect, **given)


def consumer_of(cluster: ScriptedCluster, topic: str, **arguments: Any) -> ottla.aio.Consumer[Any, Any]:
    return ottla.aio.Consumer(topic, bootstrap="b0:1", value="bytes", _transport=cluster.connect, **arguments)


async def committed(cluster: ScriptedCluster) -> list[bytes]:
    async with consumer_of(cluster, "t", start="earliest", stop="end") as consumer:
        return [record.value async for record in consumer]


def ends(cluster: ScriptedCluster) -> list[bool]:
    return [request.committed for request in cluster.requests(EndTxnRequest)]


async def attempt(producer: ottla.aio.Producer[Any, Any], value: bytes, then: Any) -> None:
    async with producer.transaction() as tx:
        tx.send(value)
        await producer.flush()
        await then


async def fail() -> None:
    raise KeyError


@pytest.mark.asyncio
async def test_a_block_commits_or_aborts_and_what_failed_in_it_is_raised_once() -> None:
    cluster = ScriptedCluster({"t": 1})
    async with producer_of(cluster) as producer:
        await attempt(producer, b"a", asyncio.sleep(0))
        with pytest.raises(KeyError):
            await attempt(producer, b"b", fail())
        cluster.will(PRODUCE, Reject(ErrorCode.MESSAGE_TOO_LARGE, "too large"))
        with pytest.raises(TransactionAborted, match="too large"):
            async with producer.transaction() as tx:
                tx.send(b"c")
        async with producer.transaction() as tx:
            tx.send(b"d")
    assert await committed(cluster) == [b"a", b"d"]
    assert ends(cluster) == [True, False, False, True]


@pytest.mark.asyncio
async def test_a_cancelled_block_is_aborted() -> None:
    cluster = ScriptedCluster({"t": 1})
    async with producer_of(cluster) as producer:
        task = asyncio.create_task(attempt(producer, b"a", asyncio.get_running_loop().create_future()))
        while not cluster.logs[TopicPartition("t", 0)].open:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with producer.transaction() as tx:
            tx.send(b"b")
    assert await committed(cluster) == [b"b"]


@pytest.mark.asyncio
async def test_kafkas_calls_and_a_consumer_that_is_led_back() -> None:
    cluster = ScriptedCluster({"t": 1, "in": 1})
    async with producer_of(cluster, transactional_id=None) as plain:
        await plain.send(b"x", topic="in")
        with pytest.raises(ConfigError, match="transactional_id="):
            plain.transaction()
    member = consumer_of(cluster, "in", group="g", commit="manual", auto_offset_reset="earliest")
    async with producer_of(cluster) as producer, member as consumer:
        batch = await consumer.poll(10)

        async def work() -> None:
            async with producer.transaction(consumer) as tx:
                await tx.commit_offsets(batch)
                await fail()

        with pytest.raises(KeyError):
            await work()
        batch = await consumer.poll(10)
        assert batch.values() == [b"x"]
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction(batch.offsets, consumer.group_metadata)
        await producer.commit_transaction()
        assert (await consumer.committed())[TopicPartition("in", 0)].offset == 1
        await producer.begin_transaction()
        await producer.send(b"y")
        assert await producer.prepare_transaction() is not None
        await producer.abort_transaction()
        with pytest.raises(ConfigError, match="begin_transaction"):
            await producer.init_transactions()
