"""A member of a group as a pure machine: what every answer of the coordinator means, and when it speaks."""

import pytest

from ottla.machines.membership import (
    NEVER,
    NO_GENERATION,
    Meaning,
    MemberIdentity,
    MemberSettings,
    Membership,
    MemberState,
    meaning_of,
)
from ottla_core.errors import ErrorCode, is_retriable

SETTINGS = MemberSettings(session_timeout_s=45, heartbeat_interval_s=3, max_poll_interval_s=300)

LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
FIND = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
)


def stable(*, now: float = 0.0, settings: MemberSettings = SETTINGS, member_id: str = "me") -> Membership:
    member = Membership(settings)
    member.on_poll(now)
    member.begin_join()
    member.on_joined(7, member_id, "range", "me", now=0.0)
    member.on_synced(now)
    return member


@pytest.mark.feature(66)
@pytest.mark.rule(44)
def test_a_member_joins_with_the_id_that_it_is_given_and_then_has_its_assignment() -> None:
    member = Membership(SETTINGS)
    assert member.may_join(0.0)
    member.begin_join()
    assert not member.may_join(0.0)
    assert member.identity == MemberIdentity("", NO_GENERATION)
    member.take_id("me-1")
    assert member.identity == MemberIdentity("me-1", NO_GENERATION)
    member.on_joined(3, "me-1", "range", "other", now=0.0)
    assert (member.state, member.leads, member.protocol) == (MemberState.SYNCING, False, "range")
    member.on_synced(10.0)
    assert (member.state, member.identity) == (MemberState.STABLE, MemberIdentity("me-1", 3))
    assert not member.may_join(10.0)
    assert member.heartbeat_at == 13.0


@pytest.mark.story("leader-evicted-while-it-gives-out")
def test_who_takes_long_to_give_out_the_partitions_beats_meanwhile() -> None:
    member = Membership(SETTINGS)
    member.begin_join()
    assert member.heartbeat_at == NEVER
    member.on_joined(3, "me-1", "range", "me-1", now=10.0)
    assert member.heartbeat_at == 13.0
    member.on_heartbeat_sent(13.0)
    assert member.on_heartbeat_failed(3, ErrorCode.REBALANCE_IN_PROGRESS, "", 13.1) is Meaning.AGAIN
    assert (member.heartbeat_at, member.state) == (16.0, MemberState.SYNCING), (
        "the answer to its sync says what is to be done"
    )


def test_the_leader_is_who_bears_its_id() -> None:
    assert stable().leads
    assert not stable(member_id="another").leads


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_means_something(code: ErrorCode) -> None:
    meaning = meaning_of(code)
    if code in LOST:
        assert meaning is Meaning.LOST
    elif code in FIND:
        assert meaning is Meaning.FIND
    elif code is ErrorCode.MEMBER_ID_REQUIRED:
        assert meaning is Meaning.TAKE_ID
    elif code is ErrorCode.REBALANCE_IN_PROGRESS:
        assert meaning is Meaning.REJOIN
    elif code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        assert meaning is Meaning.FIND  # of a shard: its owner has lost it
    elif code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
        assert meaning is Meaning.FATAL  # of a commit: the coordinator has made sure that it is gone
    else:
        assert meaning is (Meaning.AGAIN if is_retriable(code) else Meaning.FATAL)
    assert meaning_of(30_000) is Meaning.FATAL


@pytest.mark.parametrize("step", ["join", "sync"])
@pytest.mark.parametrize(
    "code", [*LOST, *FIND, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_who_is_refused_joins_again_and_knows_whether_as_itself(step: str, code: ErrorCode) -> None:
    member = stable()
    member.rejoin("news")
    member.begin_join()
    if step == "sync":
        member.on_joined(8, "me", "range", "other", now=0.0)
    before = member.identity
    meaning = member.on_join_failed(code, "words", 100.0)
    assert member.state is MemberState.UNJOINED
    assert member.join_reason
    if code in LOST:
        assert (member.identity, member.lost) == (MemberIdentity(), "words")
        assert member.may_join(100.0)
    else:
        assert (member.identity, member.lost) == (before, "")
    waits = meaning in (Meaning.FIND, Meaning.AGAIN)
    assert member.may_join(100.0) is not waits
    assert member.may_join(101.0)


def test_a_coordinator_in_trouble_is_asked_ever_more_seldom_and_at_once_after_it_has_recovered() -> None:
    member, now, pauses = Membership(SETTINGS), 0.0, []
    for _ in range(6):
        member.begin_join()
        member.on_join_failed(ErrorCode.NOT_COORDINATOR, "", now)
        pauses.append(round(member.retry_at - now, 3))
        now = member.retry_at
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert member.failing_since == 0.0
    member.begin_join()
    member.on_joined(1, "me", "range", "me", now=0.0)
    member.on_synced(now)
    assert member.failing_since == NEVER
    member.rejoin("news")
    assert member.may_join(now)


@pytest.mark.feature(74)
def test_heartbeats_are_sent_while_it_has_its_assignment_and_at_no_other_time() -> None:
    member = Membership(SETTINGS)
    assert member.heartbeat_at == NEVER
    member.begin_join()
    assert member.heartbeat_at == NEVER
    member = stable(now=100.0)
    assert member.heartbeat_at == 103.0
    member.on_heartbeat_sent(103.0)
    assert member.heartbeat_at == 106.0
    member.rejoin("news")
    assert member.heartbeat_at == 106.0, "it is about to join again, and says that it lives until then"
    member.leave()
    assert member.heartbeat_at == NEVER


@pytest.mark.feature(68)
@pytest.mark.rule(48)
def test_a_heartbeat_tells_of_a_rebalance_and_the_member_stays_who_it_is() -> None:
    member = stable()
    member.on_heartbeat_failed(7, ErrorCode.REBALANCE_IN_PROGRESS, "", 3.0)
    assert (member.state, member.lost) == (MemberState.STABLE, "")
    assert member.may_join(3.0)
    assert member.identity == MemberIdentity("me", 7)


@pytest.mark.parametrize("code", LOST)
def test_a_heartbeat_tells_that_the_partitions_are_lost(code: ErrorCode) -> None:
    member = stable()
    member.on_heartbeat_failed(7, code, "gone", 3.0)
    assert (member.lost, member.identity, member.state) == ("gone", MemberIdentity(), MemberState.UNJOINED)
    assert member.may_join(3.0)


@pytest.mark.parametrize("code", [*LOST, ErrorCode.REBALANCE_IN_PROGRESS])
def test_an_answer_to_an_earlier_generation_says_nothing(code: ErrorCode) -> None:
    member = stable()
    member.on_heartbeat_failed(6, code, "gone", 3.0)
    member.on_commit_failed(MemberIdentity("me", 6), code, "gone")
    assert (member.lost, member.identity) == ("", MemberIdentity("me", 7))
    assert not member.may_join(3.0)


@pytest.mark.rule(45)
def test_who_is_fenced_is_told_and_stays_out() -> None:
    member = stable(settings=MemberSettings(instance_id="one"))
    assert member.on_heartbeat_failed(7, ErrorCode.FENCED_INSTANCE_ID, "", 3.0) is Meaning.FATAL
    assert not member.may_join(3.0)


def test_a_heartbeat_that_meets_trouble_is_soon_sent_again() -> None:
    member = stable()
    pauses = []
    for _ in range(6):
        member.on_heartbeat_sent(3.0)
        member.on_heartbeat_failed(7, ErrorCode.NOT_COORDINATOR, "", 3.0)
        pauses.append(round(member.heartbeat_at - 3.0, 3))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    member.on_heartbeat()
    member.on_heartbeat_failed(7, ErrorCode.NOT_COORDINATOR, "", 3.0)
    assert member.heartbeat_at == 3.1


@pytest.mark.feature(44)
def test_who_does_not_poll_leaves_says_why_and_has_lost_its_partitions() -> None:
    member = stable(now=50.0)
    assert member.poll_overdue_at == 350.0
    member.on_poll(60.0)
    assert member.poll_overdue_at == 360.0
    why = member.on_poll_overdue()
    assert "300 s (max_poll_interval)" in why
    assert (member.lost, member.poll_overdue_at, member.heartbeat_at) == (why, NEVER, NEVER)
    assert member.may_join(360.0)
    member.begin_join()
    assert (member.lost, member.left_behind) == ("", why), "a commit that fails later still knows why"


@pytest.mark.parametrize("code", LOST)
@pytest.mark.rule(46)
def test_a_commit_that_is_refused_tells_that_the_partitions_are_lost(code: ErrorCode) -> None:
    member = stable()
    assert member.on_commit_failed(MemberIdentity("me", 7), code, "gone") is Meaning.LOST
    assert member.lost == "gone"


def test_a_member_that_joins_already_hears_nothing_from_a_commit() -> None:
    member = stable()
    member.rejoin("news")
    member.begin_join()
    member.on_commit_failed(MemberIdentity("me", 7), ErrorCode.UNKNOWN_MEMBER_ID, "gone")
    assert (member.state, member.lost) == (MemberState.JOINING, "")


@pytest.mark.feature(80)
@pytest.mark.rule(45)
def test_a_static_member_does_not_say_goodbye() -> None:
    assert stable().leave() == "me"
    assert stable(settings=MemberSettings(instance_id="one")).leave() == ""
    assert Membership(SETTINGS).leave() == ""


def test_the_first_reason_to_join_is_the_one_that_is_told() -> None:
    member = stable()
    member.rejoin("first")
    member.rejoin("second")
    assert member.join_reason == "first"
