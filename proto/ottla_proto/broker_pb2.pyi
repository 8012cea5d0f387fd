from ottla_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BrokerCalls(_message.Message):
    __slots__ = ("calls", "cancelled")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[BrokerCall]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, calls: _Optional[_Iterable[_Union[BrokerCall, _Mapping]]] = ..., cancelled: _Optional[_Iterable[int]] = ...) -> None: ...

class BrokerCall(_message.Message):
    __slots__ = ("correlation_id", "timeout_ms", "check_fence", "write_txn_markers")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    CHECK_FENCE_FIELD_NUMBER: _ClassVar[int]
    WRITE_TXN_MARKERS_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    timeout_ms: int
    check_fence: CheckFenceRequest
    write_txn_markers: WriteTxnMarkersRequest
    def __init__(self, correlation_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., check_fence: _Optional[_Union[CheckFenceRequest, _Mapping]] = ..., write_txn_markers: _Optional[_Union[WriteTxnMarkersRequest, _Mapping]] = ...) -> None: ...

class BrokerResponses(_message.Message):
    __slots__ = ("responses", "last_started")
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    LAST_STARTED_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[BrokerResponse]
    last_started: int
    def __init__(self, responses: _Optional[_Iterable[_Union[BrokerResponse, _Mapping]]] = ..., last_started: _Optional[int] = ...) -> None: ...

class BrokerResponse(_message.Message):
    __slots__ = ("correlation_id", "not_started", "check_fence", "write_txn_markers")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    NOT_STARTED_FIELD_NUMBER: _ClassVar[int]
    CHECK_FENCE_FIELD_NUMBER: _ClassVar[int]
    WRITE_TXN_MARKERS_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    not_started: _common_pb2.Error
    check_fence: CheckFenceResponse
    write_txn_markers: WriteTxnMarkersResponse
    def __init__(self, correlation_id: _Optional[int] = ..., not_started: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., check_fence: _Optional[_Union[CheckFenceResponse, _Mapping]] = ..., write_txn_markers: _Optional[_Union[WriteTxnMarkersResponse, _Mapping]] = ...) -> None: ...

class AppendCalls(_message.Message):
    __slots__ = ("calls", "cancelled")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[AppendCall]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, calls: _Optional[_Iterable[_Union[AppendCall, _Mapping]]] = ..., cancelled: _Optional[_Iterable[int]] = ...) -> None: ...

class AppendCall(_message.Message):
    __slots__ = ("correlation_id", "timeout_ms", "shard_append")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SHARD_APPEND_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    timeout_ms: int
    shard_append: ShardAppendRequest
    def __init__(self, correlation_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., shard_append: _Optional[_Union[ShardAppendRequest, _Mapping]] = ...) -> None: ...

class AppendResponses(_message.Message):
    __slots__ = ("responses", "last_started")
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    LAST_STARTED_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[AppendResponse]
    last_started: int
    def __init__(self, responses: _Optional[_Iterable[_Union[AppendResponse, _Mapping]]] = ..., last_started: _Optional[int] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("correlation_id", "not_started", "shard_append")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    NOT_STARTED_FIELD_NUMBER: _ClassVar[int]
    SHARD_APPEND_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    not_started: _common_pb2.Error
    shard_append: ShardAppendResponse
    def __init__(self, correlation_id: _Optional[int] = ..., not_started: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., shard_append: _Optional[_Union[ShardAppendResponse, _Mapping]] = ...) -> None: ...

class Leader(_message.Message):
    __slots__ = ("broker_id", "leader_epoch", "address")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    leader_epoch: int
    address: str
    def __init__(self, broker_id: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class FetchFrame(_message.Message):
    __slots__ = ("correlation_id", "timeout_ms", "body")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    timeout_ms: int
    body: FetchRequest
    def __init__(self, correlation_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., body: _Optional[_Union[FetchRequest, _Mapping]] = ...) -> None: ...

class FetchResponseFrame(_message.Message):
    __slots__ = ("correlation_id", "body")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    body: FetchResponse
    def __init__(self, correlation_id: _Optional[int] = ..., body: _Optional[_Union[FetchResponse, _Mapping]] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("max_wait_ms", "min_bytes", "max_bytes", "partitions", "follower", "rack", "from_follower", "forgotten", "session", "read_committed")
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWER_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    FROM_FOLLOWER_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    READ_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: _containers.RepeatedCompositeFieldContainer[FetchPartition]
    follower: Follower
    rack: str
    from_follower: bool
    forgotten: _containers.RepeatedCompositeFieldContainer[ForgottenPartition]
    session: FetchSession
    read_committed: bool
    def __init__(self, max_wait_ms: _Optional[int] = ..., min_bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[FetchPartition, _Mapping]]] = ..., follower: _Optional[_Union[Follower, _Mapping]] = ..., rack: _Optional[str] = ..., from_follower: _Optional[bool] = ..., forgotten: _Optional[_Iterable[_Union[ForgottenPartition, _Mapping]]] = ..., session: _Optional[_Union[FetchSession, _Mapping]] = ..., read_committed: _Optional[bool] = ...) -> None: ...

class Follower(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "seen_confirmation", "secret", "session")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEEN_CONFIRMATION_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    seen_confirmation: int
    secret: bytes
    session: FetchSession
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., seen_confirmation: _Optional[int] = ..., secret: _Optional[bytes] = ..., session: _Optional[_Union[FetchSession, _Mapping]] = ...) -> None: ...

class FetchSession(_message.Message):
    __slots__ = ("id", "responses", "begins")
    ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    id: int
    responses: int
    begins: bool
    def __init__(self, id: _Optional[int] = ..., responses: _Optional[int] = ..., begins: _Optional[bool] = ...) -> None: ...

class ForgottenPartition(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ...) -> None: ...

class FetchPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "current_leader_epoch", "fetch_offset", "max_bytes", "last_fetched_epoch", "high_watermark", "log_start_offset", "has_readers")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FETCH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAST_FETCHED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HAS_READERS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    max_bytes: int
    last_fetched_epoch: int
    high_watermark: int
    log_start_offset: int
    has_readers: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., fetch_offset: _Optional[int] = ..., max_bytes: _Optional[int] = ..., last_fetched_epoch: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., has_readers: _Optional[bool] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("error", "partitions", "newest_confirmation", "session")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NEWEST_CONFIRMATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionFetched]
    newest_confirmation: int
    session: FetchSession
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionFetched, _Mapping]]] = ..., newest_confirmation: _Optional[int] = ..., session: _Optional[_Union[FetchSession, _Mapping]] = ...) -> None: ...

class PartitionFetched(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "high_watermark", "log_start_offset", "records", "current_leader", "diverging_epoch", "preferred_read_replica", "last_stable_offset", "aborted", "epochs", "purged_before")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    DIVERGING_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_READ_REPLICA_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    PURGED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    error: _common_pb2.Error
    high_watermark: int
    log_start_offset: int
    records: bytes
    current_leader: Leader
    diverging_epoch: EpochEnd
    preferred_read_replica: int
    last_stable_offset: int
    aborted: _containers.RepeatedCompositeFieldContainer[AbortedTransaction]
    epochs: _containers.RepeatedCompositeFieldContainer[EpochStart]
    purged_before: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., records: _Optional[bytes] = ..., current_leader: _Optional[_Union[Leader, _Mapping]] = ..., diverging_epoch: _Optional[_Union[EpochEnd, _Mapping]] = ..., preferred_read_replica: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., aborted: _Optional[_Iterable[_Union[AbortedTransaction, _Mapping]]] = ..., epochs: _Optional[_Iterable[_Union[EpochStart, _Mapping]]] = ..., purged_before: _Optional[int] = ...) -> None: ...

class EpochStart(_message.Message):
    __slots__ = ("leader_epoch", "start_offset")
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    leader_epoch: int
    start_offset: int
    def __init__(self, leader_epoch: _Optional[int] = ..., start_offset: _Optional[int] = ...) -> None: ...

class AbortedTransaction(_message.Message):
    __slots__ = ("producer_id", "first_offset")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    first_offset: int
    def __init__(self, producer_id: _Optional[int] = ..., first_offset: _Optional[int] = ...) -> None: ...

class EpochEnd(_message.Message):
    __slots__ = ("leader_epoch", "end_offset")
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    leader_epoch: int
    end_offset: int
    def __init__(self, leader_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class ListOffsetsRequest(_message.Message):
    __slots__ = ("partitions", "read_committed")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    READ_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ListOffsetsPartition]
    read_committed: bool
    def __init__(self, partitions: _Optional[_Iterable[_Union[ListOffsetsPartition, _Mapping]]] = ..., read_committed: _Optional[bool] = ...) -> None: ...

class ListOffsetsPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "current_leader_epoch", "timestamp_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    timestamp_ms: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class ListOffsetsResponse(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ...) -> None: ...

class PartitionOffset(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "offset", "timestamp_ms", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    error: _common_pb2.Error
    offset: int
    timestamp_ms: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class LogEndsRequest(_message.Message):
    __slots__ = ("revision", "partitions")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionOfLog]
    def __init__(self, revision: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionOfLog, _Mapping]]] = ...) -> None: ...

class PartitionOfLog(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ...) -> None: ...

class LogEndsResponse(_message.Message):
    __slots__ = ("error", "broker_epoch", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    broker_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[LogEnd]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., broker_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[LogEnd, _Mapping]]] = ...) -> None: ...

class LogEnd(_message.Message):
    __slots__ = ("topic_id", "partition", "last_epoch", "log_end_offset", "sound", "latest_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SOUND_FIELD_NUMBER: _ClassVar[int]
    LATEST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    last_epoch: int
    log_end_offset: int
    sound: bool
    latest_epoch: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., last_epoch: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., sound: _Optional[bool] = ..., latest_epoch: _Optional[int] = ...) -> None: ...

class ShardAppendRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "kind", "shard_epoch", "incarnation", "expected_next_offset", "records", "timeout_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    kind: str
    shard_epoch: int
    incarnation: int
    expected_next_offset: int
    records: bytes
    timeout_ms: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., kind: _Optional[str] = ..., shard_epoch: _Optional[int] = ..., incarnation: _Optional[int] = ..., expected_next_offset: _Optional[int] = ..., records: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ShardAppendResponse(_message.Message):
    __slots__ = ("error", "base_offset", "high_watermark", "log_end_offset", "current_leader_epoch", "current_fence", "current_leader")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FENCE_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    base_offset: int
    high_watermark: int
    log_end_offset: int
    current_leader_epoch: int
    current_fence: ShardFence
    current_leader: Leader
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., base_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., current_fence: _Optional[_Union[ShardFence, _Mapping]] = ..., current_leader: _Optional[_Union[Leader, _Mapping]] = ...) -> None: ...

class ShardFence(_message.Message):
    __slots__ = ("shard_epoch", "incarnation")
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    shard_epoch: int
    incarnation: int
    def __init__(self, shard_epoch: _Optional[int] = ..., incarnation: _Optional[int] = ...) -> None: ...

class CheckFenceRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "shard_epoch", "incarnation", "next_offset", "timeout_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    shard_epoch: int
    incarnation: int
    next_offset: int
    timeout_ms: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., shard_epoch: _Optional[int] = ..., incarnation: _Optional[int] = ..., next_offset: _Optional[int] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class CheckFenceResponse(_message.Message):
    __slots__ = ("error", "high_watermark", "current_leader")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    high_watermark: int
    current_leader: Leader
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., high_watermark: _Optional[int] = ..., current_leader: _Optional[_Union[Leader, _Mapping]] = ...) -> None: ...

class WriteTxnMarkersRequest(_message.Message):
    __slots__ = ("markers", "timeout_ms")
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    markers: _containers.RepeatedCompositeFieldContainer[PartitionsMarker]
    timeout_ms: int
    def __init__(self, markers: _Optional[_Iterable[_Union[PartitionsMarker, _Mapping]]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class PartitionsMarker(_message.Message):
    __slots__ = ("marker", "partitions")
    MARKER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    marker: _common_pb2.TxnMarker
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionOfLog]
    def __init__(self, marker: _Optional[_Union[_common_pb2.TxnMarker, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionOfLog, _Mapping]]] = ...) -> None: ...

class WriteTxnMarkersResponse(_message.Message):
    __slots__ = ("error", "markers")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    markers: _containers.RepeatedCompositeFieldContainer[MarkerWritten]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., markers: _Optional[_Iterable[_Union[MarkerWritten, _Mapping]]] = ...) -> None: ...

class MarkerWritten(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.Error]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_common_pb2.Error, _Mapping]]] = ...) -> None: ...

class ReplicaEpochsRequest(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ...) -> None: ...

class ReplicaEpochsResponse(_message.Message):
    __slots__ = ("error", "epochs", "log_start_offset", "high_watermark")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    epochs: _containers.RepeatedCompositeFieldContainer[EpochStart]
    log_start_offset: int
    high_watermark: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., epochs: _Optional[_Iterable[_Union[EpochStart, _Mapping]]] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ...) -> None: ...

class ImportRecordsRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "expected_next_offset", "records", "log_start_offset", "timeout_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    expected_next_offset: int
    records: bytes
    log_start_offset: int
    timeout_ms: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., expected_next_offset: _Optional[int] = ..., records: _Optional[bytes] = ..., log_start_offset: _Optional[int] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ImportRecordsResponse(_message.Message):
    __slots__ = ("error", "next_offset")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    next_offset: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., next_offset: _Optional[int] = ...) -> None: ...
