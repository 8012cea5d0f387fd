"""Who is the controller, over both stores: elections, and the fence against who was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from controllers import World, configs, topic, write_configs
from images import topic_id
from waiting import LIMIT_S, until

from ottla_core.cluster import keys
from ottla_core.cluster.image import Controller, Partition
from ottla_core.cluster.store import Delete, Put
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId


@pytest.mark.feature(116)
async def test_one_of_two_is_active_the_other_names_it_and_takes_over(world: World) -> None:
    await world.register(0)
    first = await world.start_active(0)
    second = await world.start(1)
    await until(lambda: second.follower.image.controller)
    with pytest.raises(OttlaError, match=r"active controller is 0.*send the request to controller-0:9640") as refused:
        await second.create(topic("orders"))
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    epoch = first.leadership.journal().epoch
    await first.stop()
    await until(lambda: second.leadership.active)
    assert second.leadership.journal().epoch > epoch
    assert [t.error.code for t in await second.create(topic("orders"))] == [0]


@pytest.mark.feature(116)
async def test_of_two_that_see_the_seat_vacant_one_gets_it(world: World) -> None:
    node = await world.start(0)
    winner = Controller(1, "controller-1:9640", 0)
    tried = asyncio.Event()

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if not tried.is_set():
            await world.put(keys.CONTROLLER, winner)
            tried.set()

    node.store.before_txn = before_txn
    await tried.wait()
    await until(lambda: node.follower.image.controller)
    with pytest.raises(OttlaError, match="active controller is 1"):
        await node.create(topic("orders"))
    await world.remove(keys.CONTROLLER)
    await until(lambda: node.leadership.active)


@pytest.mark.feature(121)
async def test_a_deposed_controller_that_does_not_know_it_can_not_write(world: World) -> None:
    """1. The first is active. 2. etcd ends its lease. 3. The second is elected. 4. The first wakes up, and writes."""
    old = await world.begin_term()
    await old.journal.commit(lambda _: write_configs("2"))
    new = await world.start(1)
    await world.store.revoke_lease(old.lease, timeout=LIMIT_S)
    await until(lambda: new.leadership.active)
    await until(lambda: old.follower.image.revision >= new.leadership.journal().epoch)
    before = await configs(world)
    for _ in range(2):
        with pytest.raises(OttlaError, match="another controller was elected") as refused:
            await old.journal.commit(lambda _: write_configs("99"))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
    assert await configs(world) == before
    assert old.ended == [True]


@pytest.mark.feature(116)
async def test_a_controller_that_lost_its_lease_stands_again(world: World) -> None:
    node = await world.start_active()
    epoch = node.leadership.journal().epoch
    text = keys.key_text(world.cluster_id, keys.CONTROLLER)
    (entry,) = (await world.store.snapshot(text, timeout=LIMIT_S)).entries
    await world.store.revoke_lease(entry.lease, timeout=LIMIT_S)
    await until(lambda: node.leadership.active and node.leadership.journal().epoch > epoch)
    assert node.follower.image.controller is not None


@pytest.mark.feature(121)
async def test_a_new_controller_removes_what_a_dead_one_left_half_done(world: World) -> None:
    await world.register(0)
    first = await world.start_active(0)
    (created,) = await first.create(topic("orders", 2))
    await first.stop()
    partition = Partition((0,), 0, 0, (0,))
    half_created = keys.partition(PartitionId(topic_id(7), 0))
    half_grown = keys.partition(PartitionId(TopicId(created.topic_id), 2))
    await world.put(half_created, partition)
    await world.put(half_grown, partition)
    second = await world.start_active(1)
    whole = {keys.partition(PartitionId(TopicId(created.topic_id), n)) for n in range(2)}
    assert await world.keys(["partition"]) == whole
    assert second.follower.image.topics["orders"].partition_count == 2
