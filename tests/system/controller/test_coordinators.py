"""Coordinators come, die and start again, controllers change, and every shard has one owner and a growing epoch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from controllers import CONTEXT, World, unavailable
from coordinators import RegisteredCoordinator
from failovers import ActingNode, start_acting, start_acting_active
from waiting import until

from ottla_core.cluster.image import Shard
from ottla_core.model import SHARD_TOPICS
from ottla_proto.controller_pb2 import AllocateProducerIdsRequest

Start = Callable[[int], Awaitable[RegisteredCoordinator]]
SHARDS = 50


@pytest.fixture
async def coordinator(world: World) -> AsyncIterator[Start]:
    """Starts the group coordinator of that id."""
    started: list[RegisteredCoordinator] = []

    async def start(instance_id: int) -> RegisteredCoordinator:
        coordinator = RegisteredCoordinator(world.new_store(), instance_id, cluster_id=world.cluster_id)
        await coordinator.start()
        started.append(coordinator)
        return coordinator

    yield start
    for each in started:
        await each.stop()


def shards(node: ActingNode) -> dict[int, Shard]:
    return {number: shard for (_, number), shard in node.follower.image.shards.items()}


def settled(node: ActingNode, *coordinators: RegisteredCoordinator) -> bool:
    """Whether these own all shards between them, as evenly as can be, and the controller has heard of it."""
    owned = [len(c.owned()) for c in coordinators]
    even = sum(owned) == SHARDS and max(owned) - min(owned) <= 1
    return (
        even
        and {each.owner for each in shards(node).values()} == {c.id for c in coordinators}
        and node.leadership.active
    )


async def test_a_registration_brings_the_topic_and_an_owner_for_every_shard(world: World, coordinator: Start) -> None:
    await world.register(0, 1, 2)
    node = await start_acting_active(world)
    one, two = await coordinator(1), await coordinator(2)
    await until(lambda: settled(node, one, two))
    topic = node.follower.image.topics[SHARD_TOPICS["group"]]
    partitions = node.follower.image.partitions_of(topic)
    assert len(partitions) == SHARDS
    assert {len(p.replicas) for _, p in partitions} == {3}
    await until(lambda: node.count("ottla_controller_shards_given_total") >= SHARDS)


async def test_a_term_that_ends_leaves_the_shards_to_the_next(world: World, coordinator: Start) -> None:
    await world.register(0, 1, 2)
    first = await start_acting_active(world)
    one, two = await coordinator(1), await coordinator(2)
    await until(lambda: settled(first, one, two))
    second = await start_acting(world, 1)
    before = shards(first)
    await first.leadership.stop()
    await until(lambda: second.leadership.active and second.presence.held == 2)
    assert shards(second) == before, "what is as it should be stays"
    await two.kill()
    await until(lambda: settled(second, one))
    after = shards(second)
    assert {n for n in after if after[n] != before[n]} == {n for n in before if before[n].owner == 2}
    assert all(after[n].epoch == before[n].epoch + 1 for n in after if after[n] != before[n])


async def test_who_starts_again_within_its_lease_is_another(world: World, coordinator: Start) -> None:
    await world.register(0, 1, 2)
    node = await start_acting_active(world)
    former = await coordinator(1)
    await until(lambda: settled(node, former))
    before = shards(node)
    newer = await coordinator(1)
    # On a busy machine a lease may run out meanwhile: then it is the one after it.
    await until(lambda: settled(node, newer) and {s.incarnation for s in shards(node).values()} == {newer.seat.epoch})
    assert all(shards(node)[n].epoch > before[n].epoch for n in before)
    await until(lambda: former.unseated)
    assert former.owned() == {}


async def test_a_write_that_failed_is_made_again(world: World, coordinator: Start) -> None:
    await world.register(0, 1, 2)
    node = await start_acting_active(world)
    failures = [unavailable(indefinite=True), unavailable(indefinite=False)]

    async def fails(ops: object) -> None:
        if failures:
            raise failures.pop()

    node.store.before_txn = fails
    one = await coordinator(1)
    await until(lambda: settled(node, one))
    assert failures == []
    assert {s.epoch for s in shards(node).values()} == {1}


@pytest.mark.rule(34)
async def test_a_coordinator_gets_producer_ids_under_its_registration(world: World, coordinator: Start) -> None:
    """No process but a broker's has a secret to prove itself by; its epoch is one that no broker has."""
    node = await start_acting_active(world)
    registered = await coordinator(1)
    request = AllocateProducerIdsRequest(kind="group", instance_id=1, instance_epoch=registered.seat.epoch)
    assert (await node.service.allocate_producer_ids(request, CONTEXT)).count == 1000
