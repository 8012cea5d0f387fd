"""The request for brokers, topics and leaders, and what a client learns from the response."""

from __future__ import annotations

import pytest
from exchanged import meaning, sent

from ottla.client.kafka.apis import METADATA
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.metadata import metadata
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.metadata import BrokerView, ClusterView, PartitionView, TopicView
from ottla_core.kafka.messages import MetadataResponse
from ottla_core.model import TopicId

ID_A, ID_B = TopicId(b"a" * 16), TopicId(b"b" * 16)
NEWEST = METADATA.versions[-1]

Broker = MetadataResponse.MetadataResponseBroker
Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition


def known() -> TopicNames:
    names = TopicNames()
    names.learn(ID_A, "a")
    names.learn(ID_B, "b")
    return names


def told(response: MetadataResponse, names: TopicNames, version: int = NEWEST) -> ClusterView:
    return meaning(metadata(["b"], names), response, version)


@pytest.mark.parametrize("version", METADATA.versions)
def test_a_request_creates_no_topic_and_asks_for_all_topics_none_or_some(version: int) -> None:
    names = TopicNames()
    assert sent(metadata((), names, all_topics=True), version).topics is None
    assert list(sent(metadata((), names), version).topics) == []
    some = sent(metadata(["x", "y"], names), version)
    assert [topic.name for topic in some.topics] == ["x", "y"]
    assert some.allow_auto_topic_creation is False


@pytest.mark.parametrize("version", METADATA.versions)
def test_a_response_has_brokers_topics_leaders_and_names_to_learn(version: int) -> None:
    response = MetadataResponse(
        brokers=[Broker(node_id=1, host="h", port=9092, rack="r"), Broker(node_id=2, host="i", port=9093)],
        cluster_id="c",
        controller_id=2,
        topics=[
            Topic(
                name="x",
                topic_id=ID_A,
                is_internal=True,
                partitions=[
                    Partition(
                        leader_id=1, leader_epoch=4, replica_nodes=[1, 2], isr_nodes=[1, 3], offline_replicas=[2]
                    ),
                    Partition(error_code=5, partition_index=1, leader_id=-1, leader_epoch=-1),
                ],
            ),
            Topic(name="y", error_code=3, partitions=[Partition(leader_id=1)]),
        ],
    )
    names = TopicNames()
    view = told(response, names, version)
    assert (view.cluster_id, view.controller_id, view.controller) == ("c", 2, "i:9093")
    assert view.brokers == {1: BrokerView(1, "h:9092", "r"), 2: BrokerView(2, "i:9093")}
    partitions = PartitionView(1, 4, (1, 2), (1, 3), (2,)), PartitionView(-1, 0)
    assert view.topics == {
        "x": TopicView("x", ID_A, partitions, is_internal=True),
        "y": TopicView("y", TopicId(bytes(16)), (), error=3),
    }
    assert [(str(at), route.address, route.leader_epoch) for at, route in view.routes.items()] == [("x-0", "h:9092", 4)]
    assert (names.name_of(ID_A), names.id_of("y")) == ("x", bytes(16))
    with pytest.raises(OttlaError):
        names.name_of(bytes(16))


@pytest.mark.parametrize("all_topics", [True, False])
@pytest.mark.parametrize("code", [0, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_topics_that_are_gone_are_forgotten_once_all_topics_are_listed(all_topics: bool, code: int) -> None:
    names = known()
    asked = metadata([] if all_topics else ["b"], names, all_topics=all_topics)
    response = MetadataResponse(topics=[Topic(name="b", topic_id=ID_B, partitions=[Partition()])], error_code=code)
    if code:
        with pytest.raises(OttlaError) as caught:
            meaning(asked, response, NEWEST)
        assert caught.value.code == code
    else:
        meaning(asked, response, NEWEST)
    assert names.name_of(ID_B) == "b"
    is_forgotten = all_topics and not code
    assert names.id_of("a") == (bytes(16) if is_forgotten else ID_A)
    if is_forgotten:
        with pytest.raises(OttlaError):
            names.name_of(ID_A)


def test_the_name_of_a_topic_that_is_gone_is_forgotten() -> None:
    names = known()
    gone = [Topic(name="a", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), Topic(name="b", error_code=5)]
    told(MetadataResponse(topics=gone), names)
    assert (names.id_of("a"), names.id_of("b")) == (bytes(16), ID_B)
    with pytest.raises(OttlaError, match="no topic with the id"):
        names.name_of(ID_A)


@pytest.mark.story("former-topic-that-came-back")
def test_a_broker_that_lags_can_not_bring_a_former_topic_back() -> None:
    names, recreated = known(), TopicId(b"r" * 16)

    def topic(topic_id: bytes) -> TopicView:
        topics = [Topic(name="b", topic_id=topic_id, partitions=[Partition(leader_id=1)])]
        return told(MetadataResponse(topics=topics), names).topics["b"]

    assert topic(recreated) == TopicView("b", recreated, (PartitionView(1, 0),))
    assert topic(ID_B) == TopicView("b", ID_B, (), error=ErrorCode.LEADER_NOT_AVAILABLE)
    assert names.id_of("b") == recreated


@pytest.mark.parametrize("number", [-1, 7])
def test_metadata_without_a_known_controller_has_none(number: int) -> None:
    response = MetadataResponse(controller_id=number, brokers=[Broker(node_id=1, host="h", port=1)])
    view = told(response, TopicNames())
    assert (view.controller_id, view.controller) == (-1, "")


@pytest.mark.parametrize("numbers", [[], [1], [0, 2], [0, 0], [-1, 0], [1, 2, 2**31 - 1]])
def test_a_topic_whose_partitions_are_not_counted_from_zero_is_not_known_yet(numbers: list[int]) -> None:
    partitions = [Partition(partition_index=number, leader_id=7) for number in numbers]
    view = told(
        MetadataResponse(
            brokers=[Broker(node_id=7, host="b", port=1)],
            topics=[Topic(name="t", topic_id=ID_A, partitions=partitions)],
        ),
        TopicNames(),
    )
    reason = f"a broker says that t has the partitions {sorted(numbers)}"
    expected = TopicView("t", ID_A, (), error=ErrorCode.LEADER_NOT_AVAILABLE, error_message=reason)
    assert (view.topics, view.routes) == ({"t": expected}, {})


def test_partitions_are_known_by_their_numbers_in_whatever_order_they_come() -> None:
    partitions = [Partition(partition_index=1, leader_id=7), Partition(partition_index=0)]
    view = told(MetadataResponse(topics=[Topic(name="t", topic_id=ID_A, partitions=partitions)]), TopicNames())
    assert (view.topics["t"].error, [each.leader for each in view.topics["t"].partitions]) == (0, [0, 7])
