"""The classic protocol of consumer groups, as members see it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from groups import WAITS, Shard, code, subscription

from ottla_core.coordination.shard import Entry, Record
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import (
    MemberAssignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.history import Kind
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.records import GroupKey, encode_group, encode_key
from ottla_group_coordinator.machines.responses import Joined, MemberIdRequiredError, Synced
from ottla_group_coordinator.machines.states import GroupState


@pytest.fixture
def shard() -> Shard:
    return Shard()


# ---- joining --------------------------------------------------------------------------------------------------------


@pytest.mark.rule(44)
def test_a_member_gets_its_id_first_and_is_none_before_it_comes_back(shard: Shard) -> None:
    told = shard.join(member_id_required=True)
    assert isinstance(told, MemberIdRequiredError)
    assert code(told) == ErrorCode.MEMBER_ID_REQUIRED
    assert not shard.group().members
    assert shard.join(told.member_id, key="again", member_id_required=True) is WAITS
    shard.sleep(3)
    assert shard.answers["again"].member_id == told.member_id


@pytest.mark.rule(44)
def test_an_id_that_is_not_used_is_forgotten(shard: Shard) -> None:
    told = shard.join(member_id_required=True, session_timeout_ms=6_000)
    shard.sleep(6.1)
    assert code(shard.join(told.member_id)) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.rule(48)
@pytest.mark.feature(66)
def test_a_first_member_waits_for_others_and_the_first_leads(shard: Shard) -> None:
    assert shard.join(key="a") is WAITS
    shard.sleep(2.9)
    assert shard.join(key="b") is WAITS  # and the wait begins anew
    shard.sleep(2.9)
    assert shard.answers == {}
    shard.sleep(0.2)
    a, b = shard.answers["a"], shard.answers["b"]
    assert a.generation == b.generation == 1
    assert a.leader == b.leader == a.member_id
    assert [m.member_id for m in a.members] == [a.member_id, b.member_id]
    assert b.members == ()


@pytest.mark.rule(48)
def test_the_first_wait_ends_with_the_rebalance_timeout_however_many_come(shard: Shard) -> None:
    shard.join(key="first", rebalance_timeout_ms=8_000)
    for n in range(4):
        shard.sleep(2.0)
        shard.join(key=f"later-{n}", rebalance_timeout_ms=8_000)
    assert "first" in shard.answers


@pytest.mark.feature(67)
def test_only_the_leader_is_told_of_the_others(shard: Shard) -> None:
    leader, _, third = shard.stable(3)
    assert shard.join(leader, key="l", protocols={"range": subscription("t", "u")}) is WAITS
    for member_id in shard.group().members:
        if member_id != leader:
            assert shard.join(member_id, key=member_id) is WAITS
    assert len(shard.answers["l"].members) == 3
    assert shard.answers[third].members == ()
    assert shard.answers["l"].members[0].metadata == subscription("t", "u")


@pytest.mark.story("rebalance-that-costs-members-squared")
def test_a_rebalance_costs_each_member_as_much_in_a_large_group_as_in_a_small_one() -> None:
    small, large = (_calls_of_a_rebalance(count) / count for count in (20, 100))
    assert large <= 1.1 * small


def _calls_of_a_rebalance(count: int) -> int:
    shard, calls = Shard(), 0
    member_ids = shard.stable(count)

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and "ottla_group_coordinator" in frame.f_code.co_filename

    sys.setprofile(note)
    try:
        for member_id in member_ids:
            shard.join(member_id, key=member_id)
        shard.synchronize(member_ids)
    finally:
        sys.setprofile(None)
    assert shard.group().generation == 2
    return calls


def test_the_protocol_is_the_one_that_all_know_and_most_prefer(shard: Shard) -> None:
    shard.join(key="a", protocols={"sticky": b"", "range": b"", "odd": b""})
    shard.join(key="b", protocols={"range": b"", "sticky": b""})
    shard.join(key="c", protocols={"range": b"", "sticky": b"c's"})
    shard.sleep(3)
    assert {shard.answers[key].protocol for key in "abc"} == {"range"}
    assert code(shard.join(protocols={"odd": b""})) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(shard.join(protocols={"range": b""}, protocol_type="connect")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_a_session_timeout_has_bounds(shard: Shard, timeout_ms: int) -> None:
    assert code(shard.join(session_timeout_ms=timeout_ms)) == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_group_has_a_largest_size() -> None:
    shard = Shard(GroupSettings(max_size=2))
    shard.stable(2)
    assert code(shard.join()) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_after_the_last_generation_comes_the_first_again() -> None:
    shard = Shard(GroupSettings(initial_rebalance_delay_ms=0))
    last = Group("g", protocol_type="consumer", generation=2**31 - 1)
    shard.apply(Entry(encode_key(GroupKey("g")), encode_group(last.record())))
    shard.join(key="j")
    joined = shard.answers["j"]
    assert joined.generation == 1
    shard.sync(joined.member_id, 1, {joined.member_id: b"a"})
    assert shard.reloaded().group().generation == 1


def test_a_group_without_a_protocol_is_refused(shard: Shard) -> None:
    assert code(shard.join(protocols={})) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(shard.join("nobody")) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.rule(44)
def test_an_id_holds_though_a_rebalance_ends_before_it_is_used(shard: Shard) -> None:
    shard.join(key="a")
    shard.sleep(2.9)
    told = shard.join(member_id_required=True)
    shard.sleep(0.2)
    assert shard.answers["a"].generation == 1
    assert shard.join(told.member_id, key="b", member_id_required=True) is WAITS


def test_an_id_that_was_given_out_takes_no_place() -> None:
    shard = Shard(GroupSettings(max_size=2))
    leader, *_ = shard.stable(1)
    shard.join(member_id_required=True)
    told = [shard.join(member_id_required=True) for _ in range(2)]
    assert all(isinstance(each, MemberIdRequiredError) for each in told)
    assert shard.join(told[0].member_id, key="first") is WAITS
    assert code(shard.join(told[1].member_id)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert leader in shard.group().members


def test_the_only_member_can_not_make_it_another_kind_of_group(shard: Shard) -> None:
    leader, *_ = shard.stable(1)
    assert code(shard.join(leader, protocol_type="connect")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shard.join(leader, key="l", protocols={"sticky": b""}) is WAITS


def test_a_name_that_no_record_holds_is_refused_before_it_does_harm(shard: Shard) -> None:
    assert code(shard.join(client_id="x" * 40_000)) == ErrorCode.INVALID_REQUEST
    assert code(shard.join(protocols={"x" * 40_000: b""})) == ErrorCode.INVALID_REQUEST


# ---- rebalances -----------------------------------------------------------------------------------------------------


@pytest.mark.rule(48)
@pytest.mark.feature(68)
def test_a_newcomer_makes_all_join_again(shard: Shard) -> None:
    leader, other = shard.stable(2)
    assert shard.join(key="new") is WAITS
    assert code(shard.heartbeat(leader, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    assert code(shard.heartbeat(other, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.join(leader, key="l") is WAITS
    assert shard.answers == {}
    assert shard.join(other, key="o") is WAITS
    assert {shard.answers[key].generation for key in ("new", "l", "o")} == {2}
    assert shard.answers["l"].leader == leader


@pytest.mark.rule(48)
def test_who_does_not_join_again_in_time_is_out(shard: Shard) -> None:
    leader, other = shard.stable(2)
    shard.join(other, key="o", protocols={"range": subscription("new")})
    for _ in range(12):
        shard.sleep(5.0)
        shard.heartbeat(leader, 1)  # it lives, and does not join
    shard.sleep(0.1)
    assert shard.answers["o"].leader == other
    assert list(shard.group().members) == [other]
    assert shard.events()[-2].kind is Kind.EVICTED


@pytest.mark.rule(48)
def test_a_heartbeat_in_a_rebalance_keeps_the_session(shard: Shard) -> None:
    leader, other = shard.stable(2)
    shard.join(key="new")
    for _ in range(3):
        shard.sleep(8)
        assert code(shard.heartbeat(other, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    assert other in shard.group().members
    assert leader not in shard.group().members  # it sent none


def test_a_lost_answer_is_given_again(shard: Shard) -> None:
    shard.join(key="a")
    shard.sleep(3)
    first = shard.answers["a"]
    again = shard.join(first.member_id, key="a2")
    assert again == first


def test_a_member_that_joins_again_unchanged_hears_of_its_generation(shard: Shard) -> None:
    leader, other = shard.stable(2)
    told = shard.join(other)
    assert isinstance(told, Joined)
    assert (told.generation, told.leader, told.members) == (1, leader, ())
    assert shard.join(leader, key="l") is WAITS  # a leader means that all shall join


def test_a_member_that_changes_makes_all_join_again(shard: Shard) -> None:
    _, other = shard.stable(2)
    assert shard.join(other, key="o", protocols={"range": subscription("another")}) is WAITS
    assert shard.group().state is GroupState.PREPARING_REBALANCE


@pytest.mark.feature(69)
def test_a_rebalance_refuses_those_who_wait_to_synchronize(shard: Shard) -> None:
    leader, other = shard.stable(2)
    for member_id in (other, leader):
        shard.join(member_id, key=f"again-{member_id}", protocols={"range": subscription("u")})
    assert shard.sync(other, 2, key="waiting") is WAITS
    shard.join(key="new")
    assert code(shard.answers["waiting"]) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_with_another_preference_makes_all_join_again(shard: Shard) -> None:
    both = {"range": b"", "sticky": b""}
    _, other = shard.stable(2, protocols=both)
    assert shard.join(other, key="o", protocols=dict(reversed(both.items()))) is WAITS


def test_a_member_that_joins_again_while_it_synchronizes_has_a_session_again(shard: Shard) -> None:
    shard.join(key="a")
    shard.join(key="b")
    shard.sleep(3)
    a, b = shard.answers["a"], shard.answers["b"]
    assert shard.sync(b.member_id, 1, key="lost") is WAITS
    assert shard.join(b.member_id) == b
    for _ in range(3):
        shard.sleep(5)
        assert shard.heartbeat(a.member_id, 1) is shard.heartbeat(b.member_id, 1) is None
    assert code(shard.answers["lost"]) == ErrorCode.REBALANCE_IN_PROGRESS


# ---- synchronizing --------------------------------------------------------------------------------------------------


@pytest.mark.rule(49)
def test_an_assignment_is_written_before_anybody_is_told(shard: Shard) -> None:
    leader, other = shard.stable(2)
    there = shard.reloaded().group()
    assert there.state is GroupState.STABLE
    assert there.generation == 1
    assert there.leader == leader
    assert {m.member_id: m.assignment for m in there.members.values()} == {
        leader: leader.encode(),
        other: other.encode(),
    }


@pytest.mark.rule(49)
def test_who_waits_for_its_assignment_is_not_told_where_it_could_not_be_written(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ("a", "b")
    for key in keys:
        shard.join(key=key)
    shard.sleep(3)
    a, b = (shard.answers.pop(key).member_id for key in keys)
    leader, other = sorted((a, b), key=lambda m: m != shard.group().leader)
    assert shard.sync(other, 1) is WAITS

    def no_room(record: Record) -> None:
        raise OSError("the log takes nothing")

    with monkeypatch.context() as full:
        full.setattr(shard, "apply", no_room)
        with pytest.raises(OSError, match="takes nothing"):
            shard.sync(leader, 1, {other: b"for the other"})
    assert shard.answers == {}
    assert shard.sync(leader, 1, {other: b"for the other"}, key="again") is WAITS
    assert shard.answers[f"sync-{other}-1"] == Synced("consumer", "range", b"for the other")


def test_a_late_member_finds_its_assignment(shard: Shard) -> None:
    shard.join(key="a")
    shard.join(key="b")
    shard.sleep(3)
    a, b = shard.answers["a"].member_id, shard.answers["b"].member_id
    assert shard.sync(a, 1, {b: b"for b"}) is WAITS
    assert shard.answers[f"sync-{a}-1"] == Synced("consumer", "range", b"")
    assert shard.sync(b, 1) == Synced("consumer", "range", b"for b")


def test_who_does_not_synchronize_in_time_is_out_and_the_others_go_on(shard: Shard) -> None:
    shard.join(key="a", session_timeout_ms=100_000)
    shard.join(key="b", session_timeout_ms=100_000)
    shard.sleep(3)
    a, b = shard.answers["a"].member_id, shard.answers["b"].member_id
    assert shard.sync(b, 1, key="b waits") is WAITS
    shard.sleep(60)  # the leader never assigns
    assert code(shard.answers["b waits"]) == ErrorCode.REBALANCE_IN_PROGRESS
    assert a not in shard.group().members
    assert shard.join(b, key="b again") is WAITS
    assert shard.answers["b again"].leader == b


def test_a_group_too_large_for_the_log_is_refused_to_all_and_nobody_waits_for_it() -> None:
    shard = Shard(GroupSettings(max_record_bytes=2_000))
    shard.join(key="a")
    shard.join(key="b")
    shard.sleep(3)
    a, b = shard.answers["a"].member_id, shard.answers["b"].member_id
    assert shard.sync(b, 1, key="b waits") is WAITS
    assert code(shard.sync(a, 1, {b: b"x" * 2_000})) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert code(shard.answers["b waits"]) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert shard.log == []
    assert shard.group().state is GroupState.PREPARING_REBALANCE
    shard.join(a, key="a2")
    shard.join(b, key="b2")
    shard.synchronize([a, b])


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"protocol": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_synchronizing_as_something_else_is_refused(shard: Shard, more: dict[str, Any], expected: ErrorCode) -> None:
    leader, _ = shard.stable(2)
    assert code(shard.sync(leader, 1, **more)) == expected


def test_an_old_generation_is_refused(shard: Shard) -> None:
    leader, _ = shard.stable(2)
    for ask in (shard.sync, shard.heartbeat):
        assert code(ask(leader, 0)) == ErrorCode.ILLEGAL_GENERATION
        assert code(ask("nobody", 1)) == ErrorCode.UNKNOWN_MEMBER_ID


# ---- leaving and dying ----------------------------------------------------------------------------------------------


@pytest.mark.feature(68)
def test_who_leaves_is_gone_at_once_and_the_others_share(shard: Shard) -> None:
    leader, other = shard.stable(2)
    assert shard.leave(other, "nobody")[0] is None
    assert code(shard.heartbeat(leader, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.join(leader, key="l") is WAITS
    assert [m.member_id for m in shard.answers["l"].members] == [leader]


def test_the_last_to_leave_leaves_an_empty_group_in_the_log(shard: Shard) -> None:
    leader, other = shard.stable(2)
    assert shard.leave(leader, other) == [None, None]
    assert shard.group().state is GroupState.EMPTY
    assert shard.reloaded().group().state is GroupState.EMPTY
    assert shard.reloaded().group().generation == 2


def test_who_leaves_before_it_was_a_member_disturbs_nobody(shard: Shard) -> None:
    leader, _ = shard.stable(2)
    told = shard.join(member_id_required=True)
    assert isinstance(told, MemberIdRequiredError)
    assert shard.leave(told.member_id) == [None]
    assert shard.group().state is GroupState.STABLE
    assert shard.heartbeat(leader, 1) is None
    assert code(shard.join(told.member_id)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_goes_on_when_the_one_that_it_waited_for_leaves_before_it_joins(shard: Shard) -> None:
    leader, other = shard.stable(2)
    shard.join(other, key="o", protocols={"range": subscription("u")})
    told = shard.join(member_id_required=True)
    shard.join(leader, key="l")
    assert shard.answers == {}
    shard.leave(told.member_id)
    assert shard.answers["l"].generation == 2


def test_leaving_a_group_that_is_not_there_makes_none(shard: Shard) -> None:
    (refused,) = shard.leave("nobody")
    assert code(refused) == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(shard.machine.groups()) == []


def test_who_is_put_out_while_it_waits_is_told_so(shard: Shard) -> None:
    _, other = shard.stable(2)
    shard.join(other, key="o", protocols={"range": subscription("u")})
    shard.leave(other)
    assert code(shard.answers["o"]) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.feature(73)
def test_a_session_without_a_heartbeat_ends_with_its_cause(shard: Shard) -> None:
    leader, other = shard.stable(2)
    for _ in range(3):
        shard.sleep(4)
        shard.heartbeat(leader, 1)
    assert list(shard.group().members) == [leader]
    evicted = next(e for e in shard.events() if e.kind is Kind.EVICTED)
    assert evicted.member_id == other
    assert "no heartbeat for 10000 ms" in evicted.cause
    assert code(shard.heartbeat(other, 1)) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.rule(49)
def test_after_a_load_everybody_has_a_full_session(shard: Shard) -> None:
    leader, other = shard.stable(2)
    shard.sleep(9)
    there = shard.reloaded()
    there.sleep(9.9)
    assert set(there.group().members) == {leader, other}
    there.heartbeat(leader, 1)
    there.sleep(0.2)
    assert list(there.group().members) == [leader]


# ---- static members -------------------------------------------------------------------------------------------------


@pytest.mark.rule(45)
def test_a_static_member_comes_back_without_a_rebalance(shard: Shard) -> None:
    leader, other = shard.stable(2, static=True)
    instance = shard.group().members[other].instance_id
    told = shard.join(instance_id=instance)
    assert isinstance(told, Joined)
    assert told.generation == 1
    assert told.member_id != other
    assert shard.group().state is GroupState.STABLE
    assert shard.sync(told.member_id, 1, instance_id=instance) == Synced("consumer", "range", other.encode())
    assert code(shard.heartbeat(other, 1, instance)) == ErrorCode.FENCED_INSTANCE_ID
    assert code(shard.commit(5, other, 1, instance_id=instance)) == ErrorCode.FENCED_INSTANCE_ID
    assert told.member_id in shard.reloaded().group().members
    assert leader in shard.group().members


@pytest.mark.rule(45)
@pytest.mark.parametrize("skips", [True, False])
def test_a_static_leader_that_comes_back_assigns_nothing(shard: Shard, skips: bool) -> None:
    leader, _ = shard.stable(2, static=True)
    instance = shard.group().members[leader].instance_id
    told = shard.join(instance_id=instance, skips_assignment=skips)
    assert told.skip_assignment is skips
    assert (told.leader == told.member_id) is skips
    assert shard.group().leader == told.member_id


@pytest.mark.rule(45)
def test_a_static_member_that_has_changed_makes_all_join_again(shard: Shard) -> None:
    _, other = shard.stable(2, static=True)
    instance = shard.group().members[other].instance_id
    assert shard.join(instance_id=instance, protocols={"range": subscription("else")}) is WAITS
    assert shard.group().state is GroupState.PREPARING_REBALANCE


@pytest.mark.rule(45)
def test_a_static_member_that_held_partitions_comes_back_without_them(shard: Shard) -> None:
    """Java's subscription tells them, and their generation: a process that begins has neither."""
    held = Subscription(("t",), b"sticky", (TopicPartition("t", 0),), 1, "rack")
    shard.stable(1, static=True, protocols={"range": encode_subscription(held)})
    assert isinstance(shard.join(instance_id="i0", protocols={"range": subscription("t")}), Joined)
    assert shard.group().state is GroupState.STABLE
    assert shard.join(instance_id="i0", protocols={"range": b"no subscription"}) is WAITS


@pytest.mark.story("static-member-back-before-it-gave-up")
@pytest.mark.parametrize("kept", [2, 1])
def test_a_static_member_that_ended_before_it_gave_a_partition_up_makes_all_join_again(shard: Shard, kept: int) -> None:
    """The restarted process does not know of the partition, so it would not ask for the rebalance."""
    held = (TopicPartition("t", 0), TopicPartition("t", 1))
    offered = {"cooperative-sticky": encode_subscription(Subscription(("t",), owned=held, generation=0))}
    shard.join(instance_id="i0", key="first", protocols=offered)
    shard.sleep(3)
    member = shard.answers["first"].member_id
    shard.sync(member, 1, {member: encode_assignment(MemberAssignment(held[:kept]))}, instance_id="i0")
    back = shard.join(instance_id="i0", protocols={"cooperative-sticky": subscription("t")})
    assert (back is WAITS) == (kept < len(held))


def test_a_static_member_has_its_session_to_come_back_in_a_rebalance(shard: Shard) -> None:
    leader, other = shard.stable(2, static=True, rebalance_timeout_ms=6_000, session_timeout_ms=60_000)
    changed = {"range": subscription("u")}
    shard.join(
        leader, instance_id="i0", key="l", protocols=changed, session_timeout_ms=60_000, rebalance_timeout_ms=6_000
    )
    shard.sleep(6.1)
    assert shard.answers["l"].generation == 2
    assert set(shard.group().members) == {leader, other}
    shard.sleep(60)  # the other one's session has ended meanwhile
    assert other not in shard.group().members


def test_a_new_member_that_waits_for_ever_is_given_up(shard: Shard) -> None:
    leader, _ = shard.stable(2, rebalance_timeout_ms=1_000_000)
    shard.join(key="new", rebalance_timeout_ms=1_000_000)
    for _ in range(100):
        shard.sleep(3.1)
        for member_id in list(shard.group().members):
            shard.heartbeat(member_id, 1)
    assert len(shard.group().members) == 2
    assert leader in shard.group().members
    assert code(shard.answers["new"]) == ErrorCode.UNKNOWN_MEMBER_ID


# ---- what is explained ----------------------------------------------------------------------------------------------


def test_a_rebalance_is_told_with_cause_and_duration(shard: Shard) -> None:
    leader, other = shard.stable(2)
    shard.leave(other)
    shard.sleep(2)
    shard.join(leader, key="l")
    shard.synchronize([leader])
    kinds = [e.kind for e in shard.events()]
    assert kinds[-4:] == [Kind.LEFT, Kind.REBALANCE_BEGAN, Kind.GENERATION, Kind.ASSIGNED]
    assert shard.events()[-3].cause == "client left"
    assert shard.events()[-1].duration_ms == 2_000


@pytest.mark.story("waited-and-told-of-heartbeats")
def test_a_member_whose_client_may_be_gone_while_it_waits_is_put_out_for_that(shard: Shard) -> None:
    shard.stable(1, session_timeout_ms=1_000_000, rebalance_timeout_ms=1_000_000)
    assert shard.join(key="new", rebalance_timeout_ms=1_000_000) is WAITS
    shard.sleep(299)
    assert len(shard.group().members) == 2
    shard.sleep(2)
    assert len(shard.group().members) == 1
    causes = [event.cause for event in shard.events() if event.kind is Kind.EVICTED]
    assert causes == ["waited 300 s for the others to join, and its client may be gone"]


@pytest.mark.story("member-ids-without-a-cap")
def test_no_more_ids_are_given_out_than_a_group_can_wait_for(shard: Shard) -> None:
    for _ in range(1_000):
        assert isinstance(shard.join(member_id_required=True), MemberIdRequiredError)
    refused = shard.join(member_id_required=True)
    assert isinstance(refused, OttlaError)
    assert refused.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    shard.sleep(10)
    assert isinstance(shard.join(member_id_required=True), MemberIdRequiredError)
