"""The rules that every fetch session shares: what is due, what is watched, what is counted."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

import pytest
from parked import Counting

from ottla_broker.machines.fetch_session import FetchSession, SessionRoom, Watchers
from ottla_core.model import PartitionId, TopicId

TOPIC = TopicId(b"t" * 16)


Session = FetchSession[str, int, Counting]


def partition(name: str) -> PartitionId:
    return PartitionId(TOPIC, ord(name))


def session_of(watchers: Watchers[Session], names: str, room: SessionRoom | None = None) -> Session:
    """A session that has looked at the partitions named."""
    session = Session(watchers, Counting(), room)
    for name in names:
        session.name(name, 0)
    look(session)
    return session


def look(session: Session) -> str:
    looked = "".join(session.due)
    for name in looked:
        session.look_at(name, partition(name))
    return looked


@pytest.mark.rule(57)
def test_a_partition_that_is_named_again_comes_last() -> None:
    session = Session(Watchers(), Counting())
    for name in "abca":
        session.name(name, 0)
    assert session.due == ["b", "c", "a"]
    session.look_again("c", first=True)
    assert session.due == ["c", "b", "a"]


@pytest.mark.rule(55)
def test_an_event_after_the_look_has_begun_makes_a_partition_due_again() -> None:
    watchers: Watchers[Session] = Watchers()
    session = session_of(watchers, "abc")
    watchers.on_bytes(partition("b"), 7)
    watchers.wake(partition("a"))
    watchers.touch(partition("c"))
    assert session.due == ["b", "a", "c"]
    assert (session.parked.size_bytes, session.parked.woken) == (7, 1), "the third event is no reason to wake it"


def test_events_of_a_held_partition_are_ignored_until_it_is_named_again() -> None:
    watchers: Watchers[Session] = Watchers()
    session = session_of(watchers, "ab")
    session.hold("a")
    watchers.on_bytes(partition("a"), 7)
    assert (session.due, session.parked.size_bytes) == ([], 0)
    session.name("a", 1)
    assert session.due == ["a"]
    look(session)
    watchers.on_bytes(partition("a"), 7)
    assert (session.due, session.parked.size_bytes) == (["a"], 7)


def test_a_key_that_names_another_partition_now_hears_of_that_one_alone() -> None:
    watchers: Watchers[Session] = Watchers()
    session = session_of(watchers, "a")
    session.look_at("a", partition("x"))
    watchers.wake(partition("a"))
    assert session.due == []
    watchers.wake(partition("x"))
    assert session.due == ["a"]
    assert set(watchers.partitions) == {partition("x")}


def test_an_idle_session_hears_of_the_first_event_of_a_partition_and_costs_nothing_more() -> None:
    watchers: Watchers[Session] = Watchers()
    session = session_of(watchers, "ab")
    session.is_idle = True
    watchers.wake(partition("a"))
    assert (session.due, len(watchers)) == (["a"], 1)
    session.is_idle = False
    look(session)
    assert len(watchers) == 2


def test_a_session_that_ends_gives_back_its_room_and_watches_nothing() -> None:
    watchers: Watchers[Session] = Watchers()
    room = SessionRoom(4)
    first, second = session_of(watchers, "abc", room), session_of(watchers, "d", room)
    assert room.has(0)
    assert not room.has(1)
    assert second.forget("d")
    assert not second.forget("d"), "it was not requested any more"
    assert room.has(1)
    first.end()
    first.end()
    first.name("e", 0)
    first.forget("a")
    first.look_at("a", partition("a"))
    assert (room.used, len(watchers), first.due, first.parked.closed) == (0, 0, [], True)


def test_a_large_session_lets_go_of_its_partitions_in_several_turns() -> None:
    later: list[Callable[[], object]] = []
    watchers: Watchers[FetchSession[int, None, Counting]] = Watchers(later.append)
    session: FetchSession[int, None, Counting] = FetchSession(watchers, Counting())
    for number in range(2_500):
        session.name(number, None)
        session.look_at(number, PartitionId(TOPIC, number))
    session.end()
    left = [len(watchers)]
    while later:
        later.pop()()
        left.append(len(watchers))
    assert left == [1_500, 500, 0]


def test_a_session_that_begins_while_the_broker_drains_does_not_wait() -> None:
    watchers: Watchers[Session] = Watchers()
    before = session_of(watchers, "a")
    watchers.close()
    assert before.parked.closed
    assert Session(watchers, Counting()).parked.closed


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_no_event_is_lost_and_nothing_is_kept(seed: int) -> None:
    """Each partition has a number of events; whoever has looked at it after the last one has seen them all."""
    random_, names = random.Random(seed), "abcdef"
    watchers: Watchers[Session] = Watchers()
    room = SessionRoom()
    sessions = [session_of(watchers, "", room) for _ in range(3)]
    happened = dict.fromkeys(names, 0)
    seen: dict[tuple[Session, str], int] = {}
    for _ in count():
        name, session = random_.choice(names), random_.choice(sessions)
        match random_.randrange(8):
            case 0 | 1 | 2:
                happened[name] += 1
                watchers.on_bytes(partition(name), 1)
            case 3:
                session.name(name, 0)
            case 4:
                session.forget(name)
            case 5 if name in session.requested:
                session.hold(name)
            case 6:
                session.is_idle = False
                for due in session.due[: random_.randrange(4)]:
                    session.look_at(due, partition(due))
                    seen[session, due] = happened[due]
                session.is_idle = random_.random() < 0.5
            case 7 if random_.random() < 0.05:
                session.end()
                sessions.remove(session)
                sessions.append(session_of(watchers, "", room))
        for each in sessions:
            for requested in each.requested:
                is_new = seen.get((each, requested), -1) < happened[requested]
                assert not is_new or requested in each.due or each.is_held(requested)
        assert room.used == sum(len(each.requested) for each in sessions)
        assert set(watchers.partitions) <= {partition(key) for each in sessions for key in each.requested}
        if _ > 2_000:
            return
