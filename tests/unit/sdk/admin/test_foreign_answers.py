"""Administration by calls that are repeated, or that a cluster of Apache Kafka does not serve."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.admin.configs import Configs
from ottla.admin.topics import Topics
from ottla.admin.transaction_info import ActiveProducer, OpenTransaction, PartitionTransactions
from ottla.admin.transactions import Transactions
from ottla.errors import ConfigError, ErrorCode, OttlaError
from ottla.machines.metadata import BrokerView, ClusterView, PartitionView, TopicView, build_view
from ottla_core.kafka.messages import CreatePartitionsResponse
from ottla_core.model import TopicId, TopicPartition
from ottla_proto import broker_pb2, client_pb2, txn_pb2
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Broker, Group

GROUPS = "__consumer_offsets"


class Cluster:
    """One broker, which leads a topic of three partitions and one of groups. `called` has the calls by name."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def fetch_metadata(self, *_: Any, **__: Any) -> ClusterView:
        topics = [TopicView("t", TopicId(b"t" * 16), (PartitionView(0, 1),) * 3)]
        topics.append(TopicView(GROUPS, TopicId(b"g" * 16), (PartitionView(0, 1),)))
        return build_view("c", (-1, ""), [BrokerView(0, "a:1")], topics)

    def call(self, address: str, method: Any, request: Any, *, timeout: float) -> Any:
        self.called.append(method.name)
        assert method is Broker.WRITE_TXN_MARKERS
        return broker_pb2.WriteTxnMarkersResponse(markers=[{"partitions": [Error()]}])

    def call_any(self, method: Any, request: Any, *, timeout: float) -> Any:
        assert method is Group.WRITE_TXN_MARKERS
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, "the broker does not serve it")


class Channel:
    """Answers with one error, as a controller that has carried out an earlier request, or has not."""

    def __init__(self, *, repeated: bool) -> None:
        self.cluster = Cluster()
        self._repeated = repeated

    def deadline(self, timeout: Any) -> Any:
        return SimpleNamespace(left=lambda: 1.0)

    def exchange(self, *_: Any) -> Any:
        result = CreatePartitionsResponse.CreatePartitionsTopicResult(
            name="t", error_code=ErrorCode.INVALID_PARTITIONS, error_message="it already has 3 partitions"
        )
        return SimpleNamespace(response=result, repeated=self._repeated)


def topics(monkeypatch: pytest.MonkeyPatch, *, repeated: bool) -> Topics:
    monkeypatch.setattr(Topics, "_until_served", lambda *_, **__: None)
    return Topics(cast(Any, Channel(repeated=repeated)))


@pytest.mark.story("growth-that-was-reported-as-failed")
def test_partitions_that_a_lost_request_has_added_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    topics(monkeypatch, repeated=True).add_partitions("t", 3)
    with pytest.raises(ConfigError, match="already has 3"):
        topics(monkeypatch, repeated=True).add_partitions("t", 2)
    with pytest.raises(ConfigError, match="already has 3"):
        topics(monkeypatch, repeated=False).add_partitions("t", 3)


@pytest.mark.story("hanging-transaction-of-a-foreign-group")
def test_a_hanging_transaction_of_groups_is_ended_by_the_leader_if_there_are_no_owners() -> None:
    channel = Channel(repeated=False)
    producer = SimpleNamespace(producer_id=7, producer_epoch=1, coordinator_epoch=-1)
    hanging = SimpleNamespace(partition=TopicPartition(GROUPS, 0), producer=producer)
    Transactions(cast(Any, channel))._write_marker(cast(Any, hanging), channel.deadline(None))
    assert channel.cluster.called == ["WriteTxnMarkers"]


@pytest.mark.story("live-transaction-called-hanging")
@pytest.mark.parametrize(("shards", "age_s", "hangs"), [(0, 600, False), (0, 1_300, True), (2, 600, True)])
def test_a_transaction_that_kafka_does_not_list_may_be_live_until_it_is_late(
    monkeypatch: pytest.MonkeyPatch, shards: int, age_s: int, hangs: bool
) -> None:
    """Kafka leaves out ids that the user may not see, and those of a coordinator that moves."""
    at = TopicPartition("t", 0)
    written_at = datetime.now(UTC) - timedelta(seconds=age_s)
    opened = OpenTransaction(at, 5, ActiveProducer(7, 1, 0, written_at, -1, 5), None)
    still = client_pb2.PartitionProducers(high_watermark=9, last_stable_offset=5)
    still.producers.add(producer={"id": 7, "epoch": 1}, first_offset=5)
    monkeypatch.setattr(Transactions, "_opened", lambda *_: {0: PartitionTransactions(at, 9, 5, (opened,))})
    monkeypatch.setattr(Transactions, "_of_leaders", lambda *_, **__: {0: still})
    monkeypatch.setattr(
        Configs, "get", lambda *_, **__: {"transaction.max.timeout.ms": SimpleNamespace(value="900000")}
    )
    channel: Any = Channel(repeated=False)
    channel.cluster.view = channel.cluster.fetch_metadata()
    channel.retried = lambda attempt, deadline: attempt()
    transactions = Transactions(channel)
    listed = txn_pb2.ListTransactionsResponse(shards={"total": shards, "numbers": range(shards)})
    monkeypatch.setattr(transactions._coordinators, "listed", lambda *_, **__: [listed])
    assert [each.is_hanging for each in transactions.hanging("t")] == [True] * hangs
    if hangs:
        assert transactions.abort_hanging("t", 0, first_offset=5).is_hanging
    else:
        with pytest.raises(OttlaError, match="may be live") as raised:
            transactions.abort_hanging("t", 0, first_offset=5)
        assert raised.value.code == ErrorCode.INVALID_TXN_STATE
    assert channel.cluster.called == ["WriteTxnMarkers"] * hangs
