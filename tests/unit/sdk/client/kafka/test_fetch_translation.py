"""Fetches in Kafka's messages, and the session behind them (KIP-227). `tests/properties/test_consumer_sessions.py`
tests how both sides work together."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from ottla.client.kafka.apis import FETCH
from ottla.client.kafka.translations.fetch import FetchSession, FetchTranslation
from ottla.client.kafka.translations.fetched import Fetched
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode
from ottla_core.kafka import codec
from ottla_core.kafka.messages import FetchResponse
from ottla_proto import broker_pb2 as pb

A, B = b"a" * 16, b"b" * 16
NAMES = TopicNames()
NAMES.learn(A, "a")
NAMES.learn(B, "b")
SESSIONS_FROM = 7


def fetch(
    *named: tuple[bytes, int, int],
    session: int = 1,
    begins: bool = False,
    forgotten: Collection[tuple[bytes, int]] = (),
) -> pb.FetchRequest:
    request = pb.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1000, read_committed=True, rack="r")
    if session:
        request.session.id, request.session.begins = session, begins
    for topic_id, number, offset in named:
        request.partitions.add(
            topic_id=topic_id, partition=number, fetch_offset=offset, current_leader_epoch=4, max_bytes=100
        )
    for topic_id, number in forgotten:
        request.forgotten.add(topic_id=topic_id, partition=number)
    return request


def sent(translation: FetchTranslation, request: pb.FetchRequest, version: int = 17) -> Any:
    terms = Terms(version, 1500, NAMES)
    return codec.decode(FETCH.request, codec.encode(translation.request(request, terms), version), version)


def received(
    translation: FetchTranslation,
    parts: Iterable[tuple[bytes, FetchResponse.PartitionData]] = (),
    version: int = 17,
    **fields: Any,
) -> Fetched:
    topics = [
        FetchResponse.FetchableTopicResponse(topic=topic_id[:1].decode(), topic_id=topic_id, partitions=[part])
        for topic_id, part in parts
    ]
    response = FetchResponse(responses=topics, **fields)
    decoded: Any = codec.decode(FETCH.response, codec.encode(response, version), version)
    return translation.response(decoded, Terms(version, 1500, NAMES))


def data(number: int, records: bytes = b"", **fields: Any) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(partition_index=number, records=records, **fields)


def requested(message: Any, version: int = 17) -> list[tuple[bytes | str, int, int]]:
    return [
        (topic.topic_id if version >= 13 else topic.topic, part.partition, part.fetch_offset)
        for topic in message.topics
        for part in topic.partitions
    ]


def forgotten(message: Any) -> list[tuple[bytes, int]]:
    return [(topic.topic_id, number) for topic in message.forgotten_topics_data for number in topic.partitions]


@pytest.mark.parametrize("version", FETCH.versions)
def test_a_fetch_has_its_settings_and_names_topics_as_its_version_does(version: int) -> None:
    message = sent(FetchSession()(), fetch((A, 0, 5), (B, 1, 6), (A, 2, 7), begins=True), version)
    assert (message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level) == (500, 1, 1000, 1)
    a, b = (A, B) if version >= 13 else ("a", "b")
    assert requested(message, version) == [(a, 0, 5), (a, 2, 7), (b, 1, 6)]
    part = message.topics[0].partitions[0]
    assert part.partition_max_bytes == 100
    assert part.current_leader_epoch == (4 if version >= 9 else -1)
    assert message.rack_id == ("r" if version >= 11 else "")
    assert (message.session_id, message.session_epoch) == ((0, 0) if version >= SESSIONS_FROM else (0, -1))


@pytest.mark.parametrize("version", FETCH.versions)
def test_a_response_has_records_offsets_errors_and_aborted_transactions(version: int) -> None:
    translation = FetchSession()()
    sent(translation, fetch((A, 0, 5), (B, 1, 6), begins=True), version)
    aborted = [FetchResponse.AbortedTransaction(producer_id=7, first_offset=3)]
    good = data(0, b"records", high_watermark=9, last_stable_offset=8, aborted_transactions=aborted)
    bad = data(1, error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE), high_watermark=-1)
    response = received(translation, [(A, good), (B, bad)], version)
    first, second = response.partitions
    assert (first.topic_id, first.partition, first.records) == (A, 0, b"records")
    assert (first.high_watermark, first.last_stable_offset, first.log_start_offset) == (9, 8, 0)
    assert [(each.producer_id, each.first_offset) for each in first.aborted] == [(7, 3)]
    assert not first.HasField("preferred_read_replica")
    assert (second.topic_id, second.error.code) == (B, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert not response.HasField("session"), "a broker without sessions, or without room for one"


def test_a_response_names_the_new_leader_and_a_closer_replica() -> None:
    translation = FetchSession()()
    sent(translation, fetch((A, 0, 5), (A, 1, 5), begins=True))
    moved = data(
        0,
        error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=3, leader_epoch=8),
    )
    endpoints = [FetchResponse.NodeEndpoint(node_id=3, host="h", port=9092)]
    response = received(
        translation, [(A, moved), (A, data(1, preferred_read_replica=2))], session_id=6, node_endpoints=endpoints
    )
    leader = response.partitions[0].current_leader
    assert (leader.broker_id, leader.leader_epoch, leader.address) == (3, 8, "h:9092")
    assert response.partitions[1].preferred_read_replica == 2


def test_records_stay_in_their_response_if_they_are_at_least_half_of_it() -> None:
    """Fewer would keep the whole response in memory for as long as a consumer keeps them."""
    translation = FetchSession()()
    sent(translation, fetch((A, 0, 5), (A, 1, 5), begins=True))
    large, small = bytes(1000), b"x" * 700
    first, second = received(translation, [(A, data(0, large)), (A, data(1, small))], session_id=6).partitions
    assert isinstance(first.records, memoryview)
    assert first.records == large
    assert isinstance(second.records, bytes)
    assert second.records == small


def test_a_leader_whose_address_is_missing_is_not_named() -> None:
    translation = FetchSession()()
    sent(translation, fetch((A, 0, 5), begins=True))
    leader = FetchResponse.LeaderIdAndEpoch(leader_id=3, leader_epoch=8)
    response = received(translation, [(A, data(0, current_leader=leader))], session_id=6)
    assert not response.partitions[0].current_leader.address


def test_the_next_fetch_of_a_session_has_its_next_epoch_and_what_has_changed() -> None:
    session = FetchSession()
    first = session()
    sent(first, fetch((A, 0, 5), (A, 1, 5), (A, 2, 5), (B, 0, 5), begins=True))
    answered = [(A, data(0, b"records")), (A, data(1, b"records")), (A, data(2)), (B, data(0, error_code=1))]
    assert received(first, answered, session_id=6).session.id == 1
    second = session()
    message = sent(second, fetch((A, 0, 9), forgotten=[(A, 2)]))
    assert (message.session_id, message.session_epoch) == (6, 1)
    assert requested(message) == [(A, 0, 9)]
    assert forgotten(message) == [(A, 1), (A, 2), (B, 0)], "the client requests them no longer, and the broker would"
    received(second, session_id=6)
    third = sent(session(), fetch())
    assert (third.session_epoch, forgotten(third)) == (2, [])


def test_a_partition_is_not_forgotten_in_the_request_that_names_it() -> None:
    session = FetchSession()
    first = session()
    sent(first, fetch((A, 0, 5), begins=True))
    received(first, session_id=6)
    message = sent(session(), fetch((A, 0, 1), forgotten=[(A, 0)]))
    assert (requested(message), forgotten(message)) == ([(A, 0, 1)], [])


def test_a_new_session_ends_the_one_before_it() -> None:
    session = FetchSession()
    first = session()
    sent(first, fetch((A, 0, 5), begins=True))
    received(first, [(A, data(0, b"records"))], session_id=6)
    message = sent(session(), fetch((A, 0, 9), session=2, begins=True))
    assert (message.session_id, message.session_epoch, forgotten(message)) == (6, 0, [])


def test_a_last_request_ends_the_session_if_there_is_one() -> None:
    session = FetchSession()
    assert not session.may_exist
    first = session()
    sent(first, fetch((A, 0, 5), begins=True))
    assert session.is_beginning, "its id comes with the response"
    received(first, session_id=6)
    assert (session.may_exist, session.is_beginning) == (True, False)
    last = session.goodbye(17)
    assert (last.session_id, last.session_epoch, last.max_wait_ms, list(last.topics)) == (6, -1, 0, [])


def test_a_broker_without_room_for_a_session_has_none_to_end() -> None:
    session = FetchSession()
    first = session()
    sent(first, fetch((A, 0, 5), begins=True))
    received(first, session_id=0)
    assert not session.may_exist


def test_the_epoch_of_a_session_begins_again_after_the_largest() -> None:
    session = FetchSession()
    first = session()
    sent(first, fetch((A, 0, 5), begins=True))
    received(first, session_id=6)
    session.epoch = 2**31 - 1
    last = session()
    assert sent(last, fetch()).session_epoch == 2**31 - 1
    received(last, session_id=6)
    assert sent(session(), fetch()).session_epoch == 1


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
    session = FetchSession()
    first = session()
    sent(first, fetch((A, 0, 5), begins=True))
    received(first, session_id=6)
    second = session()
    sent(second, fetch((A, 0, 6)))
    response = received(second, error_code=int(code))
    assert (response.error.code, response.HasField("session")) == (0, False)
    message = sent(session(), fetch((A, 0, 6), session=2, begins=True))
    assert (message.session_id, message.session_epoch) == (left, 0)


def test_a_broker_that_refuses_each_session_is_an_error() -> None:
    first = FetchSession()()
    sent(first, fetch((A, 0, 5), begins=True))
    response = received(first, error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert response.error.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND, (
        "or the client would ask for ever without a pause"
    )


def test_another_error_of_a_fetch_is_reported() -> None:
    first = FetchSession()()
    sent(first, fetch((A, 0, 5), begins=True))
    assert received(first, error_code=int(ErrorCode.UNKNOWN_TOPIC_ID)).error.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_fetch_without_a_session_stands_alone_and_leaves_the_session_as_it_is() -> None:
    session = FetchSession()
    alone = session()
    message = sent(alone, fetch((A, 0, 5), session=0))
    assert (message.session_id, message.session_epoch) == (0, -1)
    assert not received(alone, [(A, data(0, b"records"))]).HasField("session")
    assert sent(session(), fetch((A, 0, 5), begins=True)).session_epoch == 0


def test_a_session_that_has_begun_on_another_stream_is_not_continued() -> None:
    message = sent(FetchSession()(), fetch((A, 0, 5), forgotten=[(B, 0)]))
    assert (message.session_id, message.session_epoch, forgotten(message)) == (0, -1, [])


def test_the_response_to_a_former_session_changes_nothing_in_the_next_one() -> None:
    session = FetchSession()
    former, current = session(), session()
    sent(former, fetch((A, 0, 5), begins=True))
    sent(current, fetch((A, 0, 5), session=2, begins=True))
    assert not received(former, [(A, data(0, b"records"))], session_id=6).HasField("session")
    assert received(current, session_id=7).session.id == 2
    message = sent(session(), fetch((A, 1, 5), session=2))
    assert (message.session_id, message.session_epoch, forgotten(message)) == (7, 1, [])


@pytest.mark.parametrize("version", [7, 12])
def test_a_session_knows_its_topics_by_name_in_an_old_version(version: int) -> None:
    session = FetchSession()
    first = session()
    sent(first, fetch((A, 0, 5), begins=True), version)
    received(first, version=version, session_id=6)
    second = session()
    sent(second, fetch(), version)
    response = received(second, [(A, data(0, b"records"))], version, session_id=6)
    assert response.partitions[0].topic_id == A
    message = sent(session(), fetch(), version)
    assert [(topic.topic, list(topic.partitions)) for topic in message.forgotten_topics_data] == [("a", [0])]
    sent(session(), fetch((B, 0, 5), session=2, begins=True), version)
    assert session.topic_ids == {"b": B}
