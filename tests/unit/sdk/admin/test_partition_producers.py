"""What leaders say of the producers of their partitions, and how transactions are ended there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from exchanged import TIMEOUT_MS, meaning, sent

from ottla.admin import private_calls
from ottla.admin.partition_producers import PartitionProducers, abort_marker, description
from ottla.admin.transaction_info import ActiveProducer
from ottla.client.kafka.apis import DESCRIBE_PRODUCERS, OTTLA_CALL, WRITE_TXN_MARKERS
from ottla.client.kafka.exchange import Exchange
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import DescribeProducersResponse, WriteTxnMarkersResponse
from ottla_core.kafka.private_messages import OttlaCallResponse
from ottla_core.model import TopicPartition
from ottla_proto import group_pb2
from ottla_proto.contracts import Group

_Topic = DescribeProducersResponse.TopicResponse
_Partition = DescribeProducersResponse.PartitionResponse
_Producer = DescribeProducersResponse.ProducerState

IDLE = ActiveProducer(4, 1, 8, datetime.fromtimestamp(99, UTC), -1, None)
BUSY = ActiveProducer(2**40, 7, -1, None, 6, 0)
A0 = TopicPartition("a", 0)


def response(*partitions: _Partition, topic: str = "b") -> DescribeProducersResponse:
    return DescribeProducersResponse(topics=[_Topic(name=topic, partitions=partitions)])


@pytest.mark.parametrize("version", DESCRIBE_PRODUCERS.versions)
@pytest.mark.parametrize("open_only", [True, False])
@pytest.mark.parametrize(("private", "ends"), [(True, (9, 5)), (False, (-1, -1))], ids=["ottla", "kafka"])
def test_producers_are_described_by_partition(
    version: int, open_only: bool, private: bool, ends: tuple[int, int]
) -> None:
    asked = description("b", [1, 0], open_only=open_only)
    (topic,) = sent(asked, version).topics
    assert (topic.name, list(topic.partition_indexes)) == ("b", [1, 0])
    idle = _Producer(producer_id=4, producer_epoch=1, last_sequence=8, last_timestamp=99_000, coordinator_epoch=-1)
    busy = _Producer(producer_id=2**40, producer_epoch=7, coordinator_epoch=6, current_txn_start_offset=0)
    known = response(
        _Partition(partition_index=0, high_watermark=9, last_stable_offset=5),
        _Partition(partition_index=1, active_producers=[idle, busy], high_watermark=9, last_stable_offset=5),
    )
    producers = (BUSY,) if open_only else (IDLE, BUSY)
    assert meaning(asked, known, version, private=private) == {
        1: PartitionProducers(producers, *ends),
        0: PartitionProducers((), *ends),
    }


@pytest.mark.parametrize("version", DESCRIBE_PRODUCERS.versions)
def test_the_error_of_one_partition_is_the_error_of_all(version: int) -> None:
    failed = response(_Partition(partition_index=1), _Partition(error_code=6, error_message="not the leader"))
    with pytest.raises(OttlaError, match="not the leader") as caught:
        meaning(description("b", [1, 0], open_only=False), failed, version)
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", DESCRIBE_PRODUCERS.versions)
@pytest.mark.parametrize("other", [response(_Partition()), response(_Partition(partition_index=1), topic="a")])
def test_a_partition_that_the_response_lacks_is_an_error(version: int, other: DescribeProducersResponse) -> None:
    with pytest.raises(OttlaError, match="the response to DescribeProducers lacks b-1") as caught:
        meaning(description("b", [1], open_only=False), other, version)
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION


# ---- markers ---------------------------------------------------------------------------------------------------------


def written(topic: str, code: int, partition: int = 0) -> WriteTxnMarkersResponse:
    of_partition = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult
    of_topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
    in_topic = of_topic(name=topic, partitions=[of_partition(partition_index=partition, error_code=code)])
    return WriteTxnMarkersResponse(
        markers=[WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=2**40, topics=[in_topic])]
    )


@pytest.mark.parametrize("version", WRITE_TXN_MARKERS.versions)
@pytest.mark.parametrize(("producer", "coordinator_epoch"), [(BUSY, 6), (IDLE, 0)])
def test_an_abort_marker_has_the_epochs_that_the_partition_knows(
    version: int, producer: ActiveProducer, coordinator_epoch: int
) -> None:
    asked: Exchange[Any] = abort_marker(A0, producer)
    (marker,) = sent(asked, version).markers
    assert (marker.producer_id, marker.producer_epoch) == (producer.producer_id, producer.producer_epoch)
    assert (marker.transaction_result, marker.coordinator_epoch) == (False, coordinator_epoch)
    assert marker.transaction_version == 0
    assert [(topic.name, list(topic.partition_indexes)) for topic in marker.topics] == [("a", [0])]
    assert meaning(asked, written("a", 0), version) is None


@pytest.mark.parametrize("version", WRITE_TXN_MARKERS.versions)
@pytest.mark.parametrize(
    ("response", "code", "words"),
    [
        (written("a", 6), ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker does not lead the partition"),
        (written("b", 0), ErrorCode.NETWORK_EXCEPTION, "the response to WriteTxnMarkers lacks a-0"),
        (written("a", 0, partition=1), ErrorCode.NETWORK_EXCEPTION, "the response to WriteTxnMarkers lacks a-0"),
    ],
    ids=["refused", "another topic", "another partition"],
)
def test_a_marker_that_was_not_written_is_an_error(
    version: int, response: WriteTxnMarkersResponse, code: int, words: str
) -> None:
    with pytest.raises(OttlaError, match=words) as caught:
        meaning(abort_marker(A0, BUSY), response, version)
    assert caught.value.code == code


@pytest.mark.parametrize(("producer", "coordinator_epoch"), [(BUSY, 6), (IDLE, 0)])
def test_a_marker_for_a_shard_of_groups_goes_through_the_private_api(
    producer: ActiveProducer, coordinator_epoch: int
) -> None:
    asked: Exchange[Any] = private_calls.abort_marker(3, producer, TIMEOUT_MS)
    assert asked.api.key == OTTLA_CALL.key
    call = sent(asked, 0)
    assert call.method == Group.WRITE_TXN_MARKERS.path
    request = group_pb2.WriteShardMarkersRequest.FromString(bytes(call.body))
    (to_write,) = request.markers
    assert (list(to_write.shards), request.timeout_ms) == ([3], TIMEOUT_MS)
    found = to_write.marker.producer
    assert (found.id, found.epoch) == (producer.producer_id, producer.producer_epoch)
    assert (to_write.marker.committed, to_write.marker.coordinator_epoch) == (False, coordinator_epoch)


@pytest.mark.parametrize("code", [0, 16])
def test_the_owner_of_a_shard_may_refuse_the_marker(code: int) -> None:
    body = group_pb2.WriteShardMarkersResponse(markers=[{"shards": [{"code": code, "message": "why"}]}])
    asked: Exchange[Any] = private_calls.abort_marker(3, BUSY, TIMEOUT_MS)
    answer = OttlaCallResponse(body=body.SerializeToString())
    if code:
        with pytest.raises(OttlaError, match="why") as caught:
            meaning(asked, answer, 0)
        assert caught.value.code == code
    else:
        assert meaning(asked, answer, 0) is None
