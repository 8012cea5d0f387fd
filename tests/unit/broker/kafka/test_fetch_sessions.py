"""Fetch sessions: what is asked again and what is told again (KIP-227)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from ottla_broker.kafka.fetch_sessions import EVICTABLE_S, FetchSessions, Session
from ottla_broker.kafka.wire.fetch_request import FetchRequest, RequestedPartition
from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.replication.fetch import FetchResult
from ottla_broker.replication.fetch_purgatory import FetchPurgatory
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId

A, B, C = (RequestedPartition(topic, 0, -1, 0, 1024) for topic in "abc")
ERROR = OttlaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "elsewhere")


def id_of(topic: str) -> PartitionId:
    return PartitionId(TopicId(topic.encode() * 16), 0)


def request(
    session_id: int, epoch: int, asked: Sequence[RequestedPartition] = (), forgotten: Sequence[RequestedPartition] = ()
) -> FetchRequest:
    gone = [(each.topic, each.number) for each in forgotten]
    return FetchRequest(-1, 0, 1, 1024, 0, session_id, epoch, list(asked), gone, "")


class Held:
    """Sessions, and a broker that looks at what is pending as `fetch_due` does."""

    def __init__(self, max_sessions: int = 2, max_partitions: int = 10) -> None:
        numbers = itertools.count(1)
        self.purgatory = FetchPurgatory()
        self.sessions = FetchSessions(
            lambda: next(numbers), self.purgatory, max_sessions=max_sessions, max_partitions=max_partitions
        )
        self.looked: list[str] = []
        self.told: list[str] = []
        self.high_watermark = 0

    def __len__(self) -> int:
        return len(self.sessions)

    def fetch(
        self,
        session_id: int,
        epoch: int,
        asked: Sequence[RequestedPartition] = (),
        forgotten: Sequence[RequestedPartition] = (),
        *,
        by_id: bool = False,
        now: float = 0.0,
        records: str = "",
        failing: str = "",
    ) -> Session:
        sent = request(session_id, epoch, asked, forgotten)
        with self.sessions.fetching(sent, by_id=by_id, now=now) as session:
            looked = {}
            for key in session.due:
                topic = str(key[0])
                session.look_at(key, id_of(topic))
                looked[key] = FetchResult(
                    id_of(topic), b"r" * (topic in records), HighWatermark(self.high_watermark), 0
                )
                if topic in failing:
                    looked[key] = FetchResult(id_of(topic), error=ERROR)
                if topic in records + failing:
                    session.look_again(key)
            self.looked = [str(topic) for topic, _ in looked]
            self.told = [str(part.requested.topic) for part in session.response(looked)]
        return session


def test_a_session_looks_at_what_is_named_or_has_changed_and_tells_what_is_new() -> None:
    held = Held()
    first = held.fetch(0, 0, [A, B])
    assert (held.looked, held.told) == (["a", "b"], ["a", "b"]), "the first answer is whole"
    held.fetch(first.id, 1)
    assert (held.looked, held.told) == ([], [])
    moved = A._replace(offset=7)
    held.fetch(first.id, 2, [moved, C], [B])
    assert (held.looked, held.told) == (["a", "c"], ["c"]), "which the client knows nothing of yet"
    assert first.requested["a", 0] == moved
    held.purgatory.on_bytes(id_of("a"), 1)
    held.purgatory.on_bytes(id_of("b"), 1)
    held.fetch(first.id, 3, records="a")
    assert (held.looked, held.told) == (["a"], ["a"])


@pytest.mark.parametrize("happens", ["wake", "touch"])
def test_another_high_watermark_is_told_once(happens: str) -> None:
    held = Held()
    session_id = held.fetch(0, 0, [A, B]).id
    held.high_watermark = 5
    getattr(held.purgatory, happens)(id_of("b"))
    held.fetch(session_id, 1)
    assert held.told == ["b"]
    getattr(held.purgatory, happens)(id_of("b"))
    held.fetch(session_id, 2)
    assert (held.looked, held.told) == (["b"], [])


@pytest.mark.rule(57)
def test_who_got_records_is_read_last_next_time() -> None:
    held = Held()
    session_id = held.fetch(0, 0, [A, B, C]).id
    held.purgatory.wake(id_of("a"))
    held.fetch(session_id, 1, records="a")
    for topic in "bc":
        held.purgatory.wake(id_of(topic))
    held.fetch(session_id, 2, [A._replace(offset=1)])
    assert held.looked == ["b", "c", "a"]


def test_an_error_is_told_every_time() -> None:
    held = Held()
    session_id = held.fetch(0, 0, [A]).id
    for epoch in (1, 2):
        held.purgatory.wake(id_of("a"))
        held.fetch(session_id, epoch, failing="a")
        assert held.told == ["a"]
    held.fetch(session_id, 3)
    assert held.told == ["a"], "and so is its end"


@pytest.mark.parametrize(
    ("session_id", "epoch", "by_id", "code"),
    [
        (9, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (1, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_what_is_not_the_session_that_it_says(session_id: int, epoch: int, by_id: bool, code: ErrorCode) -> None:
    held = Held()
    held.fetch(0, 0, [A])
    with pytest.raises(OttlaError) as refused:
        held.fetch(session_id, epoch, by_id=by_id)
    assert refused.value.code == code
    assert held.fetch(1, 1).id == 1, "nothing has changed"


def test_sessions_end() -> None:
    held = Held()
    session_id = held.fetch(0, 0, [A]).id
    alone = held.fetch(session_id, -1, [B])
    assert (held.looked, alone.id, len(held)) == (["b"], 0, 0)
    session_id = held.fetch(0, 0, [A]).id
    assert held.fetch(0, 0, [A]).id != session_id
    renewed = held.fetch(session_id, 0, [A])
    assert (renewed.id != session_id, len(held)) == (True, 2)
    empty = held.fetch(renewed.id, 1, (), [A])
    assert (empty.id, len(held)) == (0, 1), "a session of nothing is none"


@pytest.mark.parametrize("bounds", [{"max_sessions": 2}, {"max_partitions": 2, "max_sessions": 9}])
def test_only_what_was_not_used_for_long_makes_room(bounds: dict[str, int]) -> None:
    held = Held(**bounds)
    first, second = held.fetch(0, 0, [A]).id, held.fetch(0, 0, [B]).id
    assert held.fetch(0, 0, [C]).id == 0, "who comes late goes on without a session"
    held.fetch(first, 1, now=EVICTABLE_S - 1)
    third = held.fetch(0, 0, [C], now=EVICTABLE_S + 1).id
    assert third != 0
    with pytest.raises(OttlaError):
        held.fetch(second, 1, now=EVICTABLE_S + 1)
    assert held.fetch(first, 2, now=EVICTABLE_S + 1).id == first


def test_a_session_that_grows_too_large_ends() -> None:
    held = Held(max_partitions=2)
    session_id = held.fetch(0, 0, [A]).id
    with pytest.raises(OttlaError) as refused:
        held.fetch(session_id, 1, [B, C])
    assert (refused.value.code, len(held)) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert held.fetch(0, 0, [A, B]).id != 0, "its partitions are given back"


def test_a_partition_that_is_named_again_takes_no_more_room() -> None:
    held = Held(max_partitions=2)
    session_id = held.fetch(0, 0, [A, A]).id
    for epoch in range(1, 5):
        held.fetch(session_id, epoch, [A._replace(offset=epoch)])
    held.fetch(session_id, 5, [B])
    assert len(held) == 1


def test_a_nearer_replica_is_named_until_the_client_reads_there() -> None:
    held = Held()
    session = held.fetch(0, 0, [A])
    nearer = FetchResult(id_of("a"), b"", HighWatermark(0), 0, preferred_replica=2)
    for _ in range(2):
        assert [part.fetched for part in session.response({("a", 0): nearer})] == [nearer]


def test_what_is_over_is_watched_no_more() -> None:
    """Evicted, replaced, forgotten, ended, alone, empty, too large, broken off: nothing of it is left behind."""
    held = Held(max_sessions=1, max_partitions=3)
    session_id = held.fetch(0, 0, [A, B]).id
    held.fetch(0, 0, [C])
    assert len(held.purgatory) == 2, "the one that stood alone is over"
    held.fetch(session_id, 1, (), [A])
    assert set(held.purgatory.partitions) == {id_of("b")}
    session_id = held.fetch(0, 0, [A], now=EVICTABLE_S).id
    assert set(held.purgatory.partitions) == {id_of("a")}, "evicted"
    session_id = held.fetch(session_id, 0, [B, C]).id
    assert set(held.purgatory.partitions) == {id_of("b"), id_of("c")}, "replaced"
    with pytest.raises(KeyboardInterrupt), held.sessions.fetching(request(session_id, 1), by_id=False, now=0):
        raise KeyboardInterrupt
    assert (len(held.purgatory), len(held)) == (0, 0), "broken off"
    session_id = held.fetch(0, 0, [A]).id
    with pytest.raises(OttlaError):
        held.fetch(session_id, 1, [B, C, A._replace(number=1)])
    assert (len(held.purgatory), len(held)) == (0, 0), "too large"
    held.fetch(held.fetch(0, 0, [A]).id, -1)
    assert (len(held.purgatory), len(held)) == (0, 0), "ended"


def test_a_session_that_two_use_at_once_is_neithers() -> None:
    held = Held()
    session_id = held.fetch(0, 0, [A]).id
    with held.sessions.fetching(request(session_id, 1), by_id=False, now=0) as parked:
        with pytest.raises(OttlaError) as second:
            held.fetch(session_id, 2)
        assert parked.parked.is_closed, "it sleeps no longer"
        with pytest.raises(OttlaError) as first:
            parked.response({})
    assert first.value.code == second.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(held), len(held.purgatory)) == (0, 0)


def test_a_topic_made_anew_is_watched_in_place_of_the_one_before() -> None:
    held = Held()
    session = held.fetch(0, 0, [A])
    held.purgatory.watch(session, ("a", 0), id_of("x"))
    held.purgatory.wake(id_of("a"))
    assert not session.due
    held.purgatory.wake(id_of("x"))
    assert session.due == [("a", 0)]
