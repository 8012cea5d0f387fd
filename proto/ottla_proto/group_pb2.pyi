from ottla_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupCalls(_message.Message):
    __slots__ = ("calls", "cancelled")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[GroupCall]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, calls: _Optional[_Iterable[_Union[GroupCall, _Mapping]]] = ..., cancelled: _Optional[_Iterable[int]] = ...) -> None: ...

class GroupCall(_message.Message):
    __slots__ = ("correlation_id", "timeout_ms", "heartbeat", "commit_offsets", "fetch_offsets", "leave", "write_txn_markers", "consumer_heartbeat")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    COMMIT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    FETCH_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    WRITE_TXN_MARKERS_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    timeout_ms: int
    heartbeat: HeartbeatRequest
    commit_offsets: CommitOffsetsRequest
    fetch_offsets: FetchOffsetsRequest
    leave: LeaveRequest
    write_txn_markers: WriteShardMarkersRequest
    consumer_heartbeat: ConsumerHeartbeatRequest
    def __init__(self, correlation_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., heartbeat: _Optional[_Union[HeartbeatRequest, _Mapping]] = ..., commit_offsets: _Optional[_Union[CommitOffsetsRequest, _Mapping]] = ..., fetch_offsets: _Optional[_Union[FetchOffsetsRequest, _Mapping]] = ..., leave: _Optional[_Union[LeaveRequest, _Mapping]] = ..., write_txn_markers: _Optional[_Union[WriteShardMarkersRequest, _Mapping]] = ..., consumer_heartbeat: _Optional[_Union[ConsumerHeartbeatRequest, _Mapping]] = ...) -> None: ...

class GroupResponses(_message.Message):
    __slots__ = ("responses", "last_started")
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    LAST_STARTED_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[GroupResponse]
    last_started: int
    def __init__(self, responses: _Optional[_Iterable[_Union[GroupResponse, _Mapping]]] = ..., last_started: _Optional[int] = ...) -> None: ...

class GroupResponse(_message.Message):
    __slots__ = ("correlation_id", "not_started", "heartbeat", "commit_offsets", "fetch_offsets", "leave", "write_txn_markers", "consumer_heartbeat")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    NOT_STARTED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    COMMIT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    FETCH_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    WRITE_TXN_MARKERS_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    not_started: _common_pb2.Error
    heartbeat: HeartbeatResponse
    commit_offsets: CommitOffsetsResponse
    fetch_offsets: FetchOffsetsResponse
    leave: LeaveResponse
    write_txn_markers: WriteShardMarkersResponse
    consumer_heartbeat: ConsumerHeartbeatResponse
    def __init__(self, correlation_id: _Optional[int] = ..., not_started: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., heartbeat: _Optional[_Union[HeartbeatResponse, _Mapping]] = ..., commit_offsets: _Optional[_Union[CommitOffsetsResponse, _Mapping]] = ..., fetch_offsets: _Optional[_Union[FetchOffsetsResponse, _Mapping]] = ..., leave: _Optional[_Union[LeaveResponse, _Mapping]] = ..., write_txn_markers: _Optional[_Union[WriteShardMarkersResponse, _Mapping]] = ..., consumer_heartbeat: _Optional[_Union[ConsumerHeartbeatResponse, _Mapping]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("member_id", "instance_id")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    instance_id: str
    def __init__(self, member_id: _Optional[str] = ..., instance_id: _Optional[str] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("group", "member", "session_timeout_ms", "rebalance_timeout_ms", "protocol_type", "protocols", "member_id_required", "reason", "skips_assignment", "client_id", "client_host")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOLS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SKIPS_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    group: str
    member: Member
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: _containers.RepeatedCompositeFieldContainer[Protocol]
    member_id_required: bool
    reason: str
    skips_assignment: bool
    client_id: str
    client_host: str
    def __init__(self, group: _Optional[str] = ..., member: _Optional[_Union[Member, _Mapping]] = ..., session_timeout_ms: _Optional[int] = ..., rebalance_timeout_ms: _Optional[int] = ..., protocol_type: _Optional[str] = ..., protocols: _Optional[_Iterable[_Union[Protocol, _Mapping]]] = ..., member_id_required: _Optional[bool] = ..., reason: _Optional[str] = ..., skips_assignment: _Optional[bool] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ...) -> None: ...

class Protocol(_message.Message):
    __slots__ = ("name", "metadata")
    NAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    metadata: bytes
    def __init__(self, name: _Optional[str] = ..., metadata: _Optional[bytes] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ("error", "generation", "protocol_type", "protocol", "leader", "member_id", "members", "skip_assignment")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SKIP_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    members: _containers.RepeatedCompositeFieldContainer[Subscriber]
    skip_assignment: bool
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., generation: _Optional[int] = ..., protocol_type: _Optional[str] = ..., protocol: _Optional[str] = ..., leader: _Optional[str] = ..., member_id: _Optional[str] = ..., members: _Optional[_Iterable[_Union[Subscriber, _Mapping]]] = ..., skip_assignment: _Optional[bool] = ...) -> None: ...

class Subscriber(_message.Message):
    __slots__ = ("member", "metadata")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    member: Member
    metadata: bytes
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., metadata: _Optional[bytes] = ...) -> None: ...

class SyncRequest(_message.Message):
    __slots__ = ("group", "member", "generation", "protocol_type", "protocol", "assignments")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    group: str
    member: Member
    generation: int
    protocol_type: str
    protocol: str
    assignments: _containers.RepeatedCompositeFieldContainer[MemberAssignment]
    def __init__(self, group: _Optional[str] = ..., member: _Optional[_Union[Member, _Mapping]] = ..., generation: _Optional[int] = ..., protocol_type: _Optional[str] = ..., protocol: _Optional[str] = ..., assignments: _Optional[_Iterable[_Union[MemberAssignment, _Mapping]]] = ...) -> None: ...

class MemberAssignment(_message.Message):
    __slots__ = ("member_id", "assignment")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    assignment: bytes
    def __init__(self, member_id: _Optional[str] = ..., assignment: _Optional[bytes] = ...) -> None: ...

class SyncResponse(_message.Message):
    __slots__ = ("error", "protocol_type", "protocol", "assignment")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    protocol_type: str
    protocol: str
    assignment: bytes
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., protocol_type: _Optional[str] = ..., protocol: _Optional[str] = ..., assignment: _Optional[bytes] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("group", "member", "generation")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    group: str
    member: Member
    generation: int
    def __init__(self, group: _Optional[str] = ..., member: _Optional[_Union[Member, _Mapping]] = ..., generation: _Optional[int] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class ConsumerHeartbeatRequest(_message.Message):
    __slots__ = ("group", "member", "member_epoch", "rack", "rebalance_timeout_ms", "topics", "topic_regex", "assignor", "owned", "client_id", "client_host", "gives_no_id", "reader")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_REGEX_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    GIVES_NO_ID_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    group: str
    member: Member
    member_epoch: int
    rack: str
    rebalance_timeout_ms: int
    topics: SubscribedTopics
    topic_regex: str
    assignor: str
    owned: AssignedPartitions
    client_id: str
    client_host: str
    gives_no_id: bool
    reader: ReaderOfTopics
    def __init__(self, group: _Optional[str] = ..., member: _Optional[_Union[Member, _Mapping]] = ..., member_epoch: _Optional[int] = ..., rack: _Optional[str] = ..., rebalance_timeout_ms: _Optional[int] = ..., topics: _Optional[_Union[SubscribedTopics, _Mapping]] = ..., topic_regex: _Optional[str] = ..., assignor: _Optional[str] = ..., owned: _Optional[_Union[AssignedPartitions, _Mapping]] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., gives_no_id: _Optional[bool] = ..., reader: _Optional[_Union[ReaderOfTopics, _Mapping]] = ...) -> None: ...

class SubscribedTopics(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class AssignedPartitions(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[AssignedTopic]
    def __init__(self, topics: _Optional[_Iterable[_Union[AssignedTopic, _Mapping]]] = ...) -> None: ...

class AssignedTopic(_message.Message):
    __slots__ = ("topic_id", "partitions", "name")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    name: str
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ..., name: _Optional[str] = ...) -> None: ...

class ReaderOfTopics(_message.Message):
    __slots__ = ("principal", "host", "sees_unlisted")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SEES_UNLISTED_FIELD_NUMBER: _ClassVar[int]
    principal: str
    host: str
    sees_unlisted: bool
    def __init__(self, principal: _Optional[str] = ..., host: _Optional[str] = ..., sees_unlisted: _Optional[bool] = ...) -> None: ...

class ConsumerHeartbeatResponse(_message.Message):
    __slots__ = ("error", "member_id", "member_epoch", "heartbeat_interval_ms", "assignment")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: AssignedPartitions
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., heartbeat_interval_ms: _Optional[int] = ..., assignment: _Optional[_Union[AssignedPartitions, _Mapping]] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("group", "members")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    group: str
    members: _containers.RepeatedCompositeFieldContainer[Leaver]
    def __init__(self, group: _Optional[str] = ..., members: _Optional[_Iterable[_Union[Leaver, _Mapping]]] = ...) -> None: ...

class Leaver(_message.Message):
    __slots__ = ("member", "reason")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    member: Member
    reason: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class LeaveResponse(_message.Message):
    __slots__ = ("error", "members")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    members: _containers.RepeatedCompositeFieldContainer[Left]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., members: _Optional[_Iterable[_Union[Left, _Mapping]]] = ...) -> None: ...

class Left(_message.Message):
    __slots__ = ("member", "error")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    member: Member
    error: _common_pb2.Error
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("group", "member", "generation", "offsets", "transaction", "only_first", "knows_no_epochs")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIRST_FIELD_NUMBER: _ClassVar[int]
    KNOWS_NO_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    group: str
    member: Member
    generation: int
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetToCommit]
    transaction: OffsetsTransaction
    only_first: bool
    knows_no_epochs: bool
    def __init__(self, group: _Optional[str] = ..., member: _Optional[_Union[Member, _Mapping]] = ..., generation: _Optional[int] = ..., offsets: _Optional[_Iterable[_Union[OffsetToCommit, _Mapping]]] = ..., transaction: _Optional[_Union[OffsetsTransaction, _Mapping]] = ..., only_first: _Optional[bool] = ..., knows_no_epochs: _Optional[bool] = ...) -> None: ...

class OffsetsTransaction(_message.Message):
    __slots__ = ("transactional_id", "producer", "transaction_version")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer: _common_pb2.TxnProducer
    transaction_version: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., transaction_version: _Optional[int] = ...) -> None: ...

class OffsetToCommit(_message.Message):
    __slots__ = ("topic", "partition", "offset", "leader_epoch", "metadata", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: bytes
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., metadata: _Optional[str] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class CommitOffsetsResponse(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class PartitionOutcome(_message.Message):
    __slots__ = ("topic", "partition", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    error: _common_pb2.Error
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class FetchOffsetsRequest(_message.Message):
    __slots__ = ("group", "partitions", "all", "require_stable", "member", "generation")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_STABLE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    group: str
    partitions: _containers.RepeatedCompositeFieldContainer[GroupPartition]
    all: bool
    require_stable: bool
    member: Member
    generation: int
    def __init__(self, group: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[GroupPartition, _Mapping]]] = ..., all: _Optional[bool] = ..., require_stable: _Optional[bool] = ..., member: _Optional[_Union[Member, _Mapping]] = ..., generation: _Optional[int] = ...) -> None: ...

class GroupPartition(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class FetchOffsetsResponse(_message.Message):
    __slots__ = ("error", "offsets")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    offsets: _containers.RepeatedCompositeFieldContainer[CommittedOffset]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., offsets: _Optional[_Iterable[_Union[CommittedOffset, _Mapping]]] = ...) -> None: ...

class CommittedOffset(_message.Message):
    __slots__ = ("topic", "partition", "error", "offset", "leader_epoch", "metadata", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    error: _common_pb2.Error
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: bytes
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., metadata: _Optional[str] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class DeleteOffsetsRequest(_message.Message):
    __slots__ = ("group", "partitions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    partitions: _containers.RepeatedCompositeFieldContainer[GroupPartition]
    def __init__(self, group: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[GroupPartition, _Mapping]]] = ...) -> None: ...

class DeleteOffsetsResponse(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionOutcome]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionOutcome, _Mapping]]] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("states", "types", "shards")
    STATES_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[str]
    types: _containers.RepeatedScalarFieldContainer[str]
    shards: _common_pb2.ShardNumbers
    def __init__(self, states: _Optional[_Iterable[str]] = ..., types: _Optional[_Iterable[str]] = ..., shards: _Optional[_Union[_common_pb2.ShardNumbers, _Mapping]] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("error", "groups", "shards")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    groups: _containers.RepeatedCompositeFieldContainer[ListedGroup]
    shards: _common_pb2.ShardNumbers
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., groups: _Optional[_Iterable[_Union[ListedGroup, _Mapping]]] = ..., shards: _Optional[_Union[_common_pb2.ShardNumbers, _Mapping]] = ...) -> None: ...

class ListedGroup(_message.Message):
    __slots__ = ("group", "protocol_type", "state", "type", "members", "shard", "coordinator")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    group: str
    protocol_type: str
    state: str
    type: str
    members: int
    shard: int
    coordinator: int
    def __init__(self, group: _Optional[str] = ..., protocol_type: _Optional[str] = ..., state: _Optional[str] = ..., type: _Optional[str] = ..., members: _Optional[int] = ..., shard: _Optional[int] = ..., coordinator: _Optional[int] = ...) -> None: ...

class DescribeGroupsRequest(_message.Message):
    __slots__ = ("groups", "after_member")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    AFTER_MEMBER_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    after_member: str
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., after_member: _Optional[str] = ...) -> None: ...

class DescribeGroupsResponse(_message.Message):
    __slots__ = ("error", "groups")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    groups: _containers.RepeatedCompositeFieldContainer[GroupDescription]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., groups: _Optional[_Iterable[_Union[GroupDescription, _Mapping]]] = ...) -> None: ...

class GroupDescription(_message.Message):
    __slots__ = ("error", "group", "state", "protocol_type", "protocol", "generation", "leader", "members", "shard", "coordinator", "type", "assignment_epoch", "assignor", "has_more")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    group: str
    state: str
    protocol_type: str
    protocol: str
    generation: int
    leader: str
    members: _containers.RepeatedCompositeFieldContainer[MemberDescription]
    shard: int
    coordinator: int
    type: str
    assignment_epoch: int
    assignor: str
    has_more: bool
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., group: _Optional[str] = ..., state: _Optional[str] = ..., protocol_type: _Optional[str] = ..., protocol: _Optional[str] = ..., generation: _Optional[int] = ..., leader: _Optional[str] = ..., members: _Optional[_Iterable[_Union[MemberDescription, _Mapping]]] = ..., shard: _Optional[int] = ..., coordinator: _Optional[int] = ..., type: _Optional[str] = ..., assignment_epoch: _Optional[int] = ..., assignor: _Optional[str] = ..., has_more: _Optional[bool] = ...) -> None: ...

class MemberDescription(_message.Message):
    __slots__ = ("member", "client_id", "client_host", "metadata", "assignment", "session_timeout_ms", "rebalance_timeout_ms", "consumer")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    member: Member
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes
    session_timeout_ms: int
    rebalance_timeout_ms: int
    consumer: ConsumerMember
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., metadata: _Optional[bytes] = ..., assignment: _Optional[bytes] = ..., session_timeout_ms: _Optional[int] = ..., rebalance_timeout_ms: _Optional[int] = ..., consumer: _Optional[_Union[ConsumerMember, _Mapping]] = ...) -> None: ...

class ConsumerMember(_message.Message):
    __slots__ = ("epoch", "rack", "topics", "topic_regex", "assigned", "target", "is_classic", "state", "revoking")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_REGEX_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    IS_CLASSIC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REVOKING_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    rack: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    topic_regex: str
    assigned: AssignedPartitions
    target: AssignedPartitions
    is_classic: bool
    state: str
    revoking: AssignedPartitions
    def __init__(self, epoch: _Optional[int] = ..., rack: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., topic_regex: _Optional[str] = ..., assigned: _Optional[_Union[AssignedPartitions, _Mapping]] = ..., target: _Optional[_Union[AssignedPartitions, _Mapping]] = ..., is_classic: _Optional[bool] = ..., state: _Optional[str] = ..., revoking: _Optional[_Union[AssignedPartitions, _Mapping]] = ...) -> None: ...

class DeleteGroupsRequest(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteGroupsResponse(_message.Message):
    __slots__ = ("error", "groups")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    groups: _containers.RepeatedCompositeFieldContainer[GroupDeleted]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., groups: _Optional[_Iterable[_Union[GroupDeleted, _Mapping]]] = ...) -> None: ...

class GroupDeleted(_message.Message):
    __slots__ = ("group", "error")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    group: str
    error: _common_pb2.Error
    def __init__(self, group: _Optional[str] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class ExplainGroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class ExplainGroupResponse(_message.Message):
    __slots__ = ("error", "events", "since_ms")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    events: _containers.RepeatedCompositeFieldContainer[GroupEvent]
    since_ms: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., events: _Optional[_Iterable[_Union[GroupEvent, _Mapping]]] = ..., since_ms: _Optional[int] = ...) -> None: ...

class GroupEvent(_message.Message):
    __slots__ = ("at_ms", "kind", "member", "client_id", "client_host", "generation", "cause", "duration_ms", "partitions_moved")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_MOVED_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    kind: str
    member: Member
    client_id: str
    client_host: str
    generation: int
    cause: str
    duration_ms: int
    partitions_moved: int
    def __init__(self, at_ms: _Optional[int] = ..., kind: _Optional[str] = ..., member: _Optional[_Union[Member, _Mapping]] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., generation: _Optional[int] = ..., cause: _Optional[str] = ..., duration_ms: _Optional[int] = ..., partitions_moved: _Optional[int] = ...) -> None: ...

class LagRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class LagResponse(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionLag]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionLag, _Mapping]]] = ...) -> None: ...

class PartitionLag(_message.Message):
    __slots__ = ("topic", "partition", "error", "committed", "log_start_offset", "log_end_offset", "records", "oldest_unread_ms", "member_id", "client_id", "client_host")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_UNREAD_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    error: _common_pb2.Error
    committed: int
    log_start_offset: int
    log_end_offset: int
    records: int
    oldest_unread_ms: int
    member_id: str
    client_id: str
    client_host: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., committed: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., records: _Optional[int] = ..., oldest_unread_ms: _Optional[int] = ..., member_id: _Optional[str] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ...) -> None: ...

class WriteShardMarkersRequest(_message.Message):
    __slots__ = ("markers", "timeout_ms")
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    markers: _containers.RepeatedCompositeFieldContainer[ShardsMarker]
    timeout_ms: int
    def __init__(self, markers: _Optional[_Iterable[_Union[ShardsMarker, _Mapping]]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ShardsMarker(_message.Message):
    __slots__ = ("marker", "shards")
    MARKER_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    marker: _common_pb2.TxnMarker
    shards: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, marker: _Optional[_Union[_common_pb2.TxnMarker, _Mapping]] = ..., shards: _Optional[_Iterable[int]] = ...) -> None: ...

class WriteShardMarkersResponse(_message.Message):
    __slots__ = ("error", "markers")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    markers: _containers.RepeatedCompositeFieldContainer[ShardMarkerWritten]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., markers: _Optional[_Iterable[_Union[ShardMarkerWritten, _Mapping]]] = ...) -> None: ...

class ShardMarkerWritten(_message.Message):
    __slots__ = ("shards",)
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[_common_pb2.Error]
    def __init__(self, shards: _Optional[_Iterable[_Union[_common_pb2.Error, _Mapping]]] = ...) -> None: ...
