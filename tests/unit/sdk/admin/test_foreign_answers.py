"""Administration by calls that are repeated, or that a cluster of Apache Kafka does not serve."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from answering import AnsweringBrokers

import ottla
from ottla.client.kafka.apis import (
    CREATE_PARTITIONS,
    DESCRIBE_CONFIGS,
    DESCRIBE_PRODUCERS,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)
from ottla.errors import ConfigError, ErrorCode, OttlaError
from ottla_core.kafka.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DescribeConfigsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla_core.kafka.private_messages import OttlaCallRequest

GROUPS = "__consumer_offsets"

_Config = DescribeConfigsResponse.DescribeConfigsResourceResult
_Configs = DescribeConfigsResponse.DescribeConfigsResult
_End = ListOffsetsResponse.ListOffsetsPartitionResponse
_Written = WriteTxnMarkersResponse.WritableTxnMarkerResult


def ends(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """The ends of partitions: offset 5 for read_committed consumers, and 9 for others."""
    end = 5 if request.isolation_level else 9
    topics = []
    for topic in request.topics:
        partitions = [_End(partition_index=each.partition_index, offset=end) for each in topic.partitions]
        topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


class Grown(AnsweringBrokers):
    """A broker that has added partitions to t already. If `lost`, no response to its first request comes."""

    def __init__(self, *, lost: bool) -> None:
        super().__init__({CREATE_PARTITIONS.name: self._grow, LIST_OFFSETS.name: ends}, t=3)
        self._lost = lost

    def _grow(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        if self._lost and len(self.requests(CreatePartitionsRequest)) == 1:
            raise OttlaError(ErrorCode.NETWORK_EXCEPTION, "the line broke")
        result = CreatePartitionsResponse.CreatePartitionsTopicResult(
            name="t", error_code=ErrorCode.INVALID_PARTITIONS, error_message="it already has 3 partitions"
        )
        return CreatePartitionsResponse(results=[result])


class Hanging(AnsweringBrokers):
    """A broker on which a transaction has been open in each topic for `age_s`. No coordinator lists it.

    Coordinators of ottla name their `shards`. Those of Kafka have none.
    """

    def __init__(self, *, age_s: int, shards: int = 0) -> None:
        limit = _Config(name="transaction.max.timeout.ms", value="900000")
        super().__init__(
            {
                DESCRIBE_CONFIGS.name: DescribeConfigsResponse(results=[_Configs(resource_name="0", configs=[limit])]),
                DESCRIBE_PRODUCERS.name: self._producers,
                LIST_OFFSETS.name: ends,
                LIST_TRANSACTIONS.name: ListTransactionsResponse(shards=range(shards), shard_count=shards),
                WRITE_TXN_MARKERS.name: self._written,
            },
            **{"t": 1, GROUPS: 1},
        )
        written_at = datetime.now(UTC) - timedelta(seconds=age_s)
        self._written_at_ms = int(1000 * written_at.timestamp())

    def _producers(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        (topic,) = request.topics
        producer = DescribeProducersResponse.ProducerState(
            producer_id=7, producer_epoch=1, last_timestamp=self._written_at_ms, current_txn_start_offset=5
        )
        partition = DescribeProducersResponse.PartitionResponse(active_producers=[producer])
        known = DescribeProducersResponse.TopicResponse(name=topic.name, partitions=[partition])
        return DescribeProducersResponse(topics=[known])

    def _written(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        ((topic,),) = [marker.topics for marker in request.markers]
        partition = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult()
        in_topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=topic.name, partitions=[partition])
        return WriteTxnMarkersResponse(markers=[_Written(topics=[in_topic])])


def admin(cluster: AnsweringBrokers) -> ottla.Admin:
    return ottla.Admin("b0:1", request_timeout=5, _transport=cluster.connect)


@pytest.mark.story("growth-that-was-reported-as-failed")
def test_partitions_that_a_lost_request_has_added_are_no_error() -> None:
    admin(Grown(lost=True)).topics.add_partitions("t", 3)
    with pytest.raises(ConfigError, match="already has 3"):
        admin(Grown(lost=True)).topics.add_partitions("t", 2)
    with pytest.raises(ConfigError, match="already has 3"):
        admin(Grown(lost=False)).topics.add_partitions("t", 3)


@pytest.mark.story("hanging-transaction-of-a-foreign-group")
def test_a_hanging_transaction_of_groups_is_ended_by_the_leader_if_there_are_no_owners() -> None:
    cluster = Hanging(age_s=1_300)
    admin(cluster).transactions.abort_hanging(GROUPS, 0, first_offset=5)
    assert len(cluster.requests(OttlaCallRequest)) == 1
    (request,) = cluster.requests(WriteTxnMarkersRequest)
    assert [topic.name for topic in request.markers[0].topics] == [GROUPS]


@pytest.mark.story("live-transaction-called-hanging")
@pytest.mark.parametrize(("shards", "age_s", "hangs"), [(0, 600, False), (0, 1_300, True), (2, 600, True)])
def test_a_transaction_that_kafka_does_not_list_may_be_live_until_it_is_late(
    shards: int, age_s: int, hangs: bool
) -> None:
    """Kafka leaves out ids that the user may not see, and those of a coordinator that moves."""
    cluster = Hanging(age_s=age_s, shards=shards)
    transactions = admin(cluster).transactions
    (found,) = transactions.open_in("t")
    assert (found.high_watermark, found.last_stable_offset) == (9, 5)
    assert [each.is_hanging for each in transactions.hanging("t")] == [True] * hangs
    if hangs:
        assert transactions.abort_hanging("t", 0, first_offset=5).is_hanging
    else:
        with pytest.raises(OttlaError, match="may be live") as raised:
            transactions.abort_hanging("t", 0, first_offset=5)
        assert raised.value.code == ErrorCode.INVALID_TXN_STATE
    assert len(cluster.requests(WriteTxnMarkersRequest)) == hangs
