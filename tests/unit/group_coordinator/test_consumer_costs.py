"""The cost of a request depends on its work, and not on the size of its group."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, cast

import pytest
from consumer_groups import Client, ConsumerShard, settings, settle

from ottla_group_coordinator.machines.consumer.member import JOINS, LEAVES
from ottla_group_coordinator.machines.consumer.settings import ConsumerGroupsSettings, ConsumerSettings, MigrationPolicy
from ottla_group_coordinator.machines.consumer.topics import hash_of
from ottla_group_coordinator.machines.membership import GroupSettings


def calls(act: Any) -> int:
    """Count the calls inside the coordinator."""
    found = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal found
        found += event == "call" and "ottla_group_coordinator" in frame.f_code.co_filename

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return found


def group_of(members: int, **more: Any) -> ConsumerShard:
    """A group whose members have joined, and whose next target is not due yet."""
    shard = ConsumerShard(settings(assignment_interval_ms=10_000))
    shard.known.put("t", members)
    for n in range(members):
        shard.beat(f"m{n}", **more)
    return shard


def stable_group_of(members: int) -> ConsumerShard:
    shard = group_of(members)
    shard.sleep(20)
    for _ in range(4):
        shard.assign()
        for n in range(members):
            member = shard.member(f"m{n}")
            shard.beat(f"m{n}", member.epoch, owned={t: frozenset(e) for t, e in member.current.assigned.items()})
            shard.assign()
    assert shard.consumers().state.value == "Stable"
    return shard


@pytest.fixture(scope="module")
def large() -> ConsumerShard:
    return stable_group_of(2_000)


def test_a_quiet_heartbeat_costs_the_same_in_any_group(large: ConsumerShard) -> None:
    small = stable_group_of(3)
    costs = [calls(lambda s=shard: s.beat("m1", s.consumers().epoch)) for shard in (small, large)]
    assert costs[0] == costs[1]


def test_a_quiet_heartbeat_writes_and_copies_nothing(large: ConsumerShard) -> None:
    before, members = len(large.log), large.consumers().members
    epoch = large.consumers().epoch
    large.beat("m7", epoch)
    assert len(large.log) == before
    assert large.consumers().members is members


def test_a_join_while_a_target_is_not_due_costs_the_same_in_any_group() -> None:
    small, wide = group_of(10), group_of(1_000)
    assert calls(lambda: wide.beat("new")) <= calls(lambda: small.beat("new")) + 5
    assert calls(lambda: wide.beat("new", LEAVES)) <= calls(lambda: small.beat("new", LEAVES)) + 5


@pytest.mark.parametrize("is_regex", [False, True])
def test_a_join_and_a_leave_cost_the_same_whatever_the_group_reads(is_regex: bool) -> None:
    costs = []
    for topics in (10, 1_000):
        shard = ConsumerShard(settings(assignment_interval_ms=10_000))
        names = [f"topic{n}" for n in range(topics)]
        for name in names:
            shard.known.put(name, 1)
        more: dict[str, Any] = {"topics": (), "regex": "topic.*"} if is_regex else {"topics": names}
        shard.beat("first", **more)
        shard.beat("second")
        shard.resolve()
        costs.append([calls(lambda s=shard, e=epoch: s.beat("new", e)) for epoch in (JOINS, LEAVES)])
        # A topic that nobody has read before is hashed with all the others.
        shard.beat("other", topics="u")
        assert shard.consumers().group_epoch.topics_hash == hash_of(shard.consumers().subscribed_topics(), shard.known)
    assert costs[0] == costs[1]


def test_a_waiting_member_costs_the_same_in_any_group() -> None:
    small, wide = group_of(10), group_of(1_000)
    for shard in (small, wide):
        shard.sleep(20)
        shard.beat("m1", 2)
    assert calls(lambda: wide.beat("m1", 3)) <= calls(lambda: small.beat("m1", 3)) + 5


def test_members_with_one_subscription_share_its_topics() -> None:
    shard = group_of(50, topics=[f"topic{n}" for n in range(100)])
    assert len({id(member.metadata.topics) for member in shard.consumers().members.values()}) == 1


@pytest.mark.parametrize("is_loaded", [False, True])
def test_members_share_names_and_small_sets_of_partitions(is_loaded: bool) -> None:
    shard = ConsumerShard(settings(assignment_interval_ms=0))
    for n in range(40):
        shard.known.put(f"topic{n}", 20)
    # Every request brings its own copies of the names.
    topics = [frozenset(f"topic{each}" for each in range(n, n + 20)) for n in range(20)]
    settle(*(Client(shard, f"m{n}", more={"topics": topics[n]}) for n in range(20)))
    if is_loaded:
        shard = cast("ConsumerShard", shard.reloaded())
    group = shard.consumers()
    names = [name for member in group.members.values() for name in member.metadata.topics]
    assert (len(names), len({id(name) for name in names})) == (400, 39)
    for held in (group.targets.values(), [member.current.assigned for member in group.members.values()]):
        few = [numbers for partitions in held for numbers in partitions.values() if len(numbers) == 1]
        assert len(few) > 50
        assert len({id(numbers) for numbers in few}) <= 20


def test_a_heartbeat_costs_the_same_with_many_expressions() -> None:
    few, many = (ConsumerShard(settings(assignment_interval_ms=10_000)) for _ in range(2))
    for shard, members in ((few, 3), (many, 1_000)):
        for n in range(members):
            shard.beat(f"m{n}", topics=(), regex=f"x{n}")
        shard.resolve()
        shard.sleep(20)
        shard.beat("m1", 2)
        shard.beat("m1", shard.member("m1").epoch)
        shard.asked.clear()
    costs = [calls(lambda s=shard: s.beat("m1", s.member("m1").epoch)) for shard in (few, many)]
    assert costs[0] == costs[1]


def test_a_refused_upgrade_looks_at_no_member() -> None:
    consumer = ConsumerSettings(migration_policy=MigrationPolicy.DISABLED)
    costs = []
    for members in (3, 60):
        shard = ConsumerShard(GroupSettings(consumer=ConsumerGroupsSettings(consumer)))
        shard.stable(members)
        costs.append(calls(lambda s=shard: s.beat("new")))
    assert costs[0] == costs[1]


def test_a_classic_member_of_a_consumer_group_costs_the_same_in_any_group() -> None:
    costs = []
    for members in (10, 500):
        shard = group_of(members)
        joined = shard.join()
        heartbeat = calls(lambda s=shard, j=joined: s.heartbeat(j.member_id, j.generation))
        costs.append((calls(lambda s=shard, j=joined: s.join(j.member_id)), heartbeat))
    assert costs[1][0] <= costs[0][0] + 5
    assert costs[1][1] == costs[0][1]
