"""Fetch sessions: what is asked again and what is told again (KIP-227)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from ottla_broker.kafka.fetch_request import FetchRequest, FetchResponsePartition, RequestedPartition
from ottla_broker.kafka.fetch_sessions import EVICTABLE_S, FetchContext, FetchSessions
from ottla_broker.replication.fetch import FetchResult
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId

ID = PartitionId(TopicId(bytes(16)), 0)
A, B, C = (RequestedPartition(topic, 0, -1, 0, 1024) for topic in "abc")


def request(
    session_id: int, epoch: int, asked: Sequence[RequestedPartition] = (), forgotten: Sequence[RequestedPartition] = ()
) -> FetchRequest:
    gone = [(each.topic, each.number) for each in forgotten]
    return FetchRequest(-1, 0, 1, 1024, 0, session_id, epoch, list(asked), gone, "")


def sessions(max_sessions: int = 2, max_partitions: int = 10) -> FetchSessions:
    numbers = itertools.count(1)
    return FetchSessions(lambda: next(numbers), max_sessions=max_sessions, max_partitions=max_partitions)


def read(turn: FetchContext, **records: bytes) -> list[str]:
    """The topics that the answer tells of, where each of `records` was read and nothing of the others."""
    parts = [
        FetchResponsePartition(each, FetchResult(ID, records.get(str(each.topic), b""), 5, 0))
        for each in turn.requested
    ]
    return [str(part.requested.topic) for part in turn.response(parts)]


def begin(held: FetchSessions, *asked: RequestedPartition, now: float = 0.0) -> int:
    turn = held.begin(request(0, 0, asked), by_id=False, now=now)
    read(turn)
    return turn.session_id


def test_a_session_asks_for_everything_and_tells_what_has_changed() -> None:
    held = sessions()
    first = held.begin(request(0, 0, [A, B]), by_id=False, now=0)
    assert read(first) == ["a", "b"], "the first answer is whole"
    again = held.begin(request(first.session_id, 1), by_id=False, now=0)
    assert list(again.requested) == [A, B]
    assert read(again) == []
    moved = A._replace(offset=7)
    more = held.begin(request(first.session_id, 2, [moved, C], [B]), by_id=False, now=0)
    assert list(more.requested) == [moved, C]
    assert read(more) == ["c"], "which the client knows nothing of yet"
    assert read(held.begin(request(first.session_id, 3), by_id=False, now=0), a=b"records") == ["a"]


@pytest.mark.rule(57)
def test_who_got_records_is_read_last_next_time() -> None:
    held = sessions()
    session_id = begin(held, A, B, C)
    read(held.begin(request(session_id, 1), by_id=False, now=0), a=b"records")
    assert [each.topic for each in held.begin(request(session_id, 2), by_id=False, now=0).requested] == ["b", "c", "a"]


def test_an_error_is_told_every_time() -> None:
    held = sessions()
    session_id = begin(held, A)
    error = OttlaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "elsewhere")
    for epoch in (1, 2):
        turn = held.begin(request(session_id, epoch), by_id=False, now=0)
        assert len(turn.response([FetchResponsePartition(A, FetchResult(ID, error=error))])) == 1
    assert read(held.begin(request(session_id, 3), by_id=False, now=0)) == ["a"], "and so is its end"


@pytest.mark.parametrize(
    ("session_id", "epoch", "by_id", "code"),
    [
        (9, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (1, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_what_is_not_the_session_that_it_says(session_id: int, epoch: int, by_id: bool, code: ErrorCode) -> None:
    held = sessions()
    begin(held, A)
    with pytest.raises(OttlaError) as refused:
        held.begin(request(session_id, epoch), by_id=by_id, now=0)
    assert refused.value.code == code
    assert held.begin(request(1, 1), by_id=False, now=0).session_id == 1, "nothing has changed"


def test_sessions_end() -> None:
    held = sessions()
    session_id = begin(held, A)
    alone = held.begin(request(session_id, -1, [B]), by_id=False, now=0)
    assert (list(alone.requested), alone.session_id, len(held)) == ([B], 0, 0)
    session_id = begin(held, A)
    assert begin(held, A) != session_id
    renewed = held.begin(request(session_id, 0, [A]), by_id=False, now=0)
    assert (renewed.session_id != session_id, len(held)) == (True, 2)
    empty = held.begin(request(renewed.session_id, 1, (), [A]), by_id=False, now=0)
    assert (empty.session_id, len(held)) == (0, 1), "a session of nothing is none"


@pytest.mark.parametrize("bounds", [{"max_sessions": 2}, {"max_partitions": 2, "max_sessions": 9}])
def test_only_what_was_not_used_for_long_makes_room(bounds: dict[str, int]) -> None:
    held = sessions(**bounds)
    first, second = begin(held, A), begin(held, B)
    assert begin(held, C) == 0, "who comes late goes on without a session"
    held.begin(request(first, 1), by_id=False, now=EVICTABLE_S - 1)
    third = begin(held, C, now=EVICTABLE_S + 1)
    assert third != 0
    with pytest.raises(OttlaError):
        held.begin(request(second, 1), by_id=False, now=EVICTABLE_S + 1)
    assert held.begin(request(first, 2), by_id=False, now=EVICTABLE_S + 1).session_id == first


def test_a_session_that_grows_too_large_ends() -> None:
    held = sessions(max_partitions=2)
    session_id = begin(held, A)
    held.begin(request(session_id, 1, [B, C]), by_id=False, now=0)
    assert len(held) == 0
    assert begin(held, A, B) != 0, "its partitions are given back"
