"""The request that sends batches, and what its response means."""

from __future__ import annotations

from typing import Any

import pytest
from exchanged import TIMEOUT_MS, meaning, sent

from ottla.client.kafka.apis import PRODUCE
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.named_leaders import NamedLeader
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.batches import BatchResponse
from ottla.producer.produce import ProduceResult, exchange_of
from ottla_core.kafka.messages import ProduceResponse
from ottla_core.model import PartitionId, TopicId
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2

ID_A, ID_B = TopicId(b"a" * 16), TopicId(b"b" * 16)
A0, A1, A2, B0 = (PartitionId(ID_A, 0), PartitionId(ID_A, 1), PartitionId(ID_A, 2), PartitionId(ID_B, 0))
IDS_FROM, LEADERS_FROM, WORDS_FROM = 13, 10, 8

Partition = ProduceResponse.PartitionProduceResponse
Leader = ProduceResponse.LeaderIdAndEpoch


def known() -> TopicNames:
    names = TopicNames()
    names.learn(ID_A, "a")
    names.learn(ID_B, "b")
    return names


def produce(
    *batches: tuple[PartitionId, bytes],
    names: TopicNames | None = None,
    transactional_id: str | None = None,
    transaction_version: int = TRANSACTIONS_V2,
) -> Exchange[ProduceResult]:
    return exchange_of(
        batches or [(A0, b"")],
        known() if names is None else names,
        acks=-1,
        transactional_id=transactional_id,
        transaction_version=transaction_version,
    )


def response_of(version: int, *partitions: Partition, name: str = "a", **fields: Any) -> ProduceResponse:
    is_by_id = version >= IDS_FROM
    topic = ProduceResponse.TopicProduceResponse(
        name="" if is_by_id else name,
        topic_id=name.encode() * 16 if is_by_id else bytes(16),
        partition_responses=partitions,
    )
    return ProduceResponse(responses=[topic], **fields)


@pytest.mark.parametrize("transactional_id", [None, "tx"])
@pytest.mark.parametrize("version", PRODUCE.versions)
def test_produce_has_each_topic_once_and_names_it_as_the_version_does(
    version: int, transactional_id: str | None
) -> None:
    asked = produce((A0, b"0"), (B0, b"0"), (A2, b"2"), transactional_id=transactional_id)
    request = sent(asked, version)
    assert (request.acks, request.timeout_ms, request.transactional_id) == (-1, TIMEOUT_MS, transactional_id)
    is_by_id = version >= IDS_FROM
    named = {topic.topic_id if is_by_id else topic.name: topic.partition_data for topic in request.topic_data}
    assert list(named) == ([ID_A, ID_B] if is_by_id else ["a", "b"])
    assert [[(part.index, bytes(part.records)) for part in parts] for parts in named.values()] == [
        [(0, b"0"), (2, b"2")],
        [(0, b"0")],
    ]
    assert asked.size_bytes == 3


@pytest.mark.parametrize(
    ("transaction_version", "last"), [(TRANSACTIONS_V1, 11), (TRANSACTIONS_V2, PRODUCE.versions[-1])]
)
def test_the_version_says_which_transactions_the_producer_has(transaction_version: int, last: int) -> None:
    versions = produce(transaction_version=transaction_version).api.versions
    assert (versions[0], versions[-1]) == (PRODUCE.versions[0], last)


def test_a_topic_whose_name_is_unknown_can_not_be_expressed_in_an_old_version() -> None:
    asked = produce((A0, b"0"), names=TopicNames())
    with pytest.raises(OttlaError) as caught:
        sent(asked, IDS_FROM - 1)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    assert sent(asked, IDS_FROM).topic_data[0].topic_id == ID_A


def test_a_name_that_is_learned_just_before_the_request_is_built_is_used() -> None:
    names = TopicNames()
    asked = produce((A0, b"0"), names=names)
    names.learn(ID_A, "a")
    assert [topic.name for topic in sent(asked, IDS_FROM - 1).topic_data] == ["a"]
    names.forget("a")
    response = response_of(IDS_FROM - 1, Partition(base_offset=5))
    assert meaning(asked, response, IDS_FROM - 1).responses == {A0: BatchResponse(5)}


def test_a_topic_that_was_recreated_while_the_request_waited_gets_nothing() -> None:
    names = known()
    asked = produce((A0, b"0"), names=names)
    names.learn(b"n" * 16, "a")
    with pytest.raises(OttlaError) as caught:
        sent(asked, IDS_FROM - 1)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", PRODUCE.versions)
def test_a_response_to_produce_has_offsets_errors_and_new_leaders(version: int) -> None:
    names_leaders = version >= LEADERS_FROM
    leader = Leader(leader_id=7, leader_epoch=3) if names_leaders else None
    fine = Partition(index=0, base_offset=5, log_append_time_ms=9, log_start_offset=2)
    moved = Partition(index=1, error_code=6, base_offset=-1, error_message="moved" if version >= WORDS_FROM else None)
    for part in (fine, moved):
        part.current_leader = leader
    endpoints = [ProduceResponse.NodeEndpoint(node_id=7, host="h", port=1)] if names_leaders else []
    response = response_of(version, fine, moved, node_endpoints=endpoints)
    asked = produce((A0, b""), (A1, b""))
    sent(asked, version)
    result = meaning(asked, response, version)
    words = "moved" if version >= WORDS_FROM else ""
    assert result.responses == {A0: BatchResponse(5, 9), A1: BatchResponse(-1, -1, 6, words)}
    assert result.leaders == ([NamedLeader(A1, "h:1", 3)] if names_leaders else [])


@pytest.mark.story("produced-to-a-name-that-was-forgotten")
def test_a_response_to_produce_is_of_the_requests_topic_whatever_the_client_knows_by_then() -> None:
    names = known()
    asked = produce((A0, b""), names=names)
    sent(asked, IDS_FROM - 1)
    names.forget("a")
    result = meaning(asked, response_of(IDS_FROM - 1, Partition(base_offset=5)), IDS_FROM - 1)
    assert result.responses == {A0: BatchResponse(5)}


@pytest.mark.parametrize("version", PRODUCE.versions)
def test_a_topic_that_was_not_requested_is_not_taken_for_another(version: int) -> None:
    result = meaning(produce((A0, b"")), response_of(version, Partition(base_offset=5), name="b"), version)
    assert A0 not in result.responses


def test_a_leader_without_an_address_is_left_out() -> None:
    moved = Partition(error_code=6)
    moved.current_leader = Leader(leader_id=7, leader_epoch=3)
    result = meaning(produce((A0, b"")), response_of(IDS_FROM, moved), IDS_FROM)
    assert (result.responses[A0].code, result.leaders) == (6, [])
