"""Both ends of a fetch session: what is said once, what is said again, and what is looked at."""

from __future__ import annotations

import random

import pytest
from parked import Counting

from ottla_broker.machines.followed_leader import FollowedLeader, Named
from ottla_broker.machines.follower_session import Followed, FollowerSession, FollowerSessions
from ottla_core.model import PartitionId, TopicId

TOPIC = TopicId(b"t" * 16)


def number(n: int) -> PartitionId:
    return PartitionId(TOPIC, n)


def followed(n: int, offset: int = 0, *, has_readers: bool = False) -> Followed:
    return Followed(number(n), 1, offset, 1 << 20, high_watermark=0, log_start_offset=0, has_readers=has_readers)


def look_at(session: FollowerSession[Counting], partition_id: PartitionId) -> Followed | None:
    session.look_at(partition_id, partition_id)
    return session.find(partition_id)


def begun(count: int = 3) -> tuple[FollowerSessions[Counting], FollowerSession[Counting]]:
    """A session in which the first `count` partitions were named and looked at."""
    sessions: FollowerSessions[Counting] = FollowerSessions()
    session = sessions.begin(2, 12, 77, Counting())
    assert session.begin_request(0)
    for n in range(count):
        session.follow(followed(n))
    for partition_id in session.due:
        session.look_at(partition_id, partition_id)
    return sessions, session


def test_only_what_something_happens_to_is_looked_at() -> None:
    sessions, session = begun(1000)
    assert session.due == []
    sessions.on_bytes(number(7), 100)
    sessions.wake(number(3))
    sessions.on_bytes(number(1000), 1)  # which no one follows
    assert session.due == [number(7), number(3)]
    assert (session.parked.size_bytes, session.parked.woken) == (100, 1)


def test_records_are_sent_once_until_the_follower_has_said_what_it_made_of_them() -> None:
    sessions, session = begun()
    sessions.on_bytes(number(0), 100)
    answered = look_at(session, number(0))
    assert answered is not None
    sessions.on_bytes(number(0), 100)  # while it is read
    session.respond(answered, 0, 0, records=True)
    sessions.on_bytes(number(0), 100)
    assert session.due == []
    assert session.end_response() == 1
    assert session.begin_request(1)
    session.follow(followed(0, 1))
    assert session.due == [number(0)]


@pytest.mark.rule(57)
def test_who_got_records_comes_after_those_who_did_not() -> None:
    sessions, session = begun()
    for n in range(3):
        sessions.on_bytes(number(n), 100)
    answered = look_at(session, number(0))
    assert answered is not None
    session.respond(answered, 0, 0, records=True)  # and there was no room for the others
    session.end_response()
    session.begin_request(1)
    session.follow(followed(0, 1))
    assert session.due == [number(1), number(2), number(0)]


def test_a_response_that_did_not_arrive_has_said_nothing() -> None:
    sessions, session = begun()
    for n in range(3):
        sessions.wake(number(n))
    records, error, watermark = (look_at(session, number(n)) for n in range(3))
    assert records is not None
    assert error is not None
    assert watermark is not None
    session.respond(records, 5, 1, records=True)
    session.give_up(error)
    session.respond(watermark, 6, 2)
    session.end_response()
    assert session.begin_request(0)  # the follower has none of it
    assert session.due == [number(0), number(2)]
    assert (records.high_watermark, records.log_start_offset, session.is_held(number(0))) == (0, 0, False)
    assert (watermark.high_watermark, watermark.log_start_offset) == (0, 0)
    sessions.on_bytes(number(0), 1)
    assert session.parked.size_bytes == 1


def test_a_refusal_that_did_not_arrive_leaves_the_partition_to_be_judged_again() -> None:
    _, session = begun()
    refused = look_at(session, number(1))
    assert refused is not None
    session.give_up(refused)
    session.take_back()  # while the response is being made, which concerns accepted partitions alone
    session.end_response()
    assert session.begin_request(0)
    assert session.to_judge_again == [refused]
    assert session.find(number(1)) is None, "it was not accepted"
    assert session.begin_request(0)
    assert session.to_judge_again == [], "the response to the last request refused nothing"


def test_a_refusal_that_arrived_is_not_repeated() -> None:
    _, session = begun()
    refused = look_at(session, number(1))
    assert refused is not None
    session.give_up(refused)
    session.end_response()
    assert session.begin_request(1)
    assert session.to_judge_again == []


def test_requests_of_another_count_are_not_of_the_session() -> None:
    _, session = begun()
    session.end_response()
    session.end_response()
    assert not session.begin_request(0)
    assert not session.begin_request(3)
    assert session.begin_request(2)


@pytest.mark.rule(18)
def test_a_high_watermark_is_urgent_where_there_are_readers_alone() -> None:
    sessions, session = begun()
    session.follow(followed(1, has_readers=True))
    look_at(session, number(1))
    sessions.on_high_watermark(number(0))
    assert (session.due, session.parked.woken) == ([], 0)
    sessions.on_high_watermark(number(1))
    assert (session.due, session.parked.woken) == ([number(1)], 1)
    assert [f.id for f in session.take_later(10)] == [number(0)]
    assert session.take_later(10) == []


def test_another_session_of_the_follower_ends_the_first() -> None:
    sessions, first = begun()
    second = sessions.begin(2, 12, 78, Counting())
    assert first.parked.closed
    assert first.find(number(0)) is None, "whoever is still looking finds nothing to answer"
    assert sessions.find(2, 12, 77) is None
    assert sessions.find(2, 12, 78) is second
    assert sessions.find(3, 12, 78) is None
    sessions.on_bytes(number(0), 1)
    assert first.parked.size_bytes == second.parked.size_bytes == 0
    assert not sessions.partitions
    sessions.close()
    assert second.parked.closed
    assert sessions.begin(2, 12, 79, Counting()).parked.closed


def test_a_confirmation_makes_a_response_due_where_the_partition_is_followed() -> None:
    sessions, session = begun(1)
    sessions.confirm(number(0))
    sessions.confirm(number(1))
    assert session.unconfirmed.keys() == {number(0)}
    assert session.parked.woken == 1
    session.forget(number(0))
    assert not session.unconfirmed


# ---- the follower's end ----------------------------------------------------------------------------------------------


def test_the_follower_names_what_has_changed_and_forgets_what_is_over() -> None:
    leader: FollowedLeader[str] = FollowedLeader()
    leader.begin(1)
    for n in range(3):
        leader.follow(number(n), f"epoch 1 of {n}")
    assert [p.partition for p, _ in leader.changed()] == [0, 1, 2]
    for partition_id, _ in leader.changed():
        leader.name(partition_id, Named(1, 0, 0))
    assert leader.changed() == []
    leader.resume(number(1))
    leader.follow(number(2), "epoch 2 of 2")
    leader.leave(number(0))
    assert leader.changed() == [(number(1), "epoch 1 of 1"), (number(2), "epoch 2 of 2")]
    assert set(leader.take_forgotten()) == {number(0), number(2)}
    assert set(leader.take_forgotten()) == set()
    leader.begin(2)
    assert leader.changed() == [(number(1), "epoch 1 of 1"), (number(2), "epoch 2 of 2")]


def test_what_rests_is_forgotten_until_it_goes_on() -> None:
    leader: FollowedLeader[str] = FollowedLeader()
    leader.follow(number(0), "a")
    leader.name(number(0), Named(1, 0, 0))
    leader.rest(number(0))
    assert leader.changed() == []
    assert list(leader.take_forgotten()) == [number(0)]
    leader.resume(number(0))
    assert leader.changed() == [(number(0), "a")]
    leader.leave(number(0))
    leader.resume(number(0))
    assert leader.changed() == []


@pytest.mark.parametrize("seed", range(20))
def test_both_ends_agree_after_whatever_gets_lost(seed: int) -> None:
    """A leader's logs grow, leaders change, responses are given up for newer requests; at the end all is copied."""
    random_, count = random.Random(seed), 12
    ends, has = [0] * count, [0] * count
    sessions: FollowerSessions[Counting] = FollowerSessions()
    leader: FollowedLeader[int] = FollowedLeader()
    leader.begin(5)
    for n in range(count):
        leader.follow(number(n), n)
    session = sessions.begin(2, 12, 5, Counting())
    for step in range(600):
        quiet = step > 500
        for _ in range(0 if quiet else random_.randrange(4)):
            n = random_.randrange(count)
            ends[n] += 1
            sessions.on_bytes(number(n), 1)
        if not quiet and random_.random() < 0.2:
            n = random_.randrange(count)
            random_.choice([leader.rest, leader.leave, lambda p, n=n: leader.follow(p, n)])(number(n))
        elif random_.random() < 0.3:
            for n in range(count):
                if leader.get(number(n)) is None:
                    leader.follow(number(n), n)
                leader.resume(number(n))
        _round(random_, session, leader, ends, has, loses=not quiet and random_.random() < 0.3)
    assert has == ends


def _round(
    random_: random.Random,
    session: FollowerSession[Counting],
    leader: FollowedLeader[int],
    ends: list[int],
    has: list[int],
    *,
    loses: bool,
) -> None:
    assert session.begin_request(leader.responses)
    for partition_id in leader.take_forgotten():
        session.forget(partition_id)
    for partition_id, n in leader.changed():
        leader.name(partition_id, Named(1, has[n], 0))
        session.follow(followed(n, has[n]))
    for partition_id in list(leader._followed):  # the leader knows what is followed, as it is
        known, named = session.find(partition_id), leader.named(partition_id)
        assert (known is None) == (named is None)
        assert known is None or named is None or known.offset == named.log_end_offset == has[partition_id.partition]
    response = []
    for partition_id in session.due:
        n = partition_id.partition
        looked_at = look_at(session, partition_id)
        assert looked_at is not None
        if looked_at.offset < ends[n]:
            if random_.random() < 0.2:
                session.look_again(partition_id)  # no room
                continue
            session.respond(looked_at, 0, 0, records=True)
            response.append((n, ends[n]))
    if not response:
        return
    count = session.end_response()
    if loses:
        return
    leader.responses = count
    for n, end in response:
        has[n] = end
        leader.resume(number(n))
