"""What Kafka's control messages cost to encode and to decode: our codec beside kafka-python's, in turn.

Each round measures both, one right after the other, so that a machine whose speed drifts does not decide it. Times are
CPU microseconds. Messages are created before they are encoded, so `encode` is without that, and `decode` is with it.
"""

from __future__ import annotations

import importlib
import json
import time
import warnings
from collections.abc import Callable
from typing import Any, Final

from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    AddPartitionsToTxnRequest,
    DescribeConfigsResponse,
    FetchResponse,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
)

ROUNDS: Final = 11
_ROUND_S: Final = 0.02
_MODULES: Final = ("admin", "consumer", "metadata", "producer")
_ID: Final = "consumer-1-5f2c8a80-3d4e-4c3e-9b5a-0d7f6f0a1b2c"


def messages() -> dict[str, tuple[Message, int]]:
    """The messages that are measured, with their versions."""
    return {
        "Heartbeat request": (HeartbeatRequest(group_id="payments", generation_id=7, member_id=_ID), 4),
        "Heartbeat response": (HeartbeatResponse(error_code=27), 4),
        "FindCoordinator response, 1": (_coordinators(), 6),
        "AddPartitionsToTxn request, 1 × 3": (_partitions_to_add(), 3),
        "OffsetCommit request, 1 × 6": (_commit(), 8),
        "OffsetCommit response, 1 × 6": (_committed(), 8),
        "ListOffsets response, 1 × 6": (_offsets(), 10),
        "JoinGroup response, 20 members": (_joined(), 9),
        "DescribeConfigs response, 30 configs": (_configs(), 4),
        "Fetch response, 1 × 6, 1 KB each": (_fetched(), 12),
        "Metadata response, 100 × 6": (_metadata(), 12),
    }


def _coordinators() -> Message:
    found = FindCoordinatorResponse.Coordinator(key="payments", node_id=1, host="broker-1.example", port=9092)
    return FindCoordinatorResponse(coordinators=[found])


def _partitions_to_add() -> Message:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="orders", partitions=[0, 1, 2])
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="payments-1", v3_and_below_producer_id=4_000, v3_and_below_topics=[topic]
    )


def _commit() -> Message:
    kind = OffsetCommitRequest.OffsetCommitRequestPartition
    partitions = [kind(partition_index=n, committed_offset=1_000_000 + n, committed_metadata="") for n in range(6)]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=partitions)
    return OffsetCommitRequest(group_id="payments", generation_id_or_member_epoch=7, member_id=_ID, topics=[topic])


def _committed() -> Message:
    partitions = [OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=n) for n in range(6)]
    topic = OffsetCommitResponse.OffsetCommitResponseTopic(name="orders", partitions=partitions)
    return OffsetCommitResponse(topics=[topic])


def _offsets() -> Message:
    kind = ListOffsetsResponse.ListOffsetsPartitionResponse
    partitions = [kind(partition_index=n, offset=1_000_000 + n, leader_epoch=3) for n in range(6)]
    topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="orders", partitions=partitions)
    return ListOffsetsResponse(topics=[topic])


def _joined() -> Message:
    kind = JoinGroupResponse.JoinGroupResponseMember
    members = [kind(member_id=f"{_ID}{n}", metadata=bytes(80)) for n in range(20)]
    return JoinGroupResponse(
        generation_id=7,
        protocol_type="consumer",
        protocol_name="cooperative-sticky",
        leader=_ID,
        member_id=_ID,
        members=members,
    )


def _configs() -> Message:
    kind = DescribeConfigsResponse.DescribeConfigsResourceResult
    synonym = DescribeConfigsResponse.DescribeConfigsSynonym
    configs = [
        kind(name=f"log.some.config.{n}", value="604800000", synonyms=[synonym(name="log.retention.ms", value="1")])
        for n in range(30)
    ]
    result = DescribeConfigsResponse.DescribeConfigsResult(resource_type=2, resource_name="orders", configs=configs)
    return DescribeConfigsResponse(results=[result])


def _fetched() -> Message:
    kind = FetchResponse.PartitionData
    partitions = [kind(partition_index=n, high_watermark=9, records=bytes(1_024)) for n in range(6)]
    topic = FetchResponse.FetchableTopicResponse(topic="orders", partitions=partitions)
    return FetchResponse(responses=[topic])


def _metadata() -> Message:
    kind = MetadataResponse.MetadataResponsePartition
    partitions = [
        kind(partition_index=n, leader_id=n % 3, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]) for n in range(6)
    ]
    topics = [
        MetadataResponse.MetadataResponseTopic(name=f"topic-{n}", topic_id=bytes(15) + b"1", partitions=partitions)
        for n in range(100)
    ]
    brokers = [MetadataResponse.MetadataResponseBroker(node_id=n, host=f"broker-{n}", port=9092) for n in range(3)]
    return MetadataResponse(brokers=brokers, cluster_id="cluster", topics=topics)


def _us(work: Callable[[], object]) -> float:
    """CPU microseconds of one call, from as many as take a few hundredths of a second."""
    began, calls = time.process_time(), 0
    while (took_s := time.process_time() - began) < _ROUND_S:
        for _ in range(10):
            work()
        calls += 10
    return took_s / calls * 1e6


def kafka_python_type(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of its own imports
        modules = [importlib.import_module(f"kafka.protocol.{module}") for module in _MODULES]
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def measured(message: Message, version: int) -> dict[str, list[float]]:
    """The rounds of each of the four."""
    data, kind = codec.encode(message, version), type(message)
    their_type = kafka_python_type(kind.__name__)
    theirs = their_type.decode(data, version=version)
    theirs._header = None  # which its decoder leaves out, and its encoder looks at
    assert bytes(theirs.encode()) == data, f"kafka-python has other bytes for {kind.__name__}"
    works: dict[str, Callable[[], object]] = {
        "encode_us": lambda: codec.encode(message, version),
        "kafka_python_encode_us": theirs.encode,
        "decode_us": lambda: codec.decode(kind, data, version),
        "kafka_python_decode_us": lambda: their_type.decode(data, version=version),
    }
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            found[name].append(round(_us(work), 2))
    return found


def main() -> None:
    print(json.dumps({name: measured(message, version) for name, (message, version) in messages().items()}))


if __name__ == "__main__":
    main()
