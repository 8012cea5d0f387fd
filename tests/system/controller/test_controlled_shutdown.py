"""A broker that shuts down gives its leaders away first, and leaves the ISRs that others are in (rule C8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from controllers import CONTEXT, World
from failovers import ActingNode, start_acting_active
from stand_ins import StandIn
from waiting import LIMIT_S, until

from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import controller_pb2 as pb


@pytest.fixture
async def brokers(world: World) -> AsyncIterator[list[StandIn]]:
    started = [await StandIn(world.new_store(), world.cluster_id, n).start() for n in range(3)]
    yield started
    for broker in started:
        await broker.stop()


async def shut_down(node: ActingNode, broker: StandIn) -> int:
    """How many partitions remain to be handed over."""
    request = pb.ControlledShutdownRequest(broker_id=broker.id, broker_epoch=broker.epoch)
    return (await node.service.controlled_shutdown(request, CONTEXT)).remaining_leaders


@pytest.mark.feature(120)
async def test_leaders_are_moved_away_before_the_broker_is_told_that_none_remains(
    world: World, brokers: list[StandIn]
) -> None:
    node = await start_acting_active(world)
    await node.create_replicated(*[((0, 1, 2), (1, 2, 0), (2, 0, 1))[n % 3] for n in range(300)])
    assert await shut_down(node, brokers[0]) == 0
    assert [p.leader for p in node.partitions()[:3]] == [1, 1, 2]
    assert all(0 not in p.isr and len(p.isr) == 2 for p in node.partitions())
    seq = node.follower.image.seq
    assert await shut_down(node, brokers[0]) == 0
    assert node.follower.image.seq == seq  # asked again, nothing is left to do


async def test_the_mark_lives_and_dies_with_the_registration(world: World, brokers: list[StandIn]) -> None:
    node = await start_acting_active(world)
    text = keys.key_text(world.cluster_id, keys.broker(0))
    (before,) = (await world.store.snapshot(text, timeout=LIMIT_S)).entries
    await shut_down(node, brokers[0])
    (marked,) = (await world.store.snapshot(text, timeout=LIMIT_S)).entries
    assert decode(keys.broker(0), marked).shutting_down
    assert (marked.create_revision, marked.lease) == (before.create_revision, before.lease)
    await brokers[0].stop()
    assert (await world.store.snapshot(text, timeout=LIMIT_S)).entries == ()


async def test_the_last_one_in_sync_keeps_what_nobody_can_take(world: World, brokers: list[StandIn]) -> None:
    node = await start_acting_active(world)
    await node.create_replicated((0, 1))
    assert (await node.propose(0, (0,))).error.code == 0
    assert await shut_down(node, brokers[0]) == 0
    assert node.leaders == [0]
    assert (await node.propose(0, (0, 1))).error.code == 0  # somebody catches up while it goes
    await until(lambda: node.leaders == [1])
    assert node.partitions()[0].isr == (1,)


async def test_who_shuts_down_gets_neither_leaders_nor_a_place_in_an_isr(world: World, brokers: list[StandIn]) -> None:
    node = await start_acting_active(world)
    await node.create_replicated((0, 1, 2))
    await shut_down(node, brokers[1])
    assert (await node.propose(0, (0, 1, 2))).error.code == ErrorCode.INELIGIBLE_REPLICA
    await brokers[0].stop()
    await until(lambda: node.leaders == [2])


@pytest.mark.rule(22)
async def test_a_former_life_can_not_make_its_successor_go(world: World, brokers: list[StandIn]) -> None:
    node = await start_acting_active(world)
    for broker_id, epoch, code in [
        (0, brokers[0].epoch - 1, ErrorCode.STALE_BROKER_EPOCH),
        (7, 1, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ]:
        request = pb.ControlledShutdownRequest(broker_id=broker_id, broker_epoch=epoch)
        with pytest.raises(OttlaError) as refused:
            await node.service.controlled_shutdown(request, CONTEXT)
        assert refused.value.code == code
    assert not node.follower.image.brokers[0].shutting_down


async def test_a_broker_that_loses_its_lease_while_it_is_marked_is_not_registered_again_by_that(
    world: World, brokers: list[StandIn]
) -> None:
    """1. It is decided to mark the broker. 2. Its lease ends. 3. The mark would put a registration that nobody ends."""
    node = await start_acting_active(world)
    ending = [brokers[0]]

    async def before_txn(_: object) -> None:
        if ending:
            broker = ending.pop()
            await broker.freeze()
            await broker.lose_session()

    node.store.before_txn = before_txn
    with pytest.raises(OttlaError) as refused:
        await shut_down(node, brokers[0])
    assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert (await world.store.snapshot(keys.key_text(world.cluster_id, keys.broker(0)), timeout=LIMIT_S)).entries == ()


async def test_all_of_them_may_go_at_once(world: World, brokers: list[StandIn]) -> None:
    node = await start_acting_active(world)
    await node.create_replicated((0, 1, 2), (1, 2, 0), (2, 0, 1))
    assert await asyncio.gather(*(shut_down(node, broker) for broker in brokers)) == [0, 0, 0]
    assert all(p.leader in p.isr for p in node.partitions())
    for broker in brokers:
        await broker.stop()
    await until(lambda: set(node.leaders) == {-1})
    assert all(p.elr and not p.isr for p in node.partitions())
