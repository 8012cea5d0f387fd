"""Two who want the same, or one who goes away: what the controller decided still holds when it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from controllers import World, topic

from ottla_core.cluster import keys
from ottla_core.cluster.store import Delete, Put
from ottla_core.errors import ErrorCode
from ottla_core.model import PartitionId, TopicId


async def test_of_two_admins_who_create_one_topic_one_is_told_that_it_exists(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    results = await asyncio.gather(*(node.create(topic("orders", 3)) for _ in range(2)))
    assert sorted(r.error.code for (r,) in results) == [0, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert len(await world.keys()) == 4


@pytest.mark.rule(23)
async def test_a_topic_that_is_deleted_and_created_again_has_another_id(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    (first,) = await node.create(topic("orders", 2))
    await node.delete("orders")
    (second,) = await node.create(topic("orders", 1))
    assert len(first.topic_id) == len(second.topic_id) == 16
    assert first.topic_id != second.topic_id
    assert await world.keys(["partition"]) == {keys.partition(PartitionId(TopicId(second.topic_id), 0))}


async def test_a_broker_that_dies_between_the_decision_and_the_write_gets_no_partition(world: World) -> None:
    await world.register(0, 1)
    node = await world.start_active()
    dying = [keys.broker(0)]

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if dying:
            await world.remove(dying.pop())

    node.store.before_txn = before_txn
    (created,) = await node.create(topic("orders", 2))
    image = node.follower.image
    assert created.error.code == 0
    assert {p.leader for p in image.partitions.values()} == {1}
    assert image.topics["orders"].id == created.topic_id


async def test_brokers_that_never_stay_the_same_are_an_error_in_the_end(world: World) -> None:
    await world.register(0)
    node = await world.start_active()

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        await world.remove(keys.broker(0))
        await world.register(0)

    node.store.before_txn = before_txn
    (refused,) = await node.create(topic("orders"))
    assert refused.error.code == ErrorCode.REQUEST_TIMED_OUT
    assert "kept changing: all 5 attempts failed" in refused.error.message
    assert await world.keys() == set()


async def test_a_caller_that_goes_away_leaves_no_half_written_topic(world: World) -> None:
    await world.register(0)
    node = await world.start_active()
    began = asyncio.Event()

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        began.set()

    node.store.before_txn = before_txn
    creating = asyncio.create_task(node.create(topic("wide", 450)))
    await began.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    (next_one,) = await node.create(topic("next"))
    assert next_one.error.code == 0
    assert node.follower.image.topics.keys() == {"wide", "next"}
