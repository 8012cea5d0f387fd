"""Targets of large groups: requested, made in steps outside of decisions, and written when they are complete."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from types import FrameType

import pytest
from consumer_groups import Client, ConsumerShard, flat, partitions, settings, settle

from ottla_core.coordination.batches import size_limit
from ottla_core.errors import OttlaError
from ottla_core.event_loop.steps import Steps
from ottla_group_coordinator.machines.consumer import target
from ottla_group_coordinator.machines.consumer.member import LEAVES, LEAVES_FOR_NOW
from ottla_group_coordinator.machines.consumer.target import decide_made, made_target, target_work
from ottla_group_coordinator.machines.membership import GroupSettings


@pytest.fixture(autouse=True)
def every_group_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_AT_ONCE", 0)


@pytest.fixture
def shard() -> ConsumerShard:
    shard = ConsumerShard(settings())
    shard.checks_purity = True
    return shard


def longest_step(steps: Steps[object]) -> tuple[int, int]:
    """Return the largest number of calls in one step, and the number of all."""
    found: Counter[int] = Counter()
    step = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        found[step] += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        for _ in steps:
            step += 1
    finally:
        sys.setprofile(None)
    return max(found.values()), sum(found.values())


def test_members_get_their_assignments_once_the_target_is_made(shard: ConsumerShard) -> None:
    assert shard.beat("m1").assignment == {}
    assert (shard.targets_asked, shard.consumers().state.value) == (["g"], "Assigning")
    shard.assign()
    answer = shard.beat("m1", 1)
    assert (answer.epoch, answer.assignment) == (2, partitions(t=range(4)))


def test_a_target_is_the_same_whether_it_is_made_at_once_or_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for at_once in (0, 1_000_000):
        monkeypatch.setattr(target, "_AT_ONCE", at_once)
        shard = ConsumerShard(settings())
        settle(*(Client(shard, f"m{n}", more={"topics": frozenset("tu"[n % 2 :])}) for n in range(5)))
        found.append(shard.consumers().targets)
    assert found[0] == found[1]


def test_a_target_is_requested_once(shard: ConsumerShard) -> None:
    for n in range(5):
        shard.beat(f"m{n}")
    shard.beat("m1", shard.member("m1").epoch)
    assert shard.targets_asked == ["g"]


def test_a_target_that_is_not_made_in_time_is_requested_again(shard: ConsumerShard) -> None:
    shard.beat("m1")
    shard.targets_asked.clear()
    shard.sleep(9)
    shard.beat("m1", 1)
    assert not shard.targets_asked
    shard.sleep(2)
    settle(Client(shard, "m1", epoch=1))


def test_a_coordinator_that_takes_over_requests_the_target(shard: ConsumerShard) -> None:
    shard.beat("m1")
    there = shard.reloaded()
    assert isinstance(there, ConsumerShard)
    assert there.consumers().target_epoch == 1
    there.beat("m1", 1)
    assert there.targets_asked == ["g"]


def test_a_takeover_keeps_the_first_epoch_of_a_group_that_was_classic(shard: ConsumerShard) -> None:
    (classic,) = shard.stable(1)
    shard.leave(classic)
    first = shard.beat("m1").epoch
    assert shard.beat("m1", first).epoch == first
    there = shard.reloaded()
    assert isinstance(there, ConsumerShard)
    assert there.beat("m1", first).epoch == first


def test_a_group_that_members_keep_joining_gets_its_targets(shard: ConsumerShard) -> None:
    shard.beat("m0")
    for n in range(1, 9):
        before = shard.consumers().target_epoch
        shard.assign(2)  # the work has begun, so it does not know the next member
        shard.beat(f"m{n}")
        shard.assign()
        assert before < shard.consumers().target_epoch < shard.consumers().epoch
        assert shard.consumers().targets.keys() == {f"m{each}" for each in range(n)}
        shard.beat("m0", shard.member("m0").epoch)
    settle(*(Client(shard, f"m{n}", epoch=shard.member(f"m{n}").epoch) for n in range(9)))


@pytest.mark.parametrize("way", ["leaves", "session"])
def test_a_member_that_has_gone_gets_no_target(shard: ConsumerShard, way: str) -> None:
    shard.beat("m1")
    if way == "session":
        shard.sleep(40)
    shard.beat("m2")
    shard.assign(2)
    if way == "session":
        shard.sleep(10)
    else:
        shard.beat("m1", LEAVES)
    shard.assign()
    assert shard.consumers().targets.keys() <= {"m2"}
    settle(Client(shard, "m2", epoch=1))


def test_a_static_member_that_comes_back_meanwhile_gets_its_target(shard: ConsumerShard) -> None:
    shard.beat("m1", instance_id="i")
    shard.assign(2)
    shard.beat("m1", LEAVES_FOR_NOW, instance_id="i")
    shard.beat("again", instance_id="i")
    shard.assign()
    assert shard.consumers().targets == {"again": partitions(t=range(4))}


def test_a_target_of_a_former_group_with_that_name_is_dropped(shard: ConsumerShard) -> None:
    shard.beat("m1")
    made = made_of(shard)
    for n in range(20):
        shard.beat(f"other{n}")
    shard.beat("m1", LEAVES)
    for tombstone in shard.consumers().tombstones():
        shard.apply(tombstone)
    shard.sleep(1)
    for _ in range(3):
        shard.beat("m1")
    shard.beat("m2")
    before = len(shard.log)
    assert shard.take(decide_made(shard.consumers(), made, 0, shard.settings, shard.now)) is None
    assert len(shard.log) == before


def test_an_older_target_does_not_replace_a_newer_one(shard: ConsumerShard) -> None:
    shard.beat("m1")
    made = made_of(shard)
    shard.beat("m2")
    shard.assign()
    before = len(shard.log)
    assert shard.take(decide_made(shard.consumers(), made, 0, shard.settings, shard.now)) is None
    assert len(shard.log) == before


def made_of(shard: ConsumerShard) -> target.MadeTarget:
    steps = made_target(target_work(shard.consumers(), shard.settings.consumer.of("g")), shard.known)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: target.MadeTarget = done.value
            return made


@pytest.fixture(params=["bytes", "members"])
def small_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> GroupSettings:
    if request.param == "members":
        monkeypatch.setattr(target, "_A_PART", 6)
    return replace(settings(), max_record_bytes=600 if request.param == "bytes" else 1 << 20)


def test_a_large_target_is_written_in_parts_and_counts_when_it_is_complete(small_parts: GroupSettings) -> None:
    shard = ConsumerShard(small_parts)
    shard.known.put("t", 60)
    members = [Client(shard, f"m{n}") for n in range(20)]
    for member in members:
        member.beat()
    shard.assign()
    settle(*members, rounds=20)
    assert [len(flat(member.owned)) for member in members] == [3] * 20
    assert shard.largest_bytes < 1_200


def test_a_sole_members_target_and_assignment_are_in_separate_batches() -> None:
    """If the join wrote both, they would be in one batch."""
    shard = ConsumerShard(replace(settings(), max_record_bytes=8_000))
    shard.known.put("t", 900)
    member = Client(shard, "m1")
    settle(member)
    assert len(flat(member.owned)) == 900
    assert shard.largest_bytes <= 8_000


@pytest.mark.story("target-larger-than-a-batch")
def test_a_target_that_nearly_fills_a_batch_has_one_of_its_own(shard: ConsumerShard) -> None:
    shard.settings = replace(settings(), max_record_bytes=4_000)
    shard.known.put("t", 300)
    shard.known.put("u", 900)
    shard.beat("m1", topics="t")
    shard.beat("m2", topics="u")
    shard.assign()
    assert shard.consumers().is_assigned
    assert [len(flat(target)) for target in shard.consumers().targets.values()] == [300, 900]
    assert shard.largest_bytes <= 4_000


def test_the_epoch_of_a_target_has_a_batch_of_its_own_where_the_last_one_is_full(shard: ConsumerShard) -> None:
    shard.known.put("t", 900)
    shard.beat("m1")
    made = made_of(shard)
    whole = decide_made(shard.consumers(), made, 0, shard.settings, shard.now)
    shard.settings = replace(settings(), max_record_bytes=size_limit(whole.records) - 1)
    shard.assign()
    assert shard.consumers().is_assigned
    assert shard.largest_bytes == size_limit(whole.records[:1])


def test_a_target_that_no_record_can_hold_changes_nothing_and_its_error_names_the_member(shard: ConsumerShard) -> None:
    shard.settings = replace(settings(), max_record_bytes=2_000)
    shard.known.put("t", 900)
    shard.beat("m1")
    before = len(shard.log)
    with pytest.raises(OttlaError, match="member 'm1' of group g is to have 900 partitions"):
        shard.assign()
    assert len(shard.log) == before
    shard.beat("m2")
    shard.beat("m3")
    shard.sleep(11)
    settle(*(Client(shard, f"m{n}", epoch=1) for n in (1, 2, 3)), rounds=20)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("topics", ["of their own", "of all"])
def test_no_step_of_a_target_is_long(shard: ConsumerShard, assignor: str, topics: str) -> None:
    shard.checks_purity = False
    names = [f"t{n}" for n in range(500)]
    for name in names:
        shard.known.put(name, 20)
    shard.known.put("wide", 5_000)
    for n in range(250):
        read = names[n : n + 250] if topics == "of their own" else names
        shard.beat(f"m{n}", topics=[*read, "wide"], assignor=assignor)
    work = target_work(shard.consumers(), shard.settings.consumer.of("g"))
    longest, total = longest_step(made_target(work, shard.known))
    assert total > 50_000
    assert longest < 5_000
