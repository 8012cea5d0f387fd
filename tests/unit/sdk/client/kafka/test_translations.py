"""The clients' methods in Kafka's messages, in every version that the clients know."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.kafka.apis import (
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    AnyApi,
)
from ottla.client.kafka.translations.epoch_ends import EpochEndsTranslation
from ottla.client.kafka.translations.list_offsets import ListOffsetsTranslation
from ottla.client.kafka.translations.metadata import MetadataTranslation
from ottla.client.kafka.translations.produce import ProduceTranslation
from ottla.client.kafka.translations.producer_id import ProducerIdTranslation
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    InitProducerIdResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetForLeaderEpochResponse,
    ProduceResponse,
)
from ottla_proto import broker_pb2 as pb
from ottla_proto import client_pb2

ID_A, ID_B = b"a" * 16, b"b" * 16


def terms(version: int, *, known: bool = True) -> Terms:
    names = TopicNames()
    if known:
        names.learn(ID_A, "a")
        names.learn(ID_B, "b")
    return Terms(version, 1500, names)


FLEXIBLE_LIST_OFFSETS = 6
"""From this version on a broker of ottla can add the words of an error."""


def over_the_wire(api: AnyApi, message: Message, version: int) -> Any:
    kind = api.request if type(message) is api.request else api.response
    return codec.decode(kind, codec.encode(message, version, private=True), version)


@pytest.mark.parametrize("version", PRODUCE.versions)
def test_produce_has_each_topic_once_and_names_it_as_the_version_does(version: int) -> None:
    request = client_pb2.ProduceRequest(acks=-1)
    for topic_id, number in ((ID_A, 0), (ID_B, 0), (ID_A, 2)):
        request.partitions.add(topic_id=topic_id, partition=number, records=b"%d" % number)
    sent = over_the_wire(PRODUCE, ProduceTranslation().request(request, terms(version)), version)
    assert (sent.acks, sent.timeout_ms, sent.transactional_id) == (-1, 1500, None)
    named = {topic.topic_id if version >= 13 else topic.name: topic.partition_data for topic in sent.topic_data}
    assert list(named) == ([ID_A, ID_B] if version >= 13 else ["a", "b"])
    assert [[(p.index, bytes(p.records)) for p in parts] for parts in named.values()] == [
        [(0, b"0"), (2, b"2")],
        [(0, b"0")],
    ]


def test_a_topic_whose_name_is_unknown_can_not_be_expressed_in_an_old_version() -> None:
    request = client_pb2.ProduceRequest(acks=1)
    request.partitions.add(topic_id=ID_A)
    with pytest.raises(OttlaError) as caught:
        ProduceTranslation().request(request, terms(12, known=False))
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    assert ProduceTranslation().request(request, terms(13, known=False)).topic_data[0].topic_id == ID_A


@pytest.mark.parametrize("version", PRODUCE.versions)
def test_a_response_to_produce_has_offsets_errors_and_new_leaders(version: int) -> None:
    partition, topic = ProduceResponse.PartitionProduceResponse, ProduceResponse.TopicProduceResponse
    leader = ProduceResponse.LeaderIdAndEpoch(leader_id=7, leader_epoch=3) if version >= 10 else None
    moved = partition(index=1, error_code=6, base_offset=-1, error_message="moved" if version >= 8 else None)
    moved.current_leader = leader
    response = ProduceResponse(
        responses=[
            topic(
                name="" if version >= 13 else "a",
                topic_id=ID_A if version >= 13 else bytes(16),
                partition_responses=[
                    partition(index=0, base_offset=5, log_append_time_ms=9, log_start_offset=2),
                    moved,
                ],
            )
        ],
        node_endpoints=[ProduceResponse.NodeEndpoint(node_id=7, host="h", port=1)] if version >= 10 else [],
    )
    translation = ProduceTranslation()
    translation.request(client_pb2.ProduceRequest(partitions=[{"topic_id": ID_A}]), terms(version))
    fine, failed = translation.response(over_the_wire(PRODUCE, response, version), terms(version)).partitions
    assert (fine.topic_id, fine.partition, fine.base_offset, fine.log_append_time_ms) == (ID_A, 0, 5, 9)
    assert fine.log_start_offset == (2 if version >= 5 else 0)
    assert not fine.HasField("error")
    assert (failed.topic_id, failed.partition, failed.error.code) == (ID_A, 1, 6)
    assert failed.error.message == ("moved" if version >= 8 else "")
    expected = (7, 3, "h:1") if version >= 10 else (0, 0, "")
    assert (
        failed.current_leader.broker_id,
        failed.current_leader.leader_epoch,
        failed.current_leader.address,
    ) == expected


@pytest.mark.story("produced-to-a-name-that-was-forgotten")
def test_a_response_to_produce_is_of_the_requests_topic_whatever_the_client_knows_by_then() -> None:
    translation, known = ProduceTranslation(), terms(12)
    translation.request(client_pb2.ProduceRequest(partitions=[{"topic_id": ID_A}]), known)
    known.names.forget("a")
    partition = ProduceResponse.PartitionProduceResponse(base_offset=5)
    response = ProduceResponse(
        responses=[ProduceResponse.TopicProduceResponse(name="a", partition_responses=[partition])]
    )
    assert [part.topic_id for part in translation.response(response, known).partitions] == [ID_A]


def test_a_leader_without_an_address_is_left_out() -> None:
    partition = ProduceResponse.PartitionProduceResponse(error_code=6)
    partition.current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id=7, leader_epoch=3)
    response = ProduceResponse(
        responses=[ProduceResponse.TopicProduceResponse(topic_id=ID_A, partition_responses=[partition])]
    )
    assert not ProduceTranslation().response(response, terms(13)).partitions[0].HasField("current_leader")


@pytest.mark.parametrize("version", METADATA.versions)
def test_metadata_creates_no_topic_and_tells_all_none_and_some_apart(version: int) -> None:
    def sent(request: client_pb2.MetadataRequest) -> Any:
        return over_the_wire(METADATA, MetadataTranslation().request(request, terms(version)), version)

    assert sent(client_pb2.MetadataRequest(all_topics=True)).topics is None
    assert list(sent(client_pb2.MetadataRequest()).topics) == []
    some = sent(client_pb2.MetadataRequest(topics=["x", "y"]))
    assert [topic.name for topic in some.topics] == ["x", "y"]
    assert some.allow_auto_topic_creation is False


@pytest.mark.parametrize("version", METADATA.versions)
def test_metadata_has_brokers_topics_and_leaders_and_teaches_names(version: int) -> None:
    partition, topic = MetadataResponse.MetadataResponsePartition, MetadataResponse.MetadataResponseTopic
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=9092, rack="r"),
            MetadataResponse.MetadataResponseBroker(node_id=2, host="i", port=9093),
        ],
        cluster_id="c",
        controller_id=2,
        topics=[
            topic(
                name="x",
                topic_id=ID_A,
                is_internal=True,
                partitions=[
                    partition(leader_id=1, leader_epoch=4, replica_nodes=[1, 2], isr_nodes=[1], offline_replicas=[2]),
                    partition(error_code=5, partition_index=1, leader_id=-1, leader_epoch=-1),
                ],
            ),
            topic(name="y", error_code=3),
        ],
    )
    known = terms(version, known=False)
    found = MetadataTranslation().response(over_the_wire(METADATA, response, version), known)
    assert (found.cluster_id, found.controller.id, found.controller.address) == ("c", 2, "i:9093")
    assert [(b.id, b.address, b.rack) for b in found.brokers] == [
        (1, "h:9092", "r"),
        (2, "i:9093", ""),
    ]
    good, missing = found.topics
    assert (good.name, good.topic_id, good.is_internal, good.error.code) == ("x", ID_A, True, 0)
    first, second = good.partitions
    assert (first.leader, first.leader_epoch, list(first.replicas), list(first.isr)) == (1, 4, [1, 2], [1])
    assert list(first.offline_replicas) == [2]
    assert (second.partition, second.leader, second.error.code) == (1, -1, 5)
    assert (missing.name, missing.error.code) == ("y", 3)
    assert (known.names.name_of(ID_A), known.names.id_of("y")) == ("x", bytes(16))
    with pytest.raises(OttlaError):
        known.names.name_of(bytes(16))


@pytest.mark.parametrize("all_topics", [True, False])
@pytest.mark.parametrize("failed", [True, False])
def test_topics_that_are_gone_are_forgotten_once_all_topics_are_listed(all_topics: bool, failed: bool) -> None:
    translation, known = MetadataTranslation(), terms(13)
    translation.request(client_pb2.MetadataRequest(topics=[] if all_topics else ["b"], all_topics=all_topics), known)
    topic = MetadataResponse.MetadataResponseTopic(name="b", topic_id=ID_B)
    translation.response(MetadataResponse(topics=[topic], error_code=-1 if failed else 0), known)
    assert known.names.name_of(ID_B) == "b"
    assert known.names.id_of("a") == (bytes(16) if all_topics and not failed else ID_A)
    if all_topics and not failed:
        with pytest.raises(OttlaError):
            known.names.name_of(ID_A)


@pytest.mark.story("former-topic-that-came-back")
def test_a_broker_that_lags_can_not_bring_a_former_topic_back() -> None:
    known = terms(13)

    def told(topic_id: bytes) -> client_pb2.TopicMetadata:
        partition = MetadataResponse.MetadataResponsePartition(partition_index=0, leader_id=1)
        topic = MetadataResponse.MetadataResponseTopic(name="b", topic_id=topic_id, partitions=[partition])
        return MetadataTranslation().response(MetadataResponse(topics=[topic]), known).topics[0]

    recreated = b"r" * 16
    assert told(recreated).topic_id == recreated
    doubted = told(ID_B)
    assert (doubted.error.code, len(doubted.partitions)) == (ErrorCode.LEADER_NOT_AVAILABLE, 0)
    assert known.names.id_of("b") == recreated


def test_metadata_without_a_known_controller_has_none() -> None:
    found = MetadataTranslation().response(MetadataResponse(controller_id=-1), terms(13))
    assert not found.HasField("controller")


@pytest.mark.parametrize("version", INIT_PRODUCER_ID.versions)
def test_a_producer_id_is_asked_for_without_a_transactional_id(version: int) -> None:
    translation = ProducerIdTranslation()
    request = translation.request(client_pb2.InitProducerIdRequest(), terms(version))
    assert over_the_wire(INIT_PRODUCER_ID, request, version).transactional_id is None
    response = over_the_wire(INIT_PRODUCER_ID, InitProducerIdResponse(producer_id=44), version)
    assert translation.response(response, terms(version)).producer_id == 44
    refused = translation.response(InitProducerIdResponse(error_code=15), terms(version))
    assert (refused.error.code, refused.producer_id) == (15, 0)


@pytest.mark.parametrize("version", LIST_OFFSETS.versions)
def test_offsets_are_looked_up_by_the_topics_name_and_found_by_its_id(version: int) -> None:
    request = pb.ListOffsetsRequest(read_committed=True)
    request.partitions.add(topic_id=ID_A, partition=0, timestamp_ms=-1, current_leader_epoch=3)
    request.partitions.add(topic_id=ID_B, partition=1, timestamp_ms=1700)
    request.partitions.add(topic_id=ID_A, partition=2, timestamp_ms=-2)
    request.partitions.add(topic_id=ID_B, partition=3, timestamp_ms=-4)
    translation = ListOffsetsTranslation()
    sent = over_the_wire(LIST_OFFSETS, translation.request(request, terms(version)), version)
    assert (sent.replica_id, sent.isolation_level) == (-1, 1)
    parts = {topic.name: [(p.partition_index, p.timestamp) for p in topic.partitions] for topic in sent.topics}
    assert parts == {"a": [(0, -1), (2, -2)], "b": [(1, 1700), (3, -4 if version >= 8 else -2)]}
    epochs = [p.current_leader_epoch for topic in sent.topics for p in topic.partitions]
    assert epochs == ([3, -1, -1, -1] if version >= 4 else [-1, -1, -1, -1])
    topics = [
        ListOffsetsResponse.ListOffsetsTopicResponse(
            name=name,
            partitions=[
                ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=number, offset=9, timestamp=5, error_code=code, error_message="moved" * bool(code)
                )
            ],
        )
        for name, number, code in [("a", 0, 0), ("b", 1, 6), ("unasked", 0, 0)]
    ]
    answered = over_the_wire(LIST_OFFSETS, ListOffsetsResponse(topics=topics), version)
    found = translation.response(answered, terms(version, known=False))
    assert [(p.topic_id, p.partition, p.offset, p.timestamp_ms, p.error.code) for p in found.partitions] == [
        (ID_A, 0, 9, 5, 0),
        (ID_B, 1, 9, 5, 6),
    ]
    assert [p.error.message for p in found.partitions] == ["", "moved" if version >= FLEXIBLE_LIST_OFFSETS else ""]


@pytest.mark.parametrize("version", OFFSET_FOR_LEADER_EPOCH.versions)
def test_the_ends_of_epochs_are_looked_up_by_the_topics_name_and_found_by_its_id(version: int) -> None:
    request = client_pb2.OffsetsForLeaderEpochRequest()
    request.partitions.add(topic_id=ID_A, partition=0, leader_epoch=4, current_leader_epoch=5)
    request.partitions.add(topic_id=ID_B, partition=1, leader_epoch=6)
    translation = EpochEndsTranslation()
    sent = over_the_wire(OFFSET_FOR_LEADER_EPOCH, translation.request(request, terms(version)), version)
    parts = {
        topic.topic: [(p.partition, p.leader_epoch, p.current_leader_epoch) for p in topic.partitions]
        for topic in sent.topics
    }
    assert parts == {"a": [(0, 4, 5)], "b": [(1, 6, -1)]}
    assert version < 3 or sent.replica_id == -1
    topics = [
        OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
            topic=name,
            partitions=[
                OffsetForLeaderEpochResponse.EpochEndOffset(
                    partition=number, leader_epoch=4, end_offset=8, error_code=code
                )
            ],
        )
        for name, number, code in [("a", 0, 0), ("b", 1, 6), ("unasked", 0, 0)]
    ]
    answered = over_the_wire(OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochResponse(topics=topics), version)
    found = translation.response(answered, terms(version, known=False))
    assert [
        (p.topic_id, p.partition, p.error.code, p.end.leader_epoch, p.end.end_offset) for p in found.partitions
    ] == [
        (ID_A, 0, 0, 4, 8),
        (ID_B, 1, 6, 4, 8),
    ]


def test_the_name_of_a_recreated_topic_is_no_longer_that_of_the_topic_before_it() -> None:
    names = TopicNames()
    names.learn(ID_A, "t")
    names.learn(ID_B, "t")
    assert (names.name_of(ID_B), names.id_of("t")) == ("t", ID_B)
    with pytest.raises(OttlaError) as caught:
        names.name_of(ID_A)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_name_of_a_topic_that_is_gone_is_forgotten() -> None:
    known = terms(METADATA.versions[-1])
    topic = MetadataResponse.MetadataResponseTopic
    gone = [topic(name="a", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), topic(name="b", error_code=5)]
    MetadataTranslation().response(MetadataResponse(topics=gone), known)
    assert (known.names.id_of("a"), known.names.id_of("b")) == (bytes(16), ID_B)
    with pytest.raises(OttlaError, match="no topic with the id"):
        known.names.name_of(ID_A)
    known.names.forget("unknown")
