"""A fetch session at a broker (KIP-227), as its requests and responses name it."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from ottla.errors import ErrorCode
from ottla.machines.broker_session import BrokerSession, SessionRequest, SessionResult
from ottla_core.model import PartitionId, TopicId

P0, P1, P2, P3 = (PartitionId(TopicId(b"t" * 16), number) for number in range(4))
GOOD, ALONE, FAILED = SessionResult(True, True), SessionResult(True, False), SessionResult(False, False)
"""A response that belongs to a session, one that belongs to none, and an error."""
STANDS_ALONE = SessionRequest(0, -1)


def request(
    session: BrokerSession,
    *named: PartitionId,
    own_id: int = 1,
    begins: bool = False,
    withdrawn: Collection[PartitionId] = (),
) -> SessionRequest:
    return session.request(own_id, begins=begins, named=named, withdrawn=withdrawn)


def begun(*answered: PartitionId) -> BrokerSession:
    """Return a session whose first request has been answered: its id is 6."""
    session = BrokerSession()
    first = request(session, P0, P1, P2, P3, begins=True)
    assert first == SessionRequest(0, 0, [])
    assert session.on_response(first, 0, 6, answered) == GOOD
    return session


def test_the_next_request_has_the_next_epoch_and_forgets_what_was_answered_or_withdrawn() -> None:
    session = begun(P0, P1, P3)
    second = request(session, P0, withdrawn=[P2])
    assert second == SessionRequest(6, 1, [P1, P3, P2]), "a partition is not forgotten by a request that names it"
    assert session.on_response(second, 0, 6, []) == GOOD
    assert request(session) == SessionRequest(6, 2, [])


def test_a_partition_is_not_forgotten_in_the_request_that_names_it() -> None:
    assert request(begun(), P0, withdrawn=[P0]) == SessionRequest(6, 1, [])


def test_a_partition_that_was_answered_and_withdrawn_is_forgotten_once() -> None:
    assert request(begun(P1), withdrawn=[P1]) == SessionRequest(6, 1, [P1])


def test_the_first_request_of_the_next_session_ends_the_one_before_it() -> None:
    session = begun(P0)
    assert request(session, P0, own_id=2, begins=True, withdrawn=[P1]) == SessionRequest(6, 0, [])


def test_a_session_may_exist_before_its_id_comes() -> None:
    session = BrokerSession()
    assert not session.may_exist
    first = request(session, P0, begins=True)
    assert (session.may_exist, session.is_beginning) == (True, True)
    session.on_response(first, 0, 6, [])
    assert (session.may_exist, session.is_beginning, session.id) == (True, False, 6)


def test_a_broker_without_room_for_a_session_has_none_to_end() -> None:
    session = BrokerSession()
    assert session.on_response(request(session, P0, begins=True), 0, 0, [P0]) == ALONE
    assert not session.may_exist


def test_the_epoch_of_a_session_begins_again_after_the_largest() -> None:
    session = begun()
    session._epoch = 2**31 - 1
    last = request(session)
    assert (last.epoch, session.on_response(last, 0, 6, [])) == (2**31 - 1, GOOD)
    assert request(session).epoch == 1


@pytest.mark.parametrize(
    ("code", "left"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 6),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 6),
    ],
)
def test_a_session_that_is_over_is_no_error_but_a_response_without_one(code: ErrorCode, left: int) -> None:
    """If the broker may still have the session, the request that begins the next one ends it."""
    session = begun()
    assert session.on_response(request(session, P0), code, 0, []) == ALONE
    assert request(session, P0, own_id=2, begins=True) == SessionRequest(left, 0, [])


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_ID])
def test_an_error_of_the_first_request_is_passed_on(code: ErrorCode) -> None:
    """A broker may refuse each session. If that were no error, the client would try for ever, without a pause."""
    session = BrokerSession()
    assert session.on_response(request(session, P0, begins=True), code, 0, []) == FAILED
    assert not session.may_exist


def test_after_any_other_error_the_broker_may_still_have_the_session() -> None:
    session = begun()
    assert session.on_response(request(session, P0), ErrorCode.UNKNOWN_TOPIC_ID, 0, []) == FAILED
    assert request(session, P0, own_id=2, begins=True) == SessionRequest(6, 0, [])


@pytest.mark.parametrize(("code", "result"), [(0, ALONE), (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, FAILED)])
def test_a_request_without_a_session_leaves_the_session_as_it_is(code: int, result: SessionResult) -> None:
    session = BrokerSession()
    alone = request(session, P0, own_id=0, withdrawn=[P3])
    assert alone == STANDS_ALONE
    assert session.on_response(alone, code, 6, [P0]) == result
    assert not session.may_exist
    assert request(session, P0, begins=True) == SessionRequest(0, 0, [])


def test_a_session_that_has_begun_on_another_stream_is_not_continued() -> None:
    assert request(BrokerSession(), P0, withdrawn=[P3]) == STANDS_ALONE


def test_the_response_to_a_former_session_changes_nothing_in_the_next_one() -> None:
    session = BrokerSession()
    former = request(session, P0, begins=True)
    current = request(session, P0, own_id=2, begins=True)
    assert session.on_response(former, 0, 6, [P0]) == ALONE
    assert session.on_response(current, 0, 7, []) == GOOD
    assert request(session, P1, own_id=2) == SessionRequest(7, 1, [])


def test_the_names_of_topics_are_those_of_one_session() -> None:
    session = begun()
    session.topic_ids["a"] = b"a" * 16
    request(session, P0)
    assert session.topic_ids == {"a": b"a" * 16}
    request(session, P3, own_id=2, begins=True)
    assert session.topic_ids == {}
