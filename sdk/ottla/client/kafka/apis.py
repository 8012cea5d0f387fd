"""The APIs of Kafka that the clients call, each with its messages and with the versions that the clients know."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla_core.kafka.schema import schema_of
from ottla_core.model import MAX_BATCH_BYTES

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB


class Api(NamedTuple):
    """One API of Kafka.

    `versions` are those that the clients know. A response that is longer than `max_response_bytes` is taken for an
    error, because a client would have to keep that much. A call that `waits` is answered once others have acted, which
    may take minutes.
    """

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    versions: range
    max_response_bytes: int = 16 * _MIB
    waits: bool = False

    def request_header(self, version: int) -> int:
        """Return the version of the header before a request (KIP-482)."""
        return 2 if version in schema_of(self.request.__name__).flexible else 1

    def response_header(self, version: int) -> int:
        """Return the version of the header before a response. The response to ApiVersions never has tags in its header,
        because it is read before the client knows what the broker understands (KIP-511)."""
        return int(self.key != API_VERSIONS.key and version in schema_of(self.response.__name__).flexible)


API_VERSIONS: Final = Api(
    18, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse, range(6), max_response_bytes=256 * _KIB
)
METADATA: Final = Api(
    # Older versions have no topic ids, by which the clients name topics.
    3,
    "Metadata",
    MetadataRequest,
    MetadataResponse,
    range(10, 14),
    max_response_bytes=128 * _MIB,
)
PRODUCE: Final = Api(0, "Produce", ProduceRequest, ProduceResponse, range(3, 14))
FETCH: Final = Api(
    1,
    "Fetch",
    FetchRequest,
    FetchResponse,
    range(4, 19),
    # The first batch comes whole, however little was asked for (KIP-74).
    max_response_bytes=MAX_BATCH_BYTES + 32 * _MIB,
)
LIST_OFFSETS: Final = Api(
    # Version 1 has no isolation level.
    2,
    "ListOffsets",
    ListOffsetsRequest,
    ListOffsetsResponse,
    range(2, 11),
)
OFFSET_FOR_LEADER_EPOCH: Final = Api(
    23, "OffsetForLeaderEpoch", OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, range(2, 5)
)
INIT_PRODUCER_ID: Final = Api(
    # Kafka serves version 6 only if unstable versions are enabled.
    22,
    "InitProducerId",
    InitProducerIdRequest,
    InitProducerIdResponse,
    range(6),
)
FIND_COORDINATOR: Final = Api(
    # Version 0 finds no coordinators of transactions.
    10,
    "FindCoordinator",
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    range(1, 7),
)
JOIN_GROUP: Final = Api(
    # Older versions have no static members.
    11,
    "JoinGroup",
    JoinGroupRequest,
    JoinGroupResponse,
    range(5, 10),
    waits=True,
)
SYNC_GROUP: Final = Api(14, "SyncGroup", SyncGroupRequest, SyncGroupResponse, range(3, 6), waits=True)
HEARTBEAT: Final = Api(12, "Heartbeat", HeartbeatRequest, HeartbeatResponse, range(3, 5))
LEAVE_GROUP: Final = Api(13, "LeaveGroup", LeaveGroupRequest, LeaveGroupResponse, range(3, 6))
OFFSET_COMMIT: Final = Api(8, "OffsetCommit", OffsetCommitRequest, OffsetCommitResponse, range(7, 11))
OFFSET_COMMIT_BY_NAME: Final = OFFSET_COMMIT._replace(versions=range(7, 10))
"""Without the versions that name topics by their ids (KIP-848)."""
OFFSET_FETCH: Final = Api(
    # Older versions can't ask for stable offsets (KIP-447).
    9,
    "OffsetFetch",
    OffsetFetchRequest,
    OffsetFetchResponse,
    range(7, 11),
)
OFFSET_FETCH_BY_NAME: Final = OFFSET_FETCH._replace(versions=range(7, 10))
OFFSET_DELETE: Final = Api(47, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse, range(1))
LIST_GROUPS: Final = Api(
    # Older versions don't know states of groups (KIP-518).
    16,
    "ListGroups",
    ListGroupsRequest,
    ListGroupsResponse,
    range(4, 6),
    max_response_bytes=128 * _MIB,
)
DESCRIBE_GROUPS: Final = Api(15, "DescribeGroups", DescribeGroupsRequest, DescribeGroupsResponse, range(4, 7))
DELETE_GROUPS: Final = Api(42, "DeleteGroups", DeleteGroupsRequest, DeleteGroupsResponse, range(4))
