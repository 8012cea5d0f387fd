from __future__ import annotations

import pytest
from groups import WAITS, Shard, code, subscription

from ottla_core.errors import ErrorCode, OttlaError
from ottla_group_coordinator.machines.answers import MemberIdRequiredError
from ottla_group_coordinator.machines.group import State
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.offsets import decide_delete_group

DAY_S = 24 * 3600


@pytest.fixture
def shard() -> Shard:
    return Shard()


# membership
def test_who_leaves_before_it_was_a_member_disturbs_nobody(shard: Shard) -> None:
    leader, _ = shard.stable(2)
    told = shard.join(member_id_required=True)
    assert isinstance(told, MemberIdRequiredError)
    assert shard.leave(told.member_id) == [None]
    assert shard.group().state is State.STABLE
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


def test_a_member_with_another_preference_makes_all_join_again(shard: Shard) -> None:
    both = {"range": b"", "sticky": b""}
    _, other = shard.stable(2, protocols=both)
    assert shard.join(other, key="o", protocols=dict(reversed(both.items()))) is WAITS


def test_who_is_put_out_while_it_waits_is_told_so(shard: Shard) -> None:
    _, other = shard.stable(2)
    shard.join(other, key="o", protocols={"range": subscription("u")})
    shard.leave(other)
    assert code(shard.answers["o"]) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_name_that_no_record_holds_is_refused_before_it_does_harm(shard: Shard) -> None:
    assert code(shard.join(client_id="x" * 40_000)) == ErrorCode.INVALID_REQUEST
    assert code(shard.join(protocols={"x" * 40_000: b""})) == ErrorCode.INVALID_REQUEST


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
    assert shard.group().state is State.PREPARING
    shard.join(a, key="a2")
    shard.join(b, key="b2")
    shard.synchronize([a, b])


def test_what_is_kept_of_those_who_left_has_an_end(shard: Shard) -> None:
    for n in range(50):
        shard.join(key=f"{n}")
        shard.sleep(3)
        shard.leave(shard.answers[f"{n}"].member_id)
    assert len(shard.group().departed) == 0


# offsets
@pytest.mark.rule(46)
def test_an_instance_that_chooses_its_partitions_itself_commits(shard: Shard) -> None:
    assert shard.commit(3, instance_id="i") == [None]
    leader, *_ = shard.stable(1)
    shard.leave(leader)
    assert shard.commit(4, instance_id="i") == [None]
    assert shard.commit(5, "former") == [None]
    shard.join(key="new")
    assert code(shard.commit(6, instance_id="i")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(shard.commit(6)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_does_not_keep_a_group(shard: Shard) -> None:
    shard.commit(3)
    shard.join(member_id_required=True)
    shard.take(decide_delete_group(shard.group(), shard.machine.offsets("g")))
    assert list(shard.machine.groups()) == []


def test_a_group_whose_members_are_all_away_in_a_rebalance_is_not_deleted(shard: Shard) -> None:
    shard.join(key="a")
    shard.leave(*shard.group().members)
    with pytest.raises(OttlaError) as refused:
        decide_delete_group(shard.group(), shard.machine.offsets("g"))
    assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
    shard.sleep(3)
    shard.take(decide_delete_group(shard.group(), shard.machine.offsets("g")))


@pytest.mark.rule(50)
def test_however_many_offsets_are_over_each_look_writes_what_a_batch_holds() -> None:
    shard = Shard()
    topics = [f"{n:04}" + "x" * 200 for n in range(3_000)]
    for n, topic in enumerate(topics):
        shard.commit(n, topic=topic)
    largest = shard.largest_bytes
    shard.sleep(8 * DAY_S)
    assert list(shard.machine.groups()) == []
    assert largest < shard.largest_bytes < 300_000


@pytest.mark.rule(50)
def test_many_groups_are_looked_at_some_at_a_time() -> None:
    shard = Shard()
    for n in range(2_500):
        shard.join(group=f"g{n}", member_id_required=True)
    shard.sleep(1_300)
    assert list(shard.machine.groups()) == []
