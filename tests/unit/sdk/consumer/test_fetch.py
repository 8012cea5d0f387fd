"""The request that fetches records, and what its response means. `tests/properties/test_consumer_sessions.py` tests how
a consumer and its brokers work together."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from exchanged import meaning, sent

from ottla.client.kafka.apis import FETCH
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.named_leaders import NamedLeader
from ottla.consumer.fetch import Fetched, FetchOptions, exchange_of
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.broker_session import BrokerSession
from ottla.machines.metadata import Route
from ottla.machines.position import Fetch, FetchPart, FetchSession, PartitionData, Position, Target
from ottla_core.kafka.messages import FetchResponse
from ottla_core.model import PartitionId, TopicId, TopicPartition

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)
A0, A1, A2, B0, B1 = PartitionId(A, 0), PartitionId(A, 1), PartitionId(A, 2), PartitionId(B, 0), PartitionId(B, 1)
SESSIONS_FROM, IDS_FROM, NEWEST = 7, 13, FETCH.versions[-1]
OPTIONS = FetchOptions(min_bytes=1, max_bytes=1000, max_wait_s=0.5, rack="r")
LEADER = Target("l:1", from_follower=False, may_name=True)

Data = FetchResponse.PartitionData
Leader = FetchResponse.LeaderIdAndEpoch


def known() -> TopicNames:
    names = TopicNames()
    names.learn(A, "a")
    names.learn(B, "b")
    return names


def fetch(
    *named: tuple[PartitionId, int],
    session: int = 1,
    number: int = 1,
    forgotten: Collection[PartitionId] = (),
    target: Target = LEADER,
    max_wait_s: float = float("inf"),
) -> Fetch:
    """Return the fetch of some partitions from their offsets on. With `number` 1, it begins a session."""
    made = Fetch(FetchSession(target, session), 100, number=number, max_wait_s=max_wait_s, forgotten=[*forgotten])
    position = Position(TopicPartition("t", 0))
    made.parts = [FetchPart(position, Route(at, "l:1", 4), offset, 0, made) for at, offset in named]
    return made


def asked_for(
    *named: tuple[PartitionId, int],
    broker_session: BrokerSession | None = None,
    options: FetchOptions = OPTIONS,
    names: TopicNames | None = None,
    **fetched: Any,
) -> Exchange[Fetched]:
    session = BrokerSession() if broker_session is None else broker_session
    return exchange_of(fetch(*named, **fetched), session, options, known() if names is None else names)


def response_of(parts: Iterable[tuple[PartitionId, Data]] = (), **fields: Any) -> FetchResponse:
    """Return a response in which each partition has the number that its id says."""
    topics = []
    for at, data in parts:
        data.partition_index = at.partition
        name = at.topic_id[:1].decode()
        topics.append(FetchResponse.FetchableTopicResponse(topic=name, topic_id=at.topic_id, partitions=[data]))
    return FetchResponse(responses=topics, **fields)


def fetched(
    *parts: tuple[PartitionId, Data], version: int = NEWEST, options: FetchOptions = OPTIONS, **fields: Any
) -> Fetched:
    """Return what the response to the first fetch of a session means."""
    asked = asked_for(*((at, 5) for at, _ in parts), options=options)
    sent(asked, version)
    return meaning(asked, response_of(parts, **fields), version)


def requested(message: Any, version: int = NEWEST) -> list[tuple[bytes | str, int, int]]:
    return [
        (topic.topic_id if version >= IDS_FROM else topic.topic, part.partition, part.fetch_offset)
        for topic in message.topics
        for part in topic.partitions
    ]


# ---- the request -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", FETCH.versions)
def test_a_fetch_has_its_settings_and_names_topics_as_its_version_does(version: int) -> None:
    message = sent(asked_for((A0, 5), (B1, 6), (A2, 7)), version)
    assert (message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level) == (500, 1, 1000, 1)
    a, b = (A, B) if version >= IDS_FROM else ("a", "b")
    assert requested(message, version) == [(a, 0, 5), (a, 2, 7), (b, 1, 6)]
    part = message.topics[0].partitions[0]
    assert part.partition_max_bytes == 100
    assert part.current_leader_epoch == (4 if version >= 9 else -1)
    assert message.rack_id == ("r" if version >= 11 else "")
    assert (message.session_id, message.session_epoch) == ((0, 0) if version >= SESSIONS_FROM else (0, -1))


def test_a_topic_whose_name_is_unknown_can_not_be_fetched_in_an_old_version() -> None:
    with pytest.raises(OttlaError) as caught:
        sent(asked_for((A0, 5), names=TopicNames()), IDS_FROM - 1)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    assert requested(sent(asked_for((A0, 5), names=TopicNames()), IDS_FROM)) == [(A, 0, 5)]


@pytest.mark.parametrize(
    ("from_follower", "may_name", "rack"), [(False, True, "r"), (True, False, "r"), (False, False, "")]
)
def test_the_rack_is_left_out_after_a_closer_replica_was_lost(from_follower: bool, may_name: bool, rack: str) -> None:
    message = sent(asked_for((A0, 5), target=Target("l:1", from_follower, may_name)), NEWEST)
    assert message.rack_id == rack


def test_an_express_fetch_waits_no_longer_than_it_says() -> None:
    assert sent(asked_for((A0, 5), session=0, max_wait_s=0.02), NEWEST).max_wait_ms == 20


# ---- the response ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("read_committed", "limit"), [(True, 8), (False, 9)])
@pytest.mark.parametrize("version", FETCH.versions)
def test_a_response_has_records_offsets_errors_and_aborted_transactions(
    version: int, read_committed: bool, limit: int
) -> None:
    aborted = [FetchResponse.AbortedTransaction(producer_id=7, first_offset=3)]
    good = Data(records=b"records", high_watermark=9, last_stable_offset=8, aborted_transactions=aborted)
    bad = Data(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE), high_watermark=-1)
    options = FetchOptions(1, 1000, 0.5, "", read_committed)
    found = fetched((A0, good), (B1, bad), version=version, options=options)
    assert found.partitions == {
        A0: PartitionData(b"records", limit, 0, aborted=((7, 3),)),
        B1: PartitionData(high_watermark=-1, log_start_offset=0, code=ErrorCode.OFFSET_OUT_OF_RANGE),
    }
    assert not found.leaders
    assert not found.in_session, "the broker has no sessions, or no room for one"


def test_a_response_has_the_log_start_offset() -> None:
    assert fetched((A0, Data(log_start_offset=3))).partitions[A0].log_start_offset == 3


def test_a_response_names_the_new_leader_and_a_closer_replica() -> None:
    moved = Data(error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER), current_leader=Leader(leader_id=3, leader_epoch=8))
    closer = Data(preferred_read_replica=2, current_leader=Leader(leader_id=3, leader_epoch=8))
    endpoints = [FetchResponse.NodeEndpoint(node_id=3, host="h", port=9092)]
    found = fetched((A0, moved), (A1, closer), node_endpoints=endpoints)
    assert found.leaders == [NamedLeader(A0, "h:9092", 8)]
    assert [data.preferred_replica for data in found.partitions.values()] == [None, 2]


def test_a_leader_whose_address_is_missing_is_not_named() -> None:
    moved = Data(error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER), current_leader=Leader(leader_id=3, leader_epoch=8))
    assert fetched((A0, moved)).leaders == []


def test_records_stay_in_their_response_if_they_are_at_least_half_of_it() -> None:
    """Fewer would keep the whole response in memory for as long as a consumer keeps them."""
    large, small = bytes(1000), b"x" * 700
    found = fetched((A0, Data(records=large)), (A1, Data(records=small))).partitions
    assert isinstance(found[A0].records, memoryview)
    assert found[A0].records == large
    assert isinstance(found[A1].records, bytes)
    assert found[A1].records == small


# ---- the session -----------------------------------------------------------------------------------------------------


def test_the_next_fetch_of_a_session_has_its_next_epoch_and_what_has_changed() -> None:
    session = BrokerSession()
    waiting = PartitionId(B, 2)
    first = asked_for(*((at, 5) for at in (A0, A1, A2, B0, B1, waiting)), broker_session=session)
    sent(first, NEWEST)
    assert session.is_beginning, "its id comes with the response"
    answered = [
        (A0, Data(records=b"records")),
        (A1, Data(records=b"records")),
        (waiting, Data()),
        (B0, Data(error_code=1)),
        (B1, Data(preferred_read_replica=2)),
    ]
    assert meaning(first, response_of(answered, session_id=6), NEWEST).in_session
    second = asked_for((A0, 9), number=2, forgotten=[A2], broker_session=session)
    message = sent(second, NEWEST)
    assert (message.session_id, message.session_epoch, requested(message)) == (6, 1, [(A, 0, 9)])
    forgotten = [(topic.topic_id, list(topic.partitions)) for topic in message.forgotten_topics_data]
    assert forgotten == [(A, [1, 2]), (B, [0, 1])], "the broker still counts them as requested"


@pytest.mark.parametrize("version", [7, 12])
def test_a_session_knows_its_topics_by_name_in_an_old_version(version: int) -> None:
    session, names = BrokerSession(), known()

    def exchanged(asked: Exchange[Fetched], *parts: tuple[PartitionId, Data]) -> tuple[Any, Fetched]:
        message = sent(asked, version)
        return message, meaning(asked, response_of(parts, session_id=6), version)

    exchanged(asked_for((A0, 5), broker_session=session, names=names))
    _, found = exchanged(asked_for(number=2, broker_session=session, names=names), (A0, Data(records=b"records")))
    assert list(found.partitions) == [A0]
    message, _ = exchanged(asked_for(number=3, broker_session=session, names=names))
    assert [(topic.topic, list(topic.partitions)) for topic in message.forgotten_topics_data] == [("a", [0])]
    exchanged(asked_for((B0, 5), session=2, broker_session=session, names=names))
    assert session.topic_ids == {"b": B}


def test_a_topic_by_name_that_was_not_requested_is_left_out() -> None:
    session, names = BrokerSession(), known()
    asked = asked_for((A0, 5), broker_session=session, names=names)
    sent(asked, 12)
    found = meaning(
        asked, response_of([(A0, Data(records=b"records")), (B0, Data(records=b"others"))], session_id=6), 12
    )
    assert list(found.partitions) == [A0]


def test_a_session_that_is_over_is_no_error_but_a_response_without_one() -> None:
    session = BrokerSession()
    first, second = asked_for((A0, 5), broker_session=session), asked_for((A0, 6), number=2, broker_session=session)
    sent(first, NEWEST)
    meaning(first, response_of(session_id=6), NEWEST)
    sent(second, NEWEST)
    over = response_of(error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert meaning(second, over, NEWEST) == Fetched({}, [], in_session=False)


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_ID])
def test_an_error_of_the_first_fetch_is_raised(code: ErrorCode) -> None:
    """A broker may refuse each session. If that were no error, the client would try for ever, without a pause."""
    with pytest.raises(OttlaError) as caught:
        fetched(error_code=int(code))
    assert caught.value.code == code


def test_a_fetch_without_a_session_stands_alone() -> None:
    session = BrokerSession()
    alone = asked_for((A0, 5), session=0, broker_session=session)
    message = sent(alone, NEWEST)
    assert (message.session_id, message.session_epoch) == (0, -1)
    assert not meaning(alone, response_of([(A0, Data(records=b"records"))], session_id=6), NEWEST).in_session
    assert not session.may_exist
