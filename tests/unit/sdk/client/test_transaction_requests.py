"""What a transactional producer asks the coordinator of its id, in every version that the clients know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from exchanged import meaning, sent

from ottla.client import prepared_transactions
from ottla.client import transaction_requests as requests
from ottla.client.committed_offsets import Transaction, commit_in_transaction
from ottla.client.kafka.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    METADATA,
    OTTLA_CALL,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    AnyApi,
)
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.topic_names import TopicNames
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.membership import MemberIdentity
from ottla.machines.transaction import Assigned, ProducerEpoch
from ottla.producer.produce import exchange_of
from ottla_core.kafka import codec
from ottla_core.kafka.messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
)
from ottla_core.kafka.private_messages import OttlaCallResponse
from ottla_core.model import TopicPartition
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_proto import txn_pb2 as pb
from ottla_proto.contracts import Method, Txn

PRODUCER = ProducerEpoch(2**40, 7)
NEXT = ProducerEpoch(2**40, 8)
A0, B0, B1 = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 1)
FENCED = int(ErrorCode.PRODUCER_FENCED)
DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
NOT_ATTEMPTED = int(ErrorCode.OPERATION_NOT_ATTEMPTED)


# ---- the epoch -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", INIT_PRODUCER_ID.versions)
def test_a_producer_names_its_id_and_timeout_and_also_its_epoch_if_it_has_one(version: int) -> None:
    first = sent(requests.initialization("tx", 60_000), version)
    assert (first.transactional_id, first.transaction_timeout_ms) == ("tx", 60_000)
    assert (first.producer_id, first.producer_epoch) == (-1, -1)
    asked = requests.initialization("tx", 60_000, PRODUCER)
    if version < 3:
        with pytest.raises(OttlaError, match=r"2\.5") as caught:
            sent(asked, version)
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    else:
        again = sent(asked, version)
        assert (again.transactional_id, again.producer_id, again.producer_epoch) == ("tx", 2**40, 7)
        assert again.transaction_timeout_ms == 60_000


@pytest.mark.parametrize("version", INIT_PRODUCER_ID.versions)
@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"transaction.version": 2}, TRANSACTIONS_V2),
        ({"transaction.version": 1}, TRANSACTIONS_V1),
        ({}, TRANSACTIONS_V1),
    ],
)
def test_a_producer_gets_an_epoch_and_the_version_of_its_clusters_transactions(
    version: int, features: Mapping[str, int], expected: int
) -> None:
    body = codec.encode(InitProducerIdResponse(producer_id=2**40, producer_epoch=7), version)
    response = codec.decode(InitProducerIdResponse, body, version)
    found = requests.initialization("tx", 60_000).result(response, "b0:1", features)
    assert found == Assigned(PRODUCER, expected)


@pytest.mark.parametrize(("code", "expected"), [(51, 51), (90, 90), (47, FENCED), (120, 120), (67, 67), (16, 16)])
def test_coordinators_errors_are_passed_on_and_an_old_epoch_means_another_producer(code: int, expected: int) -> None:
    def error_of(asked: Exchange[Any], response: Any) -> OttlaError:
        with pytest.raises(OttlaError) as caught:
            meaning(asked, response, asked.api.versions[-1])
        return caught.value

    init = error_of(requests.initialization("tx", 1), InitProducerIdResponse(error_code=code, error_message="why"))
    assert (init.code, init.message) == (expected, "why")
    end = requests.end("tx", Assigned(PRODUCER), committed=True)
    ended = error_of(end, EndTxnResponse(error_code=code, error_message="why"))
    assert (ended.code, ended.message) == (expected, "why")
    added = error_of(requests.addition_of_offsets("tx", PRODUCER, "g"), AddOffsetsToTxnResponse(error_code=code))
    assert added.code == expected


# ---- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", END_TXN.versions)
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_has_the_decision_and_its_response_the_next_epoch_from_version_5_on(
    version: int, committed: bool
) -> None:
    asked = requests.end("tx", Assigned(PRODUCER), committed=committed)
    request = sent(asked, version)
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("tx", 2**40, 7)
    assert request.committed is committed
    response = EndTxnResponse(producer_id=2**40, producer_epoch=8) if version >= 5 else EndTxnResponse()
    assert meaning(asked, response, version) == (Assigned(NEXT) if version >= 5 else None)


@pytest.mark.parametrize("version", [0, TRANSACTIONS_V2])
def test_the_next_transaction_has_the_version_of_the_one_that_ends(version: int) -> None:
    asked = requests.end("tx", Assigned(PRODUCER, version), committed=True)
    assert meaning(asked, EndTxnResponse(producer_id=2**40, producer_epoch=8), 5) == Assigned(NEXT, version)


def test_an_end_without_a_next_epoch_has_none_in_version_5_either() -> None:
    assert meaning(requests.end("tx", Assigned(PRODUCER), committed=True), EndTxnResponse(), 5) is None


# ---- what a transaction of version 1 adds ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", ADD_PARTITIONS_TO_TXN.versions)
def test_partitions_are_added_by_topic(version: int) -> None:
    request = sent(requests.addition_of_partitions("tx", PRODUCER, [B1, A0, B0]), version)
    assert request.v3_and_below_transactional_id == "tx"
    assert (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch) == (2**40, 7)
    assert {topic.name: list(topic.partitions) for topic in request.v3_and_below_topics} == {"b": [1, 0], "a": [0]}


def partitions_added(codes: Mapping[TopicPartition, int]) -> AddPartitionsToTxnResponse:
    of_topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    of_partition = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            of_topic(
                name=at.topic,
                results_by_partition=[of_partition(partition_index=at.partition, partition_error_code=code)],
            )
            for at, code in codes.items()
        ]
    )


@pytest.mark.parametrize("version", ADD_PARTITIONS_TO_TXN.versions)
@pytest.mark.parametrize(
    ("codes", "expected", "about"),
    [
        ({A0: NOT_ATTEMPTED, B1: NOT_ATTEMPTED, B0: DENIED}, DENIED, B0),
        ({A0: NOT_ATTEMPTED, B1: NOT_ATTEMPTED, B0: 3}, 3, None),
        ({A0: NOT_ATTEMPTED, B1: 47}, FENCED, None),
        ({A0: 51, B1: 51, B0: 51}, 51, None),
        ({A0: NOT_ATTEMPTED, B1: NOT_ATTEMPTED, B0: NOT_ATTEMPTED}, NOT_ATTEMPTED, None),
        ({A0: 0, B1: 0}, ErrorCode.NETWORK_EXCEPTION, None),
    ],
    ids=["denied", "unknown topic", "old epoch", "busy", "none attempted", "one left out"],
)
def test_the_error_of_the_partition_that_prevented_the_addition_is_raised(
    version: int, codes: Mapping[TopicPartition, int], expected: int, about: TopicPartition | None
) -> None:
    with pytest.raises(OttlaError) as caught:
        meaning(requests.addition_of_partitions("tx", PRODUCER, [B1, A0, B0]), partitions_added(codes), version)
    assert (caught.value.code, caught.value.about) == (expected, about)


@pytest.mark.parametrize("version", ADD_PARTITIONS_TO_TXN.versions)
def test_partitions_without_errors_are_added(version: int) -> None:
    added = partitions_added({A0: 0, B0: 0, B1: 0})
    asked: Exchange[Any] = requests.addition_of_partitions("tx", PRODUCER, [B1, A0, B0])
    assert meaning(asked, added, version) is None


@pytest.mark.parametrize("version", ADD_OFFSETS_TO_TXN.versions)
def test_the_offsets_of_a_group_are_added(version: int) -> None:
    asked: Exchange[Any] = requests.addition_of_offsets("tx", PRODUCER, "g")
    request = sent(asked, version)
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("tx", 2**40, 7)
    assert request.group_id == "g"
    assert meaning(asked, AddOffsetsToTxnResponse(), version) is None


# ---- the version of transactions -------------------------------------------------------------------------------------


def apis_of(version: int) -> Sequence[AnyApi]:
    """The APIs of a producer's requests in a transaction of one version."""
    current, names = Assigned(PRODUCER, version), TopicNames()
    produce = exchange_of([], names, acks=-1, transactional_id="tx", transaction_version=version)
    end = requests.end("tx", current, committed=True)
    commit = commit_in_transaction("g", MemberIdentity(), {}, names, Transaction("tx", current))
    return [produce.api, end.api, commit.api]


def test_a_request_in_a_transaction_of_version_1_lacks_the_versions_that_mean_2() -> None:
    apis = apis_of(TRANSACTIONS_V1)
    assert [(api.versions[0], api.versions[-1]) for api in apis] == [(3, 11), (0, 4), (3, 4)]


@pytest.mark.parametrize("version", [0, TRANSACTIONS_V2])
def test_any_other_request_has_every_version(version: int) -> None:
    assert apis_of(version) == [PRODUCE, END_TXN, TXN_OFFSET_COMMIT]
    assert requests.suited(METADATA, TRANSACTIONS_V1) == METADATA


# ---- what only ottla has ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "method"),
    [(prepared_transactions.preparation, Txn.PREPARE), (prepared_transactions.forgetting, Txn.FORGET)],
    ids=["prepare", "forget"],
)
def test_what_only_ottla_has_goes_through_the_private_api(
    asks: Callable[[str, ProducerEpoch], Exchange[Any]], method: Method[Any, Any]
) -> None:
    asked = asks("tx", PRODUCER)
    assert asked.api.key == OTTLA_CALL.key
    call = sent(asked, 0)
    assert call.method == method.path
    request: pb.PrepareRequest | pb.ForgetRequest = method.request.FromString(bytes(call.body))
    assert (request.transactional_id, request.producer.id, request.producer.epoch) == ("tx", 2**40, 7)
    assert meaning(asked, OttlaCallResponse(), 0) is None
    open_still = method.response(error={"code": ErrorCode.INVALID_TXN_STATE, "message": "it is open"})
    with pytest.raises(OttlaError, match="it is open") as caught:
        meaning(asked, OttlaCallResponse(body=open_still.SerializeToString()), 0)
    assert caught.value.code == ErrorCode.INVALID_TXN_STATE
