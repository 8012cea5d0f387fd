"""Brokers die, fall silent, go and come back, and the controller gives their partitions other leaders by itself."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from children import stop
from controllers import CONTEXT, World, topic, unavailable
from failovers import start_acting, start_acting_active
from stand_ins import StandIn, StandInProcess
from waiting import until

from ottla_controller import presence as presence_module
from ottla_core.clock import ManualClock
from ottla_core.cluster import keys
from ottla_core.cluster.store import Delete, Put
from ottla_core.model import NO_LEADER
from ottla_proto import controller_pb2 as pb
from ottla_stack.embedded_etcd import EmbeddedEtcd

Brokers = Callable[..., Awaitable[list[StandIn]]]


@pytest.fixture
async def brokers(world: World) -> AsyncIterator[Brokers]:
    """Starts stand-in brokers 0, 1, …"""
    started: list[StandIn] = []

    async def start(count: int, **fields: Any) -> list[StandIn]:
        first = len(started)
        started.extend(StandIn(world.new_store(), world.cluster_id, n, **fields) for n in range(first, first + count))
        for broker in started[first:]:
            await broker.start()
        return started[first:]

    yield start
    for broker in started:
        await broker.stop()


@pytest.mark.feature(120)
@pytest.mark.feature(119)
async def test_a_broker_that_dies_loses_its_partitions_in_well_under_a_second(world: World, brokers: Brokers) -> None:
    zero, *_ = await brokers(4)
    node = await start_acting_active(world)
    await node.create_replicated((0, 1, 2), (1, 0, 2), (2, 1, 3))
    await until(lambda: node.presence.held == 4)
    await zero.kill()
    began_at = time.monotonic()
    await until(lambda: all(0 not in p.isr for p in node.partitions()))
    print(f"acted upon after {time.monotonic() - began_at:.2f} s")
    first, second, third = node.partitions()
    assert (first.leader, first.isr, first.leader_epoch) == (1, (1, 2), 1)
    assert (second.leader, second.isr, second.leader_epoch, second.partition_epoch) == (1, (1, 2), 0, 1)
    assert third.partition_epoch == 0
    assert 0 not in node.follower.image.brokers
    assert time.monotonic() - began_at < 4.0  # its lease would have lived for six


@pytest.mark.feature(119)
@pytest.mark.parametrize("world", ["etcd"], indirect=True)  # which processes of their own need
async def test_a_process_that_is_killed_is_seen_at_once_and_one_that_is_stopped_by_its_lease(
    world: World, etcd: EmbeddedEtcd
) -> None:
    processes = [StandInProcess(etcd.endpoint, world.cluster_id, n, ttl_s=3 if n == 1 else 30) for n in range(4)]
    try:
        node = await start_acting_active(world)
        await until(lambda: len(node.follower.image.live_brokers()) == node.presence.held == 4)
        await node.create_replicated((0, 1, 2), (1, 2, 3))
        processes[0].process.send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
        await until(lambda: node.leaders == [1, 1])
        print(f"killed: acted upon after {time.monotonic() - killed_at:.2f} s")
        assert time.monotonic() - killed_at < 20.0  # as much of its lease was left at least
        stop(processes[1].process.pid)
        stopped_at = time.monotonic()
        await until(lambda: node.leaders == [2, 2])
        print(f"stopped: acted upon after {time.monotonic() - stopped_at:.2f} s")
        assert 1.0 < time.monotonic() - stopped_at < 3 + 15
        assert [p.isr for p in node.partitions()] == [(2,), (2, 3)]
    finally:
        for process in processes:
            process.end()


async def test_who_goes_in_order_is_not_taken_for_dead_and_does_not_wait_for_us(
    world: World, brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    zero, *_ = await brokers(3)
    node = await start_acting_active(world)
    await node.create_replicated((0, 1, 2))
    await until(lambda: node.presence.held == 3)
    began_at = time.monotonic()
    await zero.stop()
    assert time.monotonic() - began_at < 2.0  # not the grace of five seconds for calls that are open
    await until(lambda: node.leaders == [1])
    assert "is dead" not in caplog.text


@pytest.mark.rule(22)
async def test_a_newer_life_is_not_hit_by_the_proof_that_the_former_one_is_dead(world: World, brokers: Brokers) -> None:
    """1. A process dies, which is proven. 2. Its next life registers. 3. The removal arrives."""
    zero, *_ = await brokers(3)
    node = await start_acting_active(world)
    await node.create_replicated((0, 1, 2))
    await until(lambda: node.presence.held == 3)
    reborn: list[StandIn] = []

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if not reborn:
            reborn.append(StandIn(world.new_store(), world.cluster_id, 0))
            await reborn[0].start()

    node.store.before_txn = before_txn
    await zero.kill()
    await until(lambda: reborn and reborn[0].epoch)
    await until(lambda: node.presence.held == 3)
    image = node.follower.image
    assert image.brokers[0].epoch == reborn[0].epoch
    assert not image.brokers[0].fenced
    await reborn[0].stop()


# ---- many vanish at once -------------------------------------------------------------------------------------------


async def test_brokers_that_lose_their_sessions_together_keep_their_partitions(
    world: World, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """etcd stalls, and ends every lease at once; the brokers are well, and register again (rule C6)."""
    all_three = await brokers(3)
    node = await start_acting_active(world)
    await node.create_replicated((0, 1, 2), (1, 2, 0), (2, 0, 1))
    before = node.partitions()
    epochs = [broker.epoch for broker in all_three]
    await asyncio.gather(*(broker.lose_session() for broker in all_three))
    await until(lambda: all(broker.epoch > epoch for broker, epoch in zip(all_three, epochs, strict=True)))
    await until(lambda: len(node.follower.image.live_brokers()) == 3 and not node.presence.within_grace())
    assert node.partitions() == before


async def test_of_those_who_vanish_together_the_dead_lose_their_partitions(world: World, brokers: Brokers) -> None:
    all_three = await brokers(3)
    node = await start_acting_active(world)
    await node.create_replicated((0, 1, 2), (1, 2, 0), (2, 0, 1))
    await all_three[0].freeze()
    await asyncio.gather(*(broker.lose_session() for broker in all_three))
    await until(lambda: all(0 not in p.isr for p in node.partitions()))
    assert node.leaders[0] in (1, 2)
    assert node.leaders[1:] == [1, 2]
    assert [p.leader_epoch for p in node.partitions()] == [1, 0, 0]


async def test_the_only_broker_keeps_its_partitions_while_it_answers(world: World, brokers: Brokers) -> None:
    (zero,) = await brokers(1)
    node = await start_acting_active(world)
    await node.create_replicated((0,))
    before, epoch = node.partitions(), zero.epoch
    await zero.lose_session()
    await until(lambda: zero.epoch > epoch and node.follower.image.live_brokers() and not node.presence.within_grace())
    assert node.partitions() == before
    await zero.stop()
    await until(lambda: node.leaders == [NO_LEADER])
    assert (node.partitions()[0].isr, node.partitions()[0].elr) == ((), (0,))


async def test_a_cluster_that_starts_again_has_the_leaders_it_had(world: World, brokers: Brokers) -> None:
    """The controller is up before the brokers are: nobody is dead for that."""
    first = await start_acting_active(world)
    started = await brokers(3)
    await until(lambda: len(first.follower.image.live_brokers()) == 3)
    await first.create_replicated((0, 1, 2), (1, 2, 0))
    before = first.partitions()
    await first.stop()
    for broker in started:
        await broker.stop()
    second = await start_acting_active(world, 1)
    assert second.presence.within_grace() == {0, 1, 2}
    again = [await StandIn(world.new_store(), world.cluster_id, n).start() for n in range(3)]
    await until(lambda: len(second.follower.image.live_brokers()) == 3 and not second.presence.within_grace())
    assert second.partitions() == before
    for broker in again:
        await broker.stop()


async def test_who_does_not_come_when_a_cluster_starts_is_given_up(
    world: World, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence_module, "GRACE_S", 0.5)
    first = await start_acting_active(world)
    await brokers(2)
    await until(lambda: len(first.follower.image.live_brokers()) == 2)
    await first.create_replicated((0, 1))
    await first.stop()
    await world.remove(keys.broker(0))
    second = await start_acting_active(world, 1)
    await until(lambda: second.leaders == [1])
    assert second.partitions()[0].isr == (1,)


# ---- taking over, and many partitions ------------------------------------------------------------------------------


@pytest.mark.feature(116)
@pytest.mark.feature(120)
async def test_what_a_dead_controller_left_half_done_the_next_one_finishes(world: World) -> None:
    """1. A broker dies. 2. The controller has moved some of its partitions, and dies. 3. Another one is elected."""
    await world.register(0, 1, 2)
    first = await start_acting_active(world, 0)
    await first.create_replicated(*[(0, 1, 2)] * 450)
    second = await start_acting(world, 1)
    sent = 0

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        nonlocal sent
        sent += 1
        if sent > 2:
            raise unavailable(indefinite=False)

    first.store.before_txn = before_txn
    await world.remove(keys.broker(0))
    await until(lambda: sum(p.leader == 1 for p in first.partitions()) == 200)
    await first.leadership.stop()
    await until(lambda: second.leadership.active)
    await until(lambda: set(second.leaders) == {1})
    assert {(p.isr, p.leader_epoch, p.partition_epoch) for p in second.partitions()} == {((1, 2), 1, 1)}


@pytest.mark.feature(120)
async def test_a_death_over_a_thousand_partitions_leaves_room_for_requests(world: World) -> None:
    await world.register(0, 1, 2, 3, 4)
    node = await start_acting_active(world)
    await node.create_replicated(*[((0, 1, 2), (1, 2, 0), (2, 0, 1))[n % 3] for n in range(1_000)])
    wrote: list[int] = []

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        wrote.append(len(ops) - 1)

    node.store.before_txn = before_txn
    await world.remove(keys.broker(0))
    await until(lambda: wrote)
    began_at = time.monotonic()
    (created,) = await node.create(topic("meanwhile"))
    assert created.error.code == 0
    assert len(wrote) < 9  # of the ten transactions some are still to come
    await until(lambda: all(0 not in p.isr for p in node.partitions()))
    print(f"1,000 partitions without their dead broker after {time.monotonic() - began_at:.2f} s: {wrote}")
    assert max(wrote) == 100
    assert sum(wrote) == 1_000 + 2
    assert time.monotonic() - began_at < 30.0


async def test_a_store_that_is_away_for_a_moment_only_delays_an_election(world: World) -> None:
    await world.register(0, 1, 2)
    node = await start_acting_active(world)
    await node.create_replicated((0, 1, 2))
    failures = [unavailable(indefinite=False) for _ in range(3)]

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if failures:
            raise failures.pop()

    node.store.before_txn = before_txn
    await world.remove(keys.broker(0))
    await until(lambda: node.leaders == [1])
    assert failures == []


# ---- unclean elections, and the balance ----------------------------------------------------------------------------


@pytest.mark.rule(19)
@pytest.mark.feature(109)
async def test_an_unclean_election_waits_for_the_config_and_is_counted_and_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.register(0, 1, 2)
    node = await start_acting_active(world)
    await node.create_replicated((0, 1))
    assert (await node.propose(0, (0,))).error.code == 0
    await world.remove(keys.broker(0))
    await until(lambda: node.leaders == [NO_LEADER])
    resource = pb.ConfigResource(type=pb.CONFIG_RESOURCE_TOPIC, name="t")
    ops = [pb.ConfigOp(name="unclean.leader.election.enable", value="true")]
    altered = pb.AlterConfigsRequest(resources=[pb.ConfigsAltered(resource=resource, ops=ops)])
    await node.service.alter_configs(altered, CONTEXT)
    await until(lambda: node.leaders == [1])
    (partition,) = node.partitions()
    assert (partition.isr, partition.recovering) == ((1,), True)
    await until(lambda: node.count("ottla_controller_unclean_elections_total") == 1)
    assert "unclean election of broker 1" in caplog.text


@pytest.mark.feature(114)
async def test_leadership_goes_back_to_preferred_leaders_when_its_time_has_come(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    await world.register(0, 1, 2)
    node = await start_acting_active(world, clock=clock)
    await node.create_replicated((0, 1, 2), (1, 2, 0))
    await world.remove(keys.broker(0))
    await until(lambda: clock.advance(0.1) or node.leaders == [1, 1])
    await world.register(0)
    await until(lambda: 0 in node.follower.image.brokers)
    assert (await node.propose(1, (0, 1, 2), 0)).error.code == 0
    assert node.leaders == [1, 1]
    clock.advance(300)
    await until(lambda: node.leaders == [0, 1])
    await until(lambda: node.count("ottla_controller_leader_elections_total") == 2)


@pytest.mark.feature(114)
async def test_leaders_stay_where_they_are_if_the_cluster_says_so(world: World) -> None:
    clock = ManualClock()
    await world.register(0, 1)
    node = await start_acting_active(world, clock=clock)
    await node.create_replicated((0, 1), (1, 0))
    resource = pb.ConfigResource(type=pb.CONFIG_RESOURCE_BROKER, name="")
    ops = [
        pb.ConfigOp(name="auto.leader.rebalance.enable", value="false"),
        pb.ConfigOp(name="leader.imbalance.check.interval.seconds", value="1"),
    ]
    await node.service.alter_configs(
        pb.AlterConfigsRequest(resources=[pb.ConfigsAltered(resource=resource, ops=ops)]), CONTEXT
    )
    await world.remove(keys.broker(0))
    await until(lambda: clock.advance(0.1) or node.leaders == [1, 1])
    await world.register(0)
    await until(lambda: 0 in node.follower.image.brokers)
    assert (await node.propose(1, (1, 0), 0)).error.code == 0
    for _ in range(3):
        clock.advance(2)
        await world.register(2)  # something to look at
        await until(lambda: 2 in node.follower.image.brokers)
        await world.remove(keys.broker(2))
        await until(lambda: 2 not in node.follower.image.brokers)
    assert node.leaders == [1, 1]
