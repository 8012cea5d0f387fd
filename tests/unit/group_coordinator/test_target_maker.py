"""Targets of large groups are made beside their shards, a few at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from consumer_groups import ConsumerShard, settings
from waiting import until

from ottla_core.coordination.effects import not_coordinator
from ottla_group_coordinator import target_maker
from ottla_group_coordinator.machines.consumer import target
from ottla_group_coordinator.machines.consumer.settings import ConsumerGroupsSettings, ConsumerSettings
from ottla_group_coordinator.machines.consumer.target import AssignTarget
from ottla_group_coordinator.target_maker import TargetMaker

LATE, OURS = 0, 1


class Shards:
    """The shard of group g answers at once. That of all other groups answers once it is lost."""

    def __init__(self, shard: ConsumerShard) -> None:
        self.shard = shard
        self.lost = asyncio.Event()
        self.numbers = [LATE, OURS]

    def owned(self) -> list[int]:
        return self.numbers

    async def ask(self, group: str, decide: Any, *, timeout: float) -> Any:
        if group == "g":
            return self.shard.take(decide(self.shard.machine, self.shard.now))
        await self.lost.wait()
        raise not_coordinator()


@pytest.fixture(autouse=True)
def every_group_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_AT_ONCE", 0)


@pytest.fixture
def shards() -> Shards:
    shards = Shards(ConsumerShard(settings()))
    shards.shard.beat("m1")
    return shards


def maker_of(shards: Any) -> TargetMaker:
    return TargetMaker(shards)


@pytest.mark.story("late-shard-holds-up-targets")
async def test_groups_of_a_late_shard_hold_up_no_other(shards: Shards, caplog: pytest.LogCaptureFixture) -> None:
    maker = maker_of(shards)
    for n in range(20):
        maker.on_effect(LATE, 1, AssignTarget(f"late{n}"))
    maker.on_effect(OURS, 1, AssignTarget("g"))
    await until(lambda: shards.shard.consumers().is_assigned)
    # A move of the shard is worth no warning for each of its groups.
    shards.lost.set()
    await until(lambda: not maker._work._tasks)
    assert not caplog.records


async def test_no_target_is_made_for_a_shard_that_has_moved(shards: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Mock(side_effect=target.made_target)
    monkeypatch.setattr(target_maker, "made_target", made)
    maker = maker_of(shards)
    shards.numbers = [LATE]
    maker.on_effect(OURS, 1, AssignTarget("g"))
    await until(lambda: not maker._work._tasks)
    assert made.call_count == 0


async def test_a_target_that_is_asked_for_again_meanwhile_is_not_made_before_it_is_due(shards: Shards) -> None:
    shards.shard.settings = replace(
        settings(), consumer=ConsumerGroupsSettings(ConsumerSettings(assignment_interval_ms=60_000))
    )
    shards.shard.machine.settings = shards.shard.settings
    maker = maker_of(shards)
    maker.on_effect(OURS, 1, AssignTarget("g"))
    await until(lambda: shards.shard.consumers().is_assigned)
    shards.shard.beat("m2")
    maker.on_effect(OURS, 1, AssignTarget("g"))
    await until(lambda: not maker._work._tasks)
    assert shards.shard.consumers().target_epoch == 2
    assert shards.shard.consumers().epoch == 3


def test_a_group_that_has_its_target_may_ask_for_the_next_one_at_once(shards: Shards) -> None:
    shard = shards.shard
    shard.assign(2)
    shard.sleep(11)
    shard.beat("m2")  # it asks again, for the next epoch
    assert shard.consumers().target_asked.epoch == 3
    shard.targets_asked.clear()
    shard.assign()
    shard.beat("m1", 1)
    shard.beat("m3")
    assert shard.targets_asked == ["g"]
