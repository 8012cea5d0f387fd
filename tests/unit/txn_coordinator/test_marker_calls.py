"""The calls that bring markers to where they belong, and the time that each of them has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from transactions import A, Shard

from ottla_core.model import TopicId, TopicPartition
from ottla_proto import broker_pb2, group_pb2
from ottla_proto.common_pb2 import Error
from ottla_txn_coordinator.ending import Ending
from ottla_txn_coordinator.marker_calls import Destination, Lateness, MarkerCalls, MarkerToWrite

TOPIC_ID = TopicId(b"t" * 16)


class Peer:
    """The call that was made, and its deadline."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, float]] = []

    def gathered(self, calls: Any) -> Peer:
        return self

    async def call(self, method: Any, request: Any, *, timeout: float) -> Any:
        self.calls.append((request, timeout))
        if isinstance(request, group_pb2.WriteShardMarkersRequest):
            return group_pb2.WriteShardMarkersResponse(markers=[group_pb2.ShardMarkerWritten(shards=[Error()])])
        return broker_pb2.WriteTxnMarkersResponse(markers=[broker_pb2.MarkerWritten(partitions=[Error()])])


@pytest.mark.rule(35)
@pytest.mark.story("a-stuck-shard-of-groups-held-up-its-coordinator")
@pytest.mark.parametrize("late", Lateness)
@pytest.mark.parametrize("of_groups", [False, True])
async def test_each_partition_has_an_error_of_its_own_before_the_deadline_of_the_call(
    of_groups: bool, late: Lateness
) -> None:
    """Otherwise one stuck shard fails the call for all shards, and none is known to be late."""
    shard, calls, peer = Shard().load(), MarkerCalls(), Peer()
    calls._peers = SimpleNamespace(at=lambda address: peer)  # type: ignore[assignment]  # all that it needs
    partition = TopicPartition("__consumer_offsets", 1) if of_groups else A
    shard.add(shard.init(), partition)
    marker = MarkerToWrite(Ending(1, 2, "x", shard.record()), partition, TOPIC_ID)
    assert [error.code for error in await calls.write(Destination("a", of_groups, late), [marker])] == [0]
    [(request, timeout_s)] = peer.calls
    assert request.timeout_ms == (5_000 if late else 1_000)
    assert timeout_s == request.timeout_ms / 1000 + 1
