"""What one private call may cost: whatever it names, no turn of a service's loop is long (tests/conftest.py)."""

from __future__ import annotations

import array
import struct
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.fuzz.kafka_wire import KafkaWire

import ottla
from ottla_broker.kafka.private_methods import PRIVATE_METHODS
from ottla_core.kafka import codec
from ottla_core.kafka.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    RequestHeader,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_core.kafka_formats.consumer_protocol import Subscription, encode_subscription
from ottla_core.kafka_formats.primitives import MAX_ELEMENTS
from ottla_core.records.compression import Codec
from ottla_core.records.twins import new_builder
from ottla_proto import broker_pb2, controller_pb2, group_pb2, mirror_pb2, txn_pb2
from ottla_proto.common_pb2 import ShardsRequest, TxnMarker, TxnProducer
from ottla_proto.contracts import ClientCalls, Controller, Group, Method, Mirror, Txn
from ottla_stack.cluster import Cluster

LONG: Final = "n" * 32_000
PARTITIONS: Final = 1_000


class OttlaWire(KafkaWire):
    """One connection of a client that calls itself ottla's."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.socket.settimeout(60)
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
        assert self.asked(request, 3, ApiVersionsResponse, tagged=False).error_code == 0

    def asked(self, request: Any, version: int, answer: type[Any], *, tagged: bool = True) -> Any:
        """Send a request of a flexible version, and return its response."""
        head = RequestHeader(
            request_api_key=request.API_KEY, request_api_version=version, correlation_id=1, client_id="costs"
        )
        frame = codec.encode(head, 2) + codec.encode(request, version)
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        return codec.decode(answer, self.frame()[4 + tagged :], version)

    def call(self, method: Method[Any, Any], request: Any) -> Any:
        called = OttlaCallRequest(method=method.path, timeout_ms=30_000, body=request.SerializeToString())
        response = self.asked(called, 0, OttlaCallResponse)
        assert response.error_code == 0, response.error_message
        return method.response.FromString(response.body)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(txn_coordinators=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def requests(cluster: Cluster) -> dict[Method[Any, Any], Any]:
    """The largest request of each private method: of those with as many parts as it may have, where it has parts."""
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create("t", partitions=PARTITIONS, replicas=1)
        created = admin.topics.create("copy", partitions=1, replicas=1)
        assert created is not None
    offsets = [group_pb2.OffsetToCommit(topic="t", partition=n, metadata="m" * 40) for n in range(10_000)]
    marker = TxnMarker(producer=TxnProducer(id=1, epoch=1))
    places = [mirror_pb2.SourceOffset(topic="t", partition=n, offset=n) for n in range(30_000)]
    groups = mirror_pb2.MoveGroupsRequest(flow="a->b", groups=[str(n) for n in range(60_000)])
    return {
        ClientCalls.IMPORT_RECORDS: broker_pb2.ImportRecordsRequest(
            topic_id=bytes.fromhex(created.id), records=batches(1_000, 15 << 10), timeout_ms=30_000
        ),
        ClientCalls.REPLICA_EPOCHS: broker_pb2.ReplicaEpochsRequest(topic_id=bytes.fromhex(created.id), partition=0),
        Controller.DECLARE_RESTORED: controller_pb2.DeclareRestoredRequest(),
        Group.COMMIT_OFFSETS: group_pb2.CommitOffsetsRequest(
            group="commits", generation=-1, only_first=True, offsets=offsets
        ),
        Group.EXPLAIN_GROUP: group_pb2.ExplainGroupRequest(group=LONG),
        Group.LAG: group_pb2.LagRequest(group="large"),
        Group.SHARDS: ShardsRequest(),
        Group.WRITE_TXN_MARKERS: group_pb2.WriteShardMarkersRequest(
            markers=[group_pb2.ShardsMarker(marker=marker, shards=[0]) for _ in range(9_000)], timeout_ms=20_000
        ),
        Txn.PREPARE: txn_pb2.PrepareRequest(transactional_id=LONG),
        Txn.FORGET: txn_pb2.ForgetRequest(transactional_id=LONG),
        Txn.SHARDS: ShardsRequest(),
        Mirror.MIRROR_STATUS: mirror_pb2.MirrorStatusRequest(flow=LONG),
        Mirror.TRANSLATE_OFFSETS: mirror_pb2.TranslateOffsetsRequest(flow="a->b", offsets=places),
        Mirror.GROUP_POSITIONS: mirror_pb2.GroupPositionsRequest(flow="a->b", group=LONG),
        Mirror.PAUSE_FLOW: mirror_pb2.PauseFlowRequest(flow=LONG),
        Mirror.FAILOVER: groups,
        Mirror.FAILBACK: groups,
    }


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[OttlaWire]:
    with OttlaWire(cluster.bootstrap) as wire:
        yield wire


def batches(count: int, size_bytes: int) -> bytes:
    """Return batches of one record each, at the offsets from 0 on."""
    builder = new_builder(2 * size_bytes)
    builder.append(1_700_000_000_000, None, bytes(size_bytes))
    batch = bytes(builder.seal(Codec.NONE))
    return b"".join(struct.pack(">q", n) + batch[8:] for n in range(count))


def assignment(*topics: tuple[bytes, int]) -> bytes:
    """Return what a client encodes: topics, each with the partitions from 0 on."""
    encoded = struct.pack(">hi", 1, len(topics))
    for name, count in topics:
        numbers = array.array("i", range(count))
        numbers.byteswap()
        encoded += struct.pack(f">h{len(name)}si", len(name), name, count) + numbers.tobytes()
    return encoded + struct.pack(">i", -1)


def stable_group(wire: OttlaWire, group: str, assigned: bytes) -> None:
    """Make a group of one static member, with this assignment."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(
        name="range", metadata=encode_subscription(Subscription(("t",)))
    )
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = wire.asked(join, 9, JoinGroupResponse)
    assert joined.error_code == 0
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id="i",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assigned)],
    )
    assert wire.asked(sync, 5, SyncGroupResponse).error_code == 0


@pytest.mark.parametrize("path", sorted(PRIVATE_METHODS))
def test_the_largest_private_request_keeps_nobody_waiting(
    wire: OttlaWire, requests: dict[Method[Any, Any], Any], path: str
) -> None:
    private = PRIVATE_METHODS[path]
    request = requests[private.method]
    assert request.ByteSize() <= private.max_bytes
    wire.call(private.method, request)


@pytest.mark.story("assignment-is-expanded-on-the-loop")
def test_an_assignment_of_partitions_that_do_not_exist_keeps_nobody_waiting(
    wire: OttlaWire, requests: dict[Method[Any, Any], Any]
) -> None:
    stable_group(wire, "large", assignment((b"t", MAX_ELEMENTS - 10)))
    response = wire.call(Group.LAG, requests[Group.LAG])
    assert [each.partition for each in response.partitions] == list(range(PARTITIONS))
