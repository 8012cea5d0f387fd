"""Responses to ListOffsets that have other partitions than the request."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.client.list_offsets import OffsetAndTimestamp, list_offsets
from ottla.errors import ConnectError, OttlaError
from ottla.machines.metadata import BrokerView, ClusterView, PartitionView, TopicView, build_view
from ottla_core.clock import ManualClock
from ottla_core.model import TopicId, TopicPartition
from ottla_proto import broker_pb2 as pb

ID = TopicId(b"t" * 16)
PARTITION = TopicPartition("t", 0)


def offset(topic_id: bytes = ID, partition: int = 0, offset: int = 7) -> pb.PartitionOffset:
    return pb.PartitionOffset(topic_id=topic_id, partition=partition, offset=offset, timestamp_ms=9)


class Cluster:
    """Answers with each of the responses in turn, and then with the last one."""

    def __init__(self, *responses: list[pb.PartitionOffset]) -> None:
        self.clock = ManualClock()
        self.responses = list(responses)
        self.calls = 0

    def fetch_metadata(self, *_: Any, **__: Any) -> ClusterView:
        topic = TopicView("t", ID, (PartitionView(0, 3),))
        return build_view("c", (-1, ""), [BrokerView(0, "a:1")], [topic])

    def call(self, *_: Any, **__: Any) -> pb.ListOffsetsResponse:
        self.calls += 1
        assert self.calls < 1000, "it asks for ever"
        response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        return pb.ListOffsetsResponse(partitions=response)

    def wait(self, timeout: float) -> None:
        self.clock.advance(timeout)


def looked_up(cluster: Cluster) -> OffsetAndTimestamp | None:
    return list_offsets(cast(Any, cluster), {PARTITION: -1}, timeout=5.0)[PARTITION]


@pytest.mark.story("deleted-topic-stops-a-member")
def test_partitions_that_do_not_exist_keep_no_other_from_being_found() -> None:
    cluster = Cluster([offset()])
    missing = {TopicPartition("deleted", 0), TopicPartition("t", 1)}
    offline: set[TopicPartition] = set()
    wanted = dict.fromkeys({PARTITION, *missing}, -1)
    found = list_offsets(cast(Any, cluster), wanted, timeout=5.0, offline=offline, skips_missing=True)
    assert (list(found), offline) == ([PARTITION], missing)
    assert cluster.clock.monotonic() == Cluster().clock.monotonic(), "nothing was waited for"
    with pytest.raises(OttlaError, match=r"does not exist|has no partition"):
        list_offsets(cast(Any, cluster), wanted, timeout=5.0, offline=set())


def test_partitions_that_nobody_has_asked_for_are_ignored() -> None:
    cluster = Cluster([offset(partition=-1), offset(topic_id=b"u" * 16), offset(), offset(partition=1)])
    assert looked_up(cluster) == OffsetAndTimestamp(7, 9)
    assert (cluster.calls, cluster.clock.monotonic()) == (1, 0)


def test_a_partition_that_a_response_lacks_is_asked_for_again_after_a_pause() -> None:
    cluster = Cluster([], [offset()])
    assert looked_up(cluster) == OffsetAndTimestamp(7, 9)
    assert (cluster.calls, cluster.clock.monotonic() > 0) == (2, True)


def test_a_partition_that_every_response_lacks_is_an_error_in_time() -> None:
    cluster = Cluster([offset(partition=1)])
    with pytest.raises(ConnectError, match="t-0: the response to ListOffsets lacks it"):
        looked_up(cluster)
    assert cluster.clock.monotonic() <= 5.0
