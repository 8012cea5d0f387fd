"""The APIs of Kafka that the clients call, each with its messages and with the versions that the clients know."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    EndTxnRequest,
    EndTxnResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
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
    ListTransactionsRequest,
    ListTransactionsResponse,
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
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_core.kafka.schema import schema_of
from ottla_core.model import MAX_BATCH_BYTES

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_NEVER: Final = 2**15


class Api(NamedTuple):
    """One API of Kafka.

    `versions` are those that the clients know. A response that is longer than `max_response_bytes` counts as an error,
    because the client would have to hold it in memory. A call that `waits` is answered only once others have acted,
    which may take minutes. `hint` is for users of a broker that does not serve the API. From the version
    `transactions_v2_from` on, a request says that its producer has transactions of version 2 (KIP-890).
    """

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    versions: range
    max_response_bytes: int = 16 * _MIB
    hint: str = ""
    waits: bool = False
    transactions_v2_from: int = _NEVER

    def before(self, version: int) -> Api:
        """Return this API without that version and those after it."""
        return self._replace(versions=range(self.versions[0], min(self.versions[-1] + 1, version)))

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
SASL_HANDSHAKE: Final = Api(
    # After version 0 the messages of the mechanism would follow without frames.
    17,
    "SaslHandshake",
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    range(1, 2),
    max_response_bytes=64 * _KIB,
)
SASL_AUTHENTICATE: Final = Api(
    36,
    "SaslAuthenticate",
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    range(3),
    max_response_bytes=64 * _KIB,
)
OTTLA_CALL: Final = Api(
    # ottla's own; see `translations.private`.
    OttlaCallRequest.API_KEY,
    "OttlaCall",
    OttlaCallRequest,
    OttlaCallResponse,
    range(1),
    waits=True,
    hint="use a cluster of ottla: Apache Kafka has nothing like it",
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
PRODUCE: Final = Api(0, "Produce", ProduceRequest, ProduceResponse, range(3, 14), transactions_v2_from=12)
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
CREATE_TOPICS: Final = Api(19, "CreateTopics", CreateTopicsRequest, CreateTopicsResponse, range(7, 8))
"""This API and those below lack the versions that only brokers without topic ids need (Kafka before 2.8). The clients
can't use such brokers anyway (`METADATA`)."""
DELETE_TOPICS: Final = Api(20, "DeleteTopics", DeleteTopicsRequest, DeleteTopicsResponse, range(6, 7))
DELETE_RECORDS: Final = Api(21, "DeleteRecords", DeleteRecordsRequest, DeleteRecordsResponse, range(2, 3))
DESCRIBE_CONFIGS: Final = Api(32, "DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse, range(4, 5))
DESCRIBE_CLUSTER: Final = Api(
    # Older versions leave fenced brokers out (KIP-1073).
    60,
    "DescribeCluster",
    DescribeClusterRequest,
    DescribeClusterResponse,
    range(2, 3),
)
DESCRIBE_LOG_DIRS: Final = Api(35, "DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse, range(2, 6))
DESCRIBE_TOPIC_PARTITIONS: Final = Api(
    75, "DescribeTopicPartitions", DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, range(1)
)
CREATE_PARTITIONS: Final = Api(37, "CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse, range(2, 4))
ELECT_LEADERS: Final = Api(43, "ElectLeaders", ElectLeadersRequest, ElectLeadersResponse, range(2, 3))
INCREMENTAL_ALTER_CONFIGS: Final = Api(
    44, "IncrementalAlterConfigs", IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, range(1, 2)
)
DESCRIBE_QUORUM: Final = Api(55, "DescribeQuorum", DescribeQuorumRequest, DescribeQuorumResponse, range(3))
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
"""It lacks the versions that name topics by their ids (KIP-848)."""
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
CONSUMER_GROUP_DESCRIBE: Final = Api(
    69, "ConsumerGroupDescribe", ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, range(2)
)
DESCRIBE_GROUPS: Final = Api(15, "DescribeGroups", DescribeGroupsRequest, DescribeGroupsResponse, range(4, 7))
DELETE_GROUPS: Final = Api(42, "DeleteGroups", DeleteGroupsRequest, DeleteGroupsResponse, range(4))
ADD_PARTITIONS_TO_TXN: Final = Api(
    # Later versions are for brokers.
    24,
    "AddPartitionsToTxn",
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    range(4),
)
ADD_OFFSETS_TO_TXN: Final = Api(25, "AddOffsetsToTxn", AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, range(5))
END_TXN: Final = Api(26, "EndTxn", EndTxnRequest, EndTxnResponse, range(6), transactions_v2_from=5)
WRITE_TXN_MARKERS: Final = Api(27, "WriteTxnMarkers", WriteTxnMarkersRequest, WriteTxnMarkersResponse, range(1, 3))
TXN_OFFSET_COMMIT: Final = Api(
    # Older versions do not say which member of the group commits.
    28,
    "TxnOffsetCommit",
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    range(3, 7),
    transactions_v2_from=5,
)
TXN_OFFSET_COMMIT_BY_NAME: Final = TXN_OFFSET_COMMIT.before(6)
"""It lacks the version that names topics by their ids (KIP-1319)."""
DESCRIBE_PRODUCERS: Final = Api(61, "DescribeProducers", DescribeProducersRequest, DescribeProducersResponse, range(1))
DESCRIBE_TRANSACTIONS: Final = Api(
    65, "DescribeTransactions", DescribeTransactionsRequest, DescribeTransactionsResponse, range(1)
)
LIST_TRANSACTIONS: Final = Api(66, "ListTransactions", ListTransactionsRequest, ListTransactionsResponse, range(3))
DESCRIBE_ACLS: Final = Api(
    # Version 0 has no prefixes (KIP-290), and Kafka 4.0 does not serve it.
    29,
    "DescribeAcls",
    DescribeAclsRequest,
    DescribeAclsResponse,
    range(1, 4),
    max_response_bytes=64 * _MIB,
)
CREATE_ACLS: Final = Api(30, "CreateAcls", CreateAclsRequest, CreateAclsResponse, range(1, 4))
DELETE_ACLS: Final = Api(
    31, "DeleteAcls", DeleteAclsRequest, DeleteAclsResponse, range(1, 4), max_response_bytes=64 * _MIB
)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Api(
    50,
    "DescribeUserScramCredentials",
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    range(1),
)
ALTER_USER_SCRAM_CREDENTIALS: Final = Api(
    51, "AlterUserScramCredentials", AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, range(1)
)
