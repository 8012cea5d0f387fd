"""Transactions in Kafka's messages, in every version that the clients know."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.kafka.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    METADATA,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
    AnyApi,
)
from ottla.client.kafka.translations.private import PrivateTranslation
from ottla.client.kafka.translations.producers import DescribeProducersTranslation, WriteTxnMarkersTranslation
from ottla.client.kafka.translations.table import translation_of
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.client.kafka.translations.transaction_listings import (
    DescribeTransactionsTranslation,
    ListTransactionsTranslation,
)
from ottla.client.kafka.translations.transaction_offsets import TransactionOffsetsTranslation
from ottla.client.kafka.translations.transaction_version import api_for
from ottla.client.kafka.translations.transactions import (
    AddOffsetsTranslation,
    AddPartitionsTranslation,
    EndTxnTranslation,
    InitProducerTranslation,
)
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    ListTransactionsResponse,
    TxnOffsetCommitResponse,
    WriteTxnMarkersResponse,
)
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_proto import broker_pb2, client_pb2, group_pb2
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import TxnMarker, TxnProducer
from ottla_proto.contracts import Group, Txn

ID_A, ID_B = b"a" * 16, b"b" * 16
PRODUCER = TxnProducer(id=2**40, epoch=7)
V2 = {"transaction.version": 2}


def terms(version: int, features: dict[str, int] | None = None) -> Terms:
    names = TopicNames()
    names.learn(ID_A, "a")
    names.learn(ID_B, "b")
    return Terms(version, 1500, names, features or {})


def over_the_wire(api: AnyApi, message: Message, version: int) -> Any:
    kind = api.request if type(message) is api.request else api.response
    return codec.decode(kind, codec.encode(message, version), version)


# ---- the calls of a producer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", INIT_PRODUCER_ID.versions)
def test_a_producer_names_its_id_and_timeout_and_also_its_epoch_if_it_has_one(version: int) -> None:
    def sent(request: pb.InitProducerRequest) -> Any:
        message = InitProducerTranslation().request(request, terms(version))
        return over_the_wire(INIT_PRODUCER_ID, message, version)

    first = sent(pb.InitProducerRequest(transactional_id="tx", timeout_ms=60_000))
    assert (first.transactional_id, first.transaction_timeout_ms) == ("tx", 60_000)
    assert (first.producer_id, first.producer_epoch) == (-1, -1)
    request = pb.InitProducerRequest(transactional_id="tx", timeout_ms=60_000, producer=PRODUCER)
    if version < 3:
        with pytest.raises(OttlaError, match=r"2\.5") as caught:
            sent(request)
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    else:
        again = sent(request)
        assert (again.transactional_id, again.producer_id, again.producer_epoch) == ("tx", 2**40, 7)
        assert again.transaction_timeout_ms == 60_000


@pytest.mark.parametrize(
    "asked", [pb.InitProducerRequest(two_phase_commit=True), pb.InitProducerRequest(keep_prepared=True)]
)
def test_two_phase_commit_can_not_be_asked_for(asked: pb.InitProducerRequest) -> None:
    with pytest.raises(OttlaError) as caught:
        InitProducerTranslation().request(asked, terms(5))
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", INIT_PRODUCER_ID.versions)
@pytest.mark.parametrize(
    ("features", "expected"),
    [(V2, TRANSACTIONS_V2), ({"transaction.version": 1}, TRANSACTIONS_V1), ({}, TRANSACTIONS_V1)],
)
def test_a_producer_gets_an_epoch_and_the_version_of_its_clusters_transactions(
    version: int, features: dict[str, int], expected: int
) -> None:
    response = over_the_wire(INIT_PRODUCER_ID, InitProducerIdResponse(producer_id=2**40, producer_epoch=7), version)
    found = InitProducerTranslation().response(response, terms(version, features))
    assert (found.producer, found.transaction_version, found.error.code) == (PRODUCER, expected, 0)


@pytest.mark.parametrize(("code", "expected"), [(51, 51), (90, 90), (47, 90), (120, 120), (67, 67), (16, 16)])
def test_coordinators_errors_are_passed_on_and_an_old_epoch_means_another_producer(code: int, expected: int) -> None:
    init = InitProducerTranslation().response(InitProducerIdResponse(error_code=code), terms(5, V2))
    end = EndTxnTranslation().response(EndTxnResponse(error_code=code), terms(5))
    assert (init.error.code, init.HasField("producer")) == (expected, False)
    assert (end.error.code, end.HasField("producer")) == (expected, False)
    assert AddOffsetsTranslation().response(AddOffsetsToTxnResponse(error_code=code), terms(4)).error.code == expected
    # A group's coordinator knows epochs only from the log, as a leader does. So it can't say who has raised one.
    partition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(error_code=code)
    topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(name="a", partitions=[partition])
    committed = TransactionOffsetsTranslation(group_pb2.CommitOffsetsRequest()).response(
        TxnOffsetCommitResponse(topics=[topic]), terms(5)
    )
    assert [each.error.code for each in committed.partitions] == [code]


@pytest.mark.parametrize("version", END_TXN.versions)
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_has_the_decision_and_its_response_the_next_epoch_from_version_5_on(
    version: int, committed: bool
) -> None:
    request = pb.EndTxnRequest(transactional_id="tx", producer=PRODUCER, committed=committed)
    sent = over_the_wire(END_TXN, EndTxnTranslation().request(request, terms(version)), version)
    assert (sent.transactional_id, sent.producer_id, sent.producer_epoch) == ("tx", 2**40, 7)
    assert sent.committed is committed
    given = EndTxnResponse(producer_id=2**40, producer_epoch=8) if version >= 5 else EndTxnResponse()
    ended = EndTxnTranslation().response(over_the_wire(END_TXN, given, version), terms(version))
    assert ended.error.code == 0
    assert ended.HasField("producer") is (version >= 5)
    if version >= 5:
        assert (ended.producer.id, ended.producer.epoch) == (2**40, 8)


def test_an_end_without_a_next_epoch_has_none_in_version_5_either() -> None:
    assert not EndTxnTranslation().response(EndTxnResponse(), terms(5)).HasField("producer")


@pytest.mark.parametrize("version", ADD_PARTITIONS_TO_TXN.versions)
def test_partitions_are_added_by_topic_and_answered_in_the_order_of_the_request(version: int) -> None:
    partitions = [pb.TxnPartition(topic=topic, partition=number) for topic, number in (("b", 1), ("a", 0), ("b", 0))]
    addition = pb.PartitionsToAdd(transactional_id="tx", producer=PRODUCER, partitions=partitions)
    translation = AddPartitionsTranslation()
    message = translation.request(pb.AddPartitionsRequest(transactions=[addition]), terms(version))
    sent = over_the_wire(ADD_PARTITIONS_TO_TXN, message, version)
    assert sent.v3_and_below_transactional_id == "tx"
    assert (sent.v3_and_below_producer_id, sent.v3_and_below_producer_epoch) == (2**40, 7)
    assert {topic.name: list(topic.partitions) for topic in sent.v3_and_below_topics} == {"b": [1, 0], "a": [0]}

    def topic(name: str, **codes: int) -> AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult:
        of_partition = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
        results = [of_partition(partition_index=int(n[1:]), partition_error_code=code) for n, code in codes.items()]
        return AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name=name, results_by_partition=results)

    response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic("a", p0=55), topic("b", p1=47)])
    (added,) = translation.response(
        over_the_wire(ADD_PARTITIONS_TO_TXN, response, version), terms(version)
    ).transactions
    assert [error.code for error in added.partitions] == [90, 55, ErrorCode.UNKNOWN_SERVER_ERROR]


@pytest.mark.parametrize("version", ADD_OFFSETS_TO_TXN.versions)
def test_the_offsets_of_a_group_are_added(version: int) -> None:
    request = pb.AddOffsetsRequest(transactional_id="tx", producer=PRODUCER, group="g")
    sent = over_the_wire(ADD_OFFSETS_TO_TXN, AddOffsetsTranslation().request(request, terms(version)), version)
    assert (sent.transactional_id, sent.producer_id, sent.producer_epoch, sent.group_id) == ("tx", 2**40, 7, "g")
    response = over_the_wire(ADD_OFFSETS_TO_TXN, AddOffsetsToTxnResponse(), version)
    assert AddOffsetsTranslation().response(response, terms(version)).error.code == 0


@pytest.mark.parametrize("version", TXN_OFFSET_COMMIT.versions)
@pytest.mark.parametrize("instance_id", [None, "me"])
def test_offsets_in_a_transaction_name_producer_group_and_member(version: int, instance_id: str | None) -> None:
    request = group_pb2.CommitOffsetsRequest(
        group="g",
        generation=4,
        member=group_pb2.Member(member_id="m", instance_id=instance_id),
        transaction=group_pb2.OffsetsTransaction(transactional_id="tx", producer=PRODUCER),
        offsets=[
            group_pb2.OffsetToCommit(topic="b", topic_id=ID_B, partition=1, offset=5, leader_epoch=0, metadata="x"),
            group_pb2.OffsetToCommit(topic="a", topic_id=ID_A, partition=0, offset=6),
            group_pb2.OffsetToCommit(topic="b", topic_id=ID_B, partition=0, offset=7),
        ],
    )
    translation = translation_of(Group.COMMIT_OFFSETS, request, TopicNames())
    assert translation.api is TXN_OFFSET_COMMIT
    sent = over_the_wire(TXN_OFFSET_COMMIT, translation.request(request, terms(version)), version)
    a, b = (ID_A, ID_B) if version >= 6 else ("a", "b")
    assert (sent.transactional_id, sent.group_id, sent.producer_id, sent.producer_epoch) == ("tx", "g", 2**40, 7)
    member = sent.member_id, sent.generation_id_or_member_epoch, sent.group_instance_id
    assert member == ("m", 4, instance_id)
    assert {
        (topic.topic_id if version >= 6 else topic.name, p.partition_index): (
            *(p.committed_offset, p.committed_leader_epoch, p.committed_metadata),
        )
        for topic in sent.topics
        for p in topic.partitions
    } == {(b, 1): (5, 0, "x"), (a, 0): (6, -1, ""), (b, 0): (7, -1, "")}
    of_partition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
    topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
        name="" if version >= 6 else "b",
        topic_id=ID_B if version >= 6 else bytes(16),
        partitions=[of_partition(partition_index=1), of_partition(partition_index=0, error_code=22)],
    )
    response = over_the_wire(TXN_OFFSET_COMMIT, TxnOffsetCommitResponse(topics=[topic]), version)
    found: Any = translation.response(response, terms(version))
    assert [(p.topic, p.partition, p.error.code) for p in found.partitions] == [("b", 1, 0), ("b", 0, 22)]


# ---- the version of transactions -------------------------------------------------------------------------------------


def in_version(version: int) -> list[tuple[AnyApi, Any]]:
    of_offsets = group_pb2.OffsetsTransaction(transaction_version=version)
    return [
        (PRODUCE, client_pb2.ProduceRequest(transaction_version=version)),
        (END_TXN, pb.EndTxnRequest(transaction_version=version)),
        (TXN_OFFSET_COMMIT, group_pb2.CommitOffsetsRequest(transaction=of_offsets)),
    ]


def test_a_request_in_a_transaction_of_version_1_goes_without_the_versions_that_mean_2() -> None:
    assert [api_for(api, request).versions[-1] for api, request in in_version(TRANSACTIONS_V1)] == [11, 4, 4]
    assert [api_for(api, request).versions[0] for api, request in in_version(TRANSACTIONS_V1)] == [3, 0, 3]


@pytest.mark.parametrize("version", [0, TRANSACTIONS_V2])
def test_any_other_request_goes_in_every_version(version: int) -> None:
    assert [api_for(api, request) for api, request in in_version(version)] == [PRODUCE, END_TXN, TXN_OFFSET_COMMIT]
    assert api_for(METADATA, client_pb2.MetadataRequest()) is METADATA


def test_offsets_are_named_by_topic_ids_if_all_ids_are_known() -> None:
    request = group_pb2.CommitOffsetsRequest(transaction=group_pb2.OffsetsTransaction())
    request.offsets.add(topic="a", topic_id=ID_A)
    assert TransactionOffsetsTranslation(request).api.versions[-1] == 6
    request.offsets.add(topic="b")
    assert TransactionOffsetsTranslation(request).api.versions[-1] == 5


# ---- an operator's calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", LIST_TRANSACTIONS.versions)
def test_transactions_are_listed_by_state_producer_and_prefix(version: int) -> None:
    request = pb.ListTransactionsRequest(states=["Ongoing"], producer_ids=[5], prefix="or")
    translation = ListTransactionsTranslation()
    sent = over_the_wire(LIST_TRANSACTIONS, translation.request(request, terms(version)), version)
    assert (list(sent.state_filters), list(sent.producer_id_filters)) == (["Ongoing"], [5])
    assert (sent.duration_filter, sent.transactional_id_pattern) == (-1, None)
    state = ListTransactionsResponse.TransactionState
    response = ListTransactionsResponse(
        unknown_state_filters=["Gone"],
        transaction_states=[
            state(transactional_id="orders", producer_id=5, transaction_state="Ongoing"),
            state(transactional_id="other", producer_id=5, transaction_state="Ongoing"),
        ],
    )
    found = translation.response(over_the_wire(LIST_TRANSACTIONS, response, version), terms(version))
    assert list(found.unknown_states) == ["Gone"]
    listed = [(each.transactional_id, each.producer_id, each.state) for each in found.transactions]
    assert listed == [("orders", 5, "Ongoing")]
    assert {(each.shard, each.coordinator) for each in found.transactions} == {(-1, -1)}
    assert translation.response(ListTransactionsResponse(error_code=14), terms(version)).error.code == 14


@pytest.mark.parametrize("version", LIST_TRANSACTIONS.versions)
@pytest.mark.parametrize(
    ("field", "value", "served_from"), [("longer_than_ms", 500, 1), ("pattern", "or.*", 2)], ids=["duration", "pattern"]
)
def test_what_a_broker_can_not_look_for_is_an_error(version: int, field: str, value: Any, served_from: int) -> None:
    request = pb.ListTransactionsRequest(**{field: value})
    if version < served_from:
        with pytest.raises(OttlaError) as caught:
            ListTransactionsTranslation().request(request, terms(version))
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
        return
    sent = over_the_wire(LIST_TRANSACTIONS, ListTransactionsTranslation().request(request, terms(version)), version)
    assert value in (sent.duration_filter, sent.transactional_id_pattern)


def test_transactions_are_described() -> None:
    translation = DescribeTransactionsTranslation()
    request = translation.request(pb.DescribeTransactionsRequest(transactional_ids=["x", "y"]), terms(0))
    assert list(over_the_wire(DESCRIBE_TRANSACTIONS, request, 0).transactional_ids) == ["x", "y"]
    topic = DescribeTransactionsResponse.TopicData(topic="a", partitions=[0, 2])
    state = DescribeTransactionsResponse.TransactionState
    response = DescribeTransactionsResponse(
        transaction_states=[
            state(
                transactional_id="x",
                transaction_state="Ongoing",
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=123,
                producer_id=2**40,
                producer_epoch=7,
                topics=[topic],
            ),
            state(transactional_id="y", error_code=105),
        ]
    )
    first, second = translation.response(over_the_wire(DESCRIBE_TRANSACTIONS, response, 0), terms(0)).transactions
    assert (first.transactional_id, first.state, first.producer, first.timeout_ms) == ("x", "Ongoing", PRODUCER, 60_000)
    assert (first.started_at_ms, first.updated_at_ms, first.shard, first.coordinator) == (123, -1, -1, -1)
    assert [(p.topic, p.partition) for p in first.partitions] == [("a", 0), ("a", 2)]
    assert (second.transactional_id, second.error.code) == ("y", 105)


@pytest.mark.parametrize("open_only", [True, False])
def test_producers_are_described_in_the_order_of_the_request(open_only: bool) -> None:
    partitions = [
        broker_pb2.PartitionOfLog(topic_id=topic, partition=n) for topic, n in ((ID_B, 1), (ID_A, 0), (ID_B, 0))
    ]
    translation = DescribeProducersTranslation()
    message = translation.request(
        client_pb2.DescribeProducersRequest(partitions=partitions, open_only=open_only), terms(0)
    )
    sent = over_the_wire(DESCRIBE_PRODUCERS, message, 0)
    assert {topic.name: list(topic.partition_indexes) for topic in sent.topics} == {"b": [1, 0], "a": [0]}
    of_partition, state = DescribeProducersResponse.PartitionResponse, DescribeProducersResponse.ProducerState
    idle = state(producer_id=4, producer_epoch=1, last_sequence=8, last_timestamp=99, coordinator_epoch=-1)
    busy = state(producer_id=5, producer_epoch=2, coordinator_epoch=6, current_txn_start_offset=0)
    response = DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name="a", partitions=[of_partition(error_code=6, error_message="not the leader")]
            ),
            DescribeProducersResponse.TopicResponse(
                name="b", partitions=[of_partition(partition_index=1, active_producers=[idle, busy])]
            ),
        ]
    )
    found, failed, lost = translation.response(over_the_wire(DESCRIBE_PRODUCERS, response, 0), terms(0)).partitions
    assert (found.high_watermark, found.last_stable_offset, found.error.code) == (-1, -1, 0)
    assert [
        (p.producer.id, p.producer.epoch, p.last_sequence, p.last_timestamp_ms, p.coordinator_epoch, p.first_offset)
        for p in found.producers
    ] == [(4, 1, 8, 99, -1, -1), (5, 2, -1, -1, 6, 0)][open_only:]
    assert (failed.error.code, failed.error.message) == (6, "not the leader")
    assert lost.error.code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", WRITE_TXN_MARKERS.versions)
def test_markers_are_written_and_answered_in_the_order_of_the_request(version: int) -> None:
    logs = [
        broker_pb2.PartitionOfLog(topic_id=ID_B, partition=1),
        broker_pb2.PartitionOfLog(topic_id=ID_A, partition=0),
    ]
    marker = TxnMarker(producer=PRODUCER, committed=True, coordinator_epoch=3, transaction_version=version - 1)
    translation = WriteTxnMarkersTranslation()
    request = broker_pb2.WriteTxnMarkersRequest(
        markers=[broker_pb2.PartitionsMarker(marker=marker, partitions=logs)], timeout_ms=5
    )
    (sent,) = over_the_wire(WRITE_TXN_MARKERS, translation.request(request, terms(version)), version).markers
    assert (sent.producer_id, sent.producer_epoch, sent.transaction_result) == (2**40, 7, True)
    assert (sent.coordinator_epoch, sent.transaction_version) == (3, version - 1)
    assert {topic.name: list(topic.partition_indexes) for topic in sent.topics} == {"b": [1], "a": [0]}
    of_topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
    of_partition = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult
    result = WriteTxnMarkersResponse.WritableTxnMarkerResult(
        producer_id=2**40, topics=[of_topic(name="a", partitions=[of_partition(partition_index=0, error_code=6)])]
    )
    response = over_the_wire(WRITE_TXN_MARKERS, WriteTxnMarkersResponse(markers=[result]), version)
    (written,) = translation.response(response, terms(version)).markers
    assert [error.code for error in written.partitions] == [ErrorCode.UNKNOWN_SERVER_ERROR, 6]


@pytest.mark.parametrize("method", [Txn.PREPARE, Txn.FORGET])
def test_what_only_ottla_has_goes_by_the_private_api(method: Any) -> None:
    assert isinstance(translation_of(method, method.request(), TopicNames()), PrivateTranslation)
