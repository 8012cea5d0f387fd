"""AddPartitionsToTxn: which partitions exist, and which replicas learn of the addition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from images import image_of, topic_id, with_topic

from ottla_broker.kafka.handlers import add_partitions_to_txn
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import AddPartitionsToTxnRequest
from ottla_core.model import PartitionId
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import Error

T = topic_id(1)


class Services:
    """A broker of the topic t, which has three partitions. `looked_up` are the replicas that were to learn of it."""

    def __init__(self) -> None:
        self.image = with_topic(image_of(1), "t", 3, number=1)
        self.looked_up: list[PartitionId] = []
        self.replicas = SimpleNamespace(table=SimpleNamespace(get=self.looked_up.append))


async def added(backend: Services, numbers: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch) -> dict[Any, int]:
    async def call(backend: Any, transactional_id: str, method: Any, request: pb.AddPartitionsRequest) -> Any:
        errors = [Error() for _ in request.transactions[0].partitions]
        return pb.AddPartitionsResponse(transactions=[pb.PartitionsAdded(partitions=errors)])

    monkeypatch.setattr(add_partitions_to_txn, "call", call)
    kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    request = AddPartitionsToTxnRequest(
        v3_and_below_topics=[kind(name=name, partitions=of_topic) for name, of_topic in numbers.items()]
    )
    context = KafkaContext(3, 1, "me", cast(Any, None), Caller("", ""))
    response = await add_partitions_to_txn.handle(cast(Any, backend), request, context)
    return {
        (topic.name, result.partition_index): result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    }


async def test_the_replicas_of_the_partitions_learn_of_the_addition(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Services()
    assert await added(backend, {"t": [2, 0, 2]}, monkeypatch) == {("t", 2): 0, ("t", 0): 0}
    assert backend.looked_up == [PartitionId(T, 2), PartitionId(T, 0)]


@pytest.mark.parametrize("unknown", [("u", 0), ("t", 3), ("t", -1)])
async def test_if_one_does_not_exist_none_is_added(unknown: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Services()
    numbers = {"t": [0]}
    numbers.setdefault(unknown[0], []).append(unknown[1])
    assert await added(backend, numbers, monkeypatch) == {
        ("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert backend.looked_up == []
