"""Groups of the consumer protocol, as their members see them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from consumer_groups import LEFT_OUT, Client, ConsumerShard, flat, partitions, settings, settle
from groups import WAITS, code, id_of

from ottla_core.coordination.shard import Entry
from ottla_core.errors import ErrorCode
from ottla_group_coordinator.machines.consumer.member import LEAVES, LEAVES_FOR_NOW
from ottla_group_coordinator.machines.consumer.records import (
    LAST_EPOCH,
    GroupEpochKey,
    TargetEpochKey,
    encode_consumer_key,
    encode_consumer_value,
)
from ottla_group_coordinator.machines.consumer.requests import ConsumerHeartbeatAnswer
from ottla_group_coordinator.machines.consumer.states import ConsumerGroupState, MemberState
from ottla_group_coordinator.machines.history import Kind


@pytest.fixture
def shard() -> ConsumerShard:
    return ConsumerShard(settings())


# ---- joining --------------------------------------------------------------------------------------------------------


def test_the_first_member_gets_every_partition_in_epoch_2(shard: ConsumerShard) -> None:
    answer = shard.beat("m1")
    assert answer == ConsumerHeartbeatAnswer("m1", 2, 5_000, partitions(t=range(4)))
    assert shard.consumers().state is ConsumerGroupState.STABLE


def test_a_second_member_gets_its_half_once_the_first_has_given_it_up(shard: ConsumerShard) -> None:
    first, second = Client(shard, "m1"), Client(shard, "m2")
    first.beat()
    first.settle()
    assert second.beat().assignment == {}
    assert shard.member("m2").current.state is MemberState.UNRELEASED
    told = first.beat()
    assert told.epoch == 2, "it commits in its epoch until it has given the partitions up"
    assert len(flat(told.assignment)) == 2
    assert shard.member("m1").current.state is MemberState.UNREVOKED
    assert second.beat().assignment is None
    first.settle()
    assert first.beat().epoch == 3
    assert len(flat(second.beat().assignment)) == 2
    assert flat(first.told) | flat(second.told) == flat(partitions(t=range(4)))
    assert shard.consumers().state is ConsumerGroupState.STABLE


def test_a_member_that_waits_writes_nothing(shard: ConsumerShard) -> None:
    first, second = Client(shard, "m1"), Client(shard, "m2")
    first.beat()
    first.settle()
    second.beat()
    before = len(shard.log)
    for _ in range(5):
        second.beat()
    assert len(shard.log) == before


def test_a_heartbeat_that_changes_nothing_writes_nothing(shard: ConsumerShard) -> None:
    assigned = shard.beat("m1").assignment
    before = len(shard.log)
    for more in ({"owned": assigned}, {}):
        assert shard.beat("m1", 2, **more) == ConsumerHeartbeatAnswer("m1", 2, 5_000)
    assert len(shard.log) == before


@pytest.mark.story("assignment-whose-response-was-lost")
def test_a_member_that_has_lost_a_response_hears_its_assignment_again(shard: ConsumerShard) -> None:
    one, two = Client(shard, "m1"), Client(shard, "m2")
    settle(one)
    two.beat()
    shard.beat("m1", 2)  # its response says what it has to give up, and is lost
    less = shard.beat("m1", 2).assignment
    assert len(flat(less)) == 2
    one.owned = less
    one.beat()
    shard.beat("m2", 3)  # its response has what m1 has given up, and is lost
    more = shard.beat("m2", 3).assignment
    assert len(flat(more)) == 2
    assert shard.beat("m2", 3, owned=more).assignment is None
    assert shard.beat("m2", 3).assignment is None


def test_a_new_owner_has_each_member_hear_its_assignment_once(shard: ConsumerShard) -> None:
    one = Client(shard, "m1")
    settle(one)
    shard.take_over()
    assert [shard.beat("m1", 2).assignment for _ in range(3)] == [one.owned, None, None]


class OfFour:
    """A member that was given two partitions in a lost response. The next target takes one of them away."""

    def __init__(self, shard: ConsumerShard) -> None:
        self.member = Client(shard, "m2", reports_always=False, more={"rebalance_timeout_ms": 10_000})
        self.others = [Client(shard, name) for name in ("m1", "m3", "m4")]
        settle(self.others[0])
        self.member.beat()
        self.others[0].beat()
        self.others[0].settle()
        self.others[0].beat()
        self.member.loses = True
        self.former = self.member.beat().assignment
        assert len(flat(self.former)) == 2
        for newcomer in self.others[1:]:
            newcomer.beat()


@pytest.mark.story("revocation-of-partitions-that-never-arrived")
def test_a_member_gets_its_former_assignment_until_it_reports_its_partitions(shard: ConsumerShard) -> None:
    four = OfFour(shard)
    for _ in range(2):
        assert four.member.beat().assignment == four.former
        assert shard.member("m2").current.state is MemberState.UNREVOKED
    four.member.settle()
    assert len(flat(four.member.beat().assignment)) == 1
    settle(four.member, *four.others)


@pytest.mark.story("revocation-of-partitions-that-never-arrived")
def test_a_member_that_lacks_its_former_assignment_goes_on_once_it_reports(shard: ConsumerShard) -> None:
    four = OfFour(shard)
    four.member.beat()
    assert len(flat(four.member.beat(owned={}).assignment)) == 1
    settle(four.member, *four.others)


@pytest.mark.story("report-hidden-by-a-late-join")
def test_a_member_whose_late_join_has_hidden_its_report_gives_partitions_up(shard: ConsumerShard) -> None:
    one, two = Client(shard, "m1", reports_always=False), Client(shard, "m2")
    settle(one)
    shard.beat("m1")  # its first attempt to join, which was on its way for a long time
    two.beat()
    assert one.beat().assignment == one.owned
    shard.sleep(15)
    assert len(flat(one.beat().assignment)) == 2
    settle(one, two)


def test_a_member_whose_late_join_has_freed_its_partitions_gives_them_up() -> None:
    shard = ConsumerShard(settings(assignment_interval_ms=60_000))
    one = Client(shard, "m1", reports_always=False)
    settle(one)
    shard.beat("m1", one.epoch, topics=frozenset("x"))  # its response is lost
    shard.beat("m1", topics=frozenset("x"))  # an earlier attempt to join, which was on its way for a long time
    assert flat(one.owned)
    assert one.beat().assignment == {}


def test_a_member_that_never_reports_its_former_assignment_is_evicted(shard: ConsumerShard) -> None:
    four = OfFour(shard)
    for _ in range(11):
        four.member.beat()
        shard.sleep(1)
    assert "m2" not in shard.consumers().members
    settle(*four.others)


def test_a_member_gives_partitions_up_while_another_coordinator_takes_over(shard: ConsumerShard) -> None:
    one, two = Client(shard, "m1", reports_always=False), Client(shard, "m2")
    settle(one)
    two.beat()
    less = one.beat().assignment
    shard.take_over()
    assert [one.beat().assignment for _ in range(2)] == [less, None]
    settle(one, two)


def test_a_member_without_partitions_need_not_report_them(shard: ConsumerShard) -> None:
    five = Client(shard, "m5", reports_always=False)
    settle(*(Client(shard, f"m{n}") for n in range(4)), five)
    assert [shard.beat("m5", five.epoch).assignment for _ in range(2)] == [None, None]


def test_a_first_heartbeat_without_topics_is_accepted(shard: ConsumerShard) -> None:
    answer = shard.beat("m1", topics=())
    assert (answer.epoch, answer.assignment) == (2, {})


def test_a_topic_that_does_not_exist_is_assigned_once_it_does(shard: ConsumerShard) -> None:
    assert shard.beat("m1", topics=["unknown"]).assignment == {}
    shard.known.put("unknown", 2)
    answer = shard.beat("m1", 2)
    assert (answer.epoch, answer.assignment) == (3, partitions(unknown=range(2)))


@pytest.mark.parametrize(
    ("epoch", "more", "expected"),
    [
        (0, {"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        (0, {"owned": LEFT_OUT}, ErrorCode.INVALID_REQUEST),
        (0, {"owned": partitions(t=[1])}, ErrorCode.INVALID_REQUEST),
        (0, {"topics": LEFT_OUT}, ErrorCode.INVALID_REQUEST),
        (0, {"assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        (0, {"regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        (0, {"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        (0, {"rack": ""}, ErrorCode.INVALID_REQUEST),
        (-3, {}, ErrorCode.INVALID_REQUEST),
        (-2, {}, ErrorCode.INVALID_REQUEST),
        (1, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        (9, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        (3, {"regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        (3, {"assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        (3, {"instance_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (-2, {"instance_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("state", list(MemberState))
def test_a_refused_request_changes_nothing(state: MemberState, epoch: int, more: dict[str, Any], expected: int) -> None:
    shard, member_id = _with_member_in(state)
    current = shard.member(member_id).current
    epoch = current.epoch if epoch == 3 else epoch
    before, was, members = len(shard.log), shard.consumers().group_epoch, dict(shard.consumers().members)
    assert code(shard.beat(member_id, epoch, **more)) == expected
    assert (len(shard.log), shard.consumers().group_epoch) == (before, was)
    assert shard.consumers().members == members


def _with_member_in(state: MemberState) -> tuple[ConsumerShard, str]:
    shard = ConsumerShard(settings())
    first, second = Client(shard, "m1"), Client(shard, "m2")
    first.beat()
    first.settle()
    if state is MemberState.STABLE:
        # Its present and previous epochs are 3 and 2, so epoch 1 is neither.
        first.beat(topics=frozenset("tu"))
        first.settle()
        first.beat()
        return shard, "m1"
    second.beat()
    first.beat()
    member_id = "m1" if state is MemberState.UNREVOKED else "m2"
    assert shard.member(member_id).current.state is state
    return shard, member_id


def test_a_group_takes_the_assignor_that_most_of_its_members_prefer(shard: ConsumerShard) -> None:
    known = ("uniform", "range")
    shard.beat("m1")
    assert shard.consumers().assignor(known) == "uniform"
    shard.beat("m2", assignor="range")
    assert shard.consumers().assignor(known) == "range"
    shard.beat("m3", assignor="uniform")
    shard.beat("m4", assignor="uniform")
    assert shard.consumers().assignor(known) == "uniform"
    assert shard.consumers().assignor(("range",)) == "range"


def test_a_full_group_takes_no_further_member() -> None:
    shard = ConsumerShard(settings(max_size=1))
    shard.beat("m1")
    assert code(shard.beat("m2")) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.beat("m1", 2).epoch == 2


@pytest.mark.story("static-member-is-kept-out-of-its-full-group")
def test_a_static_member_comes_back_into_a_full_group() -> None:
    shard = ConsumerShard(settings(max_size=1))
    shard.beat("m1", instance_id="i")
    assert code(shard.beat("m2", instance_id="j")) == ErrorCode.GROUP_MAX_SIZE_REACHED
    # The former process has not left, so the error says that its instance id is in use.
    assert code(shard.beat("m2", instance_id="i")) == ErrorCode.UNRELEASED_INSTANCE_ID
    shard.beat("m1", LEAVES_FOR_NOW, instance_id="i")
    assert shard.beat("m2", instance_id="i").assignment == partitions(t=range(4))
    assert code(shard.join(instance_id="j")) == ErrorCode.GROUP_MAX_SIZE_REACHED
    shard.beat("m2", LEAVES_FOR_NOW, instance_id="i")
    assert shard.join(instance_id="i") is WAITS
    assert [member.instance_id for member in shard.group().members.values()] == ["i"]


def test_a_group_without_a_further_epoch_begins_again_once_its_members_have_gone(shard: ConsumerShard) -> None:
    settle(Client(shard, "m1"), Client(shard, "m2"))
    key = GroupEpochKey("g")
    for each in (key, TargetEpochKey("g")):
        value = shard.consumers().value_of(each)._replace(epoch=LAST_EPOCH)
        shard.apply(Entry(encode_consumer_key(each), encode_consumer_value(each, value)))
    before = len(shard.log)
    assert code(shard.beat("m3")) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(shard.log) == before
    assert shard.beat("m1", LEAVES).epoch == LEAVES
    assert list(shard.consumers().members) == ["m2"]
    shard.sleep(46)
    assert not list(shard.machine.groups())
    assert shard.beat("m3").assignment == partitions(t=range(4))


def test_the_history_names_members_that_join_or_change_their_subscription(shard: ConsumerShard) -> None:
    shard.beat("m1", client_id="one")
    shard.beat("m2", client_id="two")
    shard.beat("m1", shard.member("m1").epoch, client_id="one", topics="u")
    began = [event.cause for event in shard.events() if event.kind is Kind.REBALANCE_BEGAN]
    assert began == ["one joined", "two joined", "one changed its subscription"]


def test_a_heartbeat_of_a_missing_group_or_member_is_refused(shard: ConsumerShard) -> None:
    assert code(shard.beat("m1", 1)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code(shard.beat("m1", LEAVES)) == ErrorCode.GROUP_ID_NOT_FOUND
    shard.beat("m1")
    assert code(shard.beat("m2", 1)) == ErrorCode.UNKNOWN_MEMBER_ID


# ---- lost responses -------------------------------------------------------------------------------------------------


def test_a_member_whose_response_was_lost_may_repeat_its_former_epoch(shard: ConsumerShard) -> None:
    shard.beat("m1")
    shard.known.put("t", 6)
    assert shard.beat("m1", 2, owned=partitions(t=range(4))).epoch == 3
    again = shard.beat("m1", 2, owned=partitions(t=range(4)))
    assert (again.epoch, again.assignment) == (3, partitions(t=range(6)))
    assert code(shard.beat("m1", 2, owned=partitions(t=range(9)))) == ErrorCode.FENCED_MEMBER_EPOCH
    assert code(shard.beat("m1", 2)) == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_reports_too_few_partitions_gets_its_whole_assignment(shard: ConsumerShard) -> None:
    shard.beat("m1")
    assert shard.beat("m1", 2, owned={}).assignment == partitions(t=range(4))
    assert shard.beat("m1", 2, owned=partitions(t=range(4))).assignment is None


def test_a_member_that_joins_again_keeps_its_epoch_and_gets_its_whole_assignment(shard: ConsumerShard) -> None:
    shard.beat("m1")
    before = len(shard.log)
    again = shard.beat("m1")
    assert (again.epoch, again.assignment) == (2, partitions(t=range(4)))
    assert len(shard.log) == before


# ---- leaving --------------------------------------------------------------------------------------------------------


def test_an_empty_group_exists_and_its_epochs_continue(shard: ConsumerShard) -> None:
    shard.beat("m1")
    assert shard.beat("m1", LEAVES).epoch == LEAVES
    group = shard.consumers()
    assert (group.state, group.epoch, group.target_epoch) == (ConsumerGroupState.EMPTY, 3, 3)
    assert not group.targets
    assert shard.beat("m2").epoch == 4


def test_a_member_without_heartbeats_is_evicted_and_its_partitions_go_to_the_others(shard: ConsumerShard) -> None:
    first, second = Client(shard, "m1"), Client(shard, "m2")
    settle(first, second)
    shard.sleep(30)
    first.beat()
    shard.sleep(30)
    assert list(shard.consumers().members) == ["m1"]
    settle(first)
    assert first.owned == partitions(t=range(4))
    assert code(second.beat()) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_partitions_up_in_time_is_evicted(shard: ConsumerShard) -> None:
    first, second = Client(shard, "m1"), Client(shard, "m2")
    first.beat(rebalance_timeout_ms=10_000)
    first.settle()
    second.beat()
    for _ in range(3):
        first.beat()
        second.beat()
        shard.sleep(4)
    assert list(shard.consumers().members) == ["m2"]
    assert second.beat().assignment == partitions(t=range(4))
    assert [e.cause for e in shard.events() if e.kind is Kind.EVICTED] == [
        "did not give its partitions up within 10000 ms (max.poll.interval.ms)"
    ]


def test_heartbeats_do_not_extend_the_time_to_give_partitions_up(shard: ConsumerShard) -> None:
    first, second = Client(shard, "m1"), Client(shard, "m2")
    first.beat(rebalance_timeout_ms=10_000)
    first.settle()
    second.beat()
    first.beat()
    for _ in range(9):
        shard.sleep(1)
        assert shard.beat("m1", 2, owned=first.owned).epoch == 2
    shard.sleep(1.1)
    assert "m1" not in shard.consumers().members


# ---- static members -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("member_id", ["m1", "new"])
def test_a_static_member_that_comes_back_keeps_its_partitions(shard: ConsumerShard, member_id: str) -> None:
    settle(Client(shard, "m1", more={"instance_id": "i1"}), Client(shard, "m2"))
    had, epoch = shard.member("m1").current.assigned, shard.consumers().epoch
    assert shard.beat("m1", LEAVES_FOR_NOW, instance_id="i1").epoch == LEAVES_FOR_NOW
    assert set(shard.consumers().members) == {"m1", "m2"}
    answer = shard.beat(member_id, instance_id="i1")
    assert flat(answer.assignment) == flat(had)
    assert shard.consumers().epoch == answer.epoch == epoch
    assert set(shard.consumers().members) == {member_id, "m2"}


def test_a_late_heartbeat_does_not_bring_a_static_member_back(shard: ConsumerShard) -> None:
    epoch = shard.beat("m1", instance_id="i1").epoch
    shard.beat("m1", LEAVES_FOR_NOW, instance_id="i1")
    assert code(shard.beat("m1", epoch, instance_id="i1", owned={})) == ErrorCode.FENCED_MEMBER_EPOCH
    assert shard.member("m1").epoch == LEAVES_FOR_NOW
    shard.sleep(46)
    assert not shard.consumers().members


def test_an_instance_id_in_use_is_refused_to_another_member(shard: ConsumerShard) -> None:
    shard.beat("m1", instance_id="i1")
    assert code(shard.beat("m2", instance_id="i1")) == ErrorCode.UNRELEASED_INSTANCE_ID
    shard.beat("m1", LEAVES_FOR_NOW, instance_id="i1")
    assert shard.beat("m2", instance_id="i1").epoch == 2
    assert code(shard.beat("m1", 2, instance_id="i1")) == ErrorCode.FENCED_INSTANCE_ID
    assert code(shard.beat("m1", LEAVES, instance_id="i1")) == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_whose_join_got_no_response_may_join_again(shard: ConsumerShard) -> None:
    shard.beat("m1", instance_id="i1")
    again = shard.beat("m1", instance_id="i1")
    assert (again.epoch, again.assignment) == (2, partitions(t=range(4)))


# ---- subscriptions --------------------------------------------------------------------------------------------------


def test_partitions_of_a_topic_that_is_no_longer_read_are_revoked_at_once() -> None:
    shard = ConsumerShard(settings(assignment_interval_ms=60_000))
    member = Client(shard, "m1", more={"topics": frozenset("tu")})
    member.beat()
    member.settle()
    told = member.beat(topics=frozenset("t"))
    assert not shard.consumers().is_assigned, "the next target is not due yet"
    assert told.assignment == partitions(t=range(4))
    assert flat(shard.member("m1").current.revoking) == flat(partitions(u=range(4)))
    member.settle()
    member.beat()
    assert shard.consumers().owner(id_of("u"), 0) is None


def test_the_next_target_waits_for_the_assignment_interval() -> None:
    shard = ConsumerShard(settings(assignment_interval_ms=1_000))
    shard.beat("m1")
    joined = shard.beat("m2")
    assert (joined.epoch, joined.assignment) == (2, {}), "never epoch 0: the client would take it for a join"
    assert shard.consumers().state is ConsumerGroupState.ASSIGNING
    shard.sleep(1)
    shard.beat("m2", 2)
    assert shard.consumers().target_epoch == 3


def test_the_assignment_interval_ignores_a_time_in_the_future() -> None:
    shard = ConsumerShard(settings(assignment_interval_ms=1_000))
    shard.beat("m1")
    shard.at -= 100
    shard.beat("m2")
    assert shard.consumers().target_epoch == 3


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_target_that_does_not_fit_into_one_batch_is_written_by_several_heartbeats(assignor: str) -> None:
    shard = ConsumerShard(replace(settings(assignment_interval_ms=20_000), max_record_bytes=600))
    shard.known.put("t", 60)
    members = [Client(shard, f"m{n}", more={"assignor": assignor}) for n in range(20)]
    for member in members:
        member.beat()
    shard.sleep(20)
    settle(*members, rounds=20)
    assert [len(flat(member.owned)) for member in members] == [3] * 20
    assert shard.largest_bytes < 1_200
    shard.beat("m0", LEAVES)
    shard.sleep(20)
    settle(*members[1:], rounds=20)


def test_partitions_of_a_deleted_topic_are_given_up(shard: ConsumerShard) -> None:
    member = Client(shard, "m1", more={"topics": frozenset("tu")})
    settle(member)
    shard.known.delete("u")
    settle(member)
    assert member.owned == partitions(t=range(4))
    shard.known.put("u", 2, life=1)
    settle(member)
    assert member.owned == {**partitions(t=range(4)), id_of("u", 1): frozenset(range(2))}
