"""A group under requests of every kind in any order: nobody waits without an end, and nothing is left behind.

Members are honest and not: they join twice, use ids of others, fall silent, and their coordinator changes.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from groups import WAITS, Shard, subscription
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.responses import Joined, MemberIdRequiredError
from ottla_group_coordinator.machines.states import GroupState
from ottla_group_coordinator.machines.transition import RebalanceTimer, SessionTimer

STEPS = [
    "join", "join", "join", "join_again", "join_again", "join_again", "sync", "sync", "sync", "heartbeat", "commit",
    "leave", "sleep", "sleep", "change_coordinator",
]  # fmt: skip

PROTOCOLS = [
    {"range": b"a"},
    {"range": b"b"},
    {"range": b"a", "sticky": b"a"},
    {"sticky": b"a", "range": b"a"},
    {"range": subscription("t"), "sticky": subscription("u")},
]
PAUSES_S = [0.1, 1, 3, 5, 8, 30, 61]
SILENCE_S = 400


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.shard = Shard(
            GroupSettings(
                initial_rebalance_delay_ms=self.chance.choice([0, 3_000]),
                max_size=self.chance.choice([4, 100]),
                max_record_bytes=self.chance.choice([700, 100_000]),
            )
        )
        self.ids = ["nobody"]
        self.parked: set[str] = set()
        self._keys = (f"key-{n}" for n in itertools.count())

    @property
    def group(self) -> Group:
        return self.shard.group()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def join(self) -> None:
        answer = self._park(
            lambda key: self.shard.join(
                key=key,
                instance_id=self.chance.choice([None, None, "i1", "i2"]),
                member_id_required=self.chance.random() < 0.5,
                skips_assignment=self.chance.random() < 0.5,
                **self._wishes(),
            )
        )
        if isinstance(answer, MemberIdRequiredError):
            self.ids.append(answer.member_id)

    def join_again(self) -> None:
        member_id, instance_id = self._somebody()
        self._park(lambda key: self.shard.join(member_id, key=key, instance_id=instance_id, **self._wishes()))

    def sync(self) -> None:
        member_id, instance_id = self._somebody()
        size_bytes = self.chance.choice([1, 50])
        made = dict.fromkeys(self.group.members, b"x" * size_bytes) if member_id == self.group.leader else None
        generation = self.group.generation - (self.chance.random() < 0.1)
        self._park(lambda key: self.shard.sync(member_id, generation, made, instance_id=instance_id, key=key))

    def heartbeat(self) -> None:
        member_id, instance_id = self._somebody()
        self.shard.heartbeat(member_id, self.group.generation, instance_id)

    def commit(self) -> None:
        member_id, instance_id = self._somebody()
        self.shard.commit(1, member_id, self.group.generation, instance_id=instance_id)

    def leave(self) -> None:
        self.shard.leave(*{self._somebody()[0] for _ in range(2)})

    def sleep(self) -> None:
        self.shard.sleep(self.chance.choice(PAUSES_S))

    def change_coordinator(self) -> None:
        self.shard, self.parked = self.shard.reloaded(), set()

    def _wishes(self) -> dict[str, Any]:
        return {
            "protocols": self.chance.choice(PROTOCOLS),
            "rebalance_timeout_ms": self.chance.choice([6_000, 60_000]),
        }

    def _somebody(self) -> tuple[str, str | None]:
        member_id = self.chance.choice([*self.ids[-8:], *self.group.members])
        member = self.group.members.get(member_id)
        return member_id, None if member is None else member.instance_id

    def _park(self, ask: Any) -> Any:
        key = next(self._keys)
        answer = ask(key)
        if answer is WAITS:
            self.parked.add(key)
        self.ids += [a.member_id for a in (answer, self.shard.answers.get(key)) if isinstance(a, Joined)]
        return answer

    # ---- what always holds ------------------------------------------------------------------------------------------

    def check(self) -> None:
        self._check_timers()
        self._check_state()
        waiting = {key for m in self.group.members.values() for key in (m.joining, m.syncing) if key is not None}
        assert self.parked - self.shard.answers.keys() == waiting, "who waits is known, and the other way round"

    def _check_timers(self) -> None:
        group, timers = self.group, self.shard.timers
        silent = {m.member_id for m in group.members.values() if m.joining is None and m.syncing is None}
        watched = {key.member_id for key in timers if isinstance(key, SessionTimer)}
        assert silent | group.pending <= watched <= {*group.members} | group.pending
        rebalances = group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE) or bool(
            group.unsynced
        )
        assert (RebalanceTimer("g") in timers) is rebalances

    def _check_state(self) -> None:
        group, members = self.group, self.group.members.values()
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert not any(m.joining for m in members)
            assert bool(members) is (group.state is not GroupState.EMPTY)
            assert not members or str(group.leader) in group.members
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert not any(m.syncing for m in members)
        assert group.unsynced <= {*group.members}
        assert group.pending.isdisjoint(group.members)
        instances = [m.instance_id for m in members if m.instance_id]
        assert len(instances) == len(set(instances))


@pytest.mark.rule(45)
@pytest.mark.rule(48)
@settings(max_examples=300)
@given(st.lists(st.sampled_from(STEPS), min_size=10, max_size=80), st.integers(0, 2**32))
def test_nobody_waits_for_ever_and_nothing_is_left_behind(steps: list[str], seed: int) -> None:
    world = World(seed)
    for step in steps:
        getattr(world, step)()
        world.check()
    world.shard.sleep(SILENCE_S)
    world.check()
    assert world.group.state is GroupState.EMPTY
    assert not world.group.pending
