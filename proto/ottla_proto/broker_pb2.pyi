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

class ProduceRequest(_message.Message):
    __slots__ = ("acks", "partitions", "transactional_id", "transaction_version")
    ACKS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    acks: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionRecords]
    transactional_id: str
    transaction_version: int
    def __init__(self, acks: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionRecords, _Mapping]]] = ..., transactional_id: _Optional[str] = ..., transaction_version: _Optional[int] = ...) -> None: ...

class PartitionRecords(_message.Message):
    __slots__ = ("topic_id", "partition", "current_leader_epoch", "records")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    records: bytes
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., records: _Optional[bytes] = ...) -> None: ...

class ProduceResponse(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionAppended]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionAppended, _Mapping]]] = ...) -> None: ...

class PartitionAppended(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "base_offset", "log_append_time_ms", "log_start_offset", "current_leader")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    error: _common_pb2.Error
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    current_leader: Leader
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., base_offset: _Optional[int] = ..., log_append_time_ms: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., current_leader: _Optional[_Union[Leader, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("topic_id", "partition", "error", "high_watermark", "log_start_offset", "records", "current_leader", "diverging_epoch", "preferred_read_replica", "last_stable_offset", "aborted")
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
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., records: _Optional[bytes] = ..., current_leader: _Optional[_Union[Leader, _Mapping]] = ..., diverging_epoch: _Optional[_Union[EpochEnd, _Mapping]] = ..., preferred_read_replica: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., aborted: _Optional[_Iterable[_Union[AbortedTransaction, _Mapping]]] = ...) -> None: ...

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

class MetadataRequest(_message.Message):
    __slots__ = ("topics", "all_topics")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ALL_TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    all_topics: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., all_topics: _Optional[bool] = ...) -> None: ...

class MetadataResponse(_message.Message):
    __slots__ = ("error", "cluster_id", "revision", "brokers", "controller", "topics")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    cluster_id: str
    revision: int
    brokers: _containers.RepeatedCompositeFieldContainer[BrokerNode]
    controller: ControllerNode
    topics: _containers.RepeatedCompositeFieldContainer[TopicMetadata]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., cluster_id: _Optional[str] = ..., revision: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[BrokerNode, _Mapping]]] = ..., controller: _Optional[_Union[ControllerNode, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicMetadata, _Mapping]]] = ...) -> None: ...

class BrokerNode(_message.Message):
    __slots__ = ("id", "address", "kafka_address", "rack", "epoch", "fenced", "read_only", "kafka_listeners")
    class KafkaListenersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KAFKA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    KAFKA_LISTENERS_FIELD_NUMBER: _ClassVar[int]
    id: int
    address: str
    kafka_address: str
    rack: str
    epoch: int
    fenced: bool
    read_only: bool
    kafka_listeners: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[int] = ..., address: _Optional[str] = ..., kafka_address: _Optional[str] = ..., rack: _Optional[str] = ..., epoch: _Optional[int] = ..., fenced: _Optional[bool] = ..., read_only: _Optional[bool] = ..., kafka_listeners: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ControllerNode(_message.Message):
    __slots__ = ("id", "address", "epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: int
    address: str
    epoch: int
    def __init__(self, id: _Optional[int] = ..., address: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class TopicMetadata(_message.Message):
    __slots__ = ("error", "name", "topic_id", "is_internal", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    IS_INTERNAL_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionMetadata]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., is_internal: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[PartitionMetadata, _Mapping]]] = ...) -> None: ...

class PartitionMetadata(_message.Message):
    __slots__ = ("error", "partition", "leader", "leader_epoch", "replicas", "isr", "offline_replicas", "eligible_leader_replicas", "last_known_elr")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_LEADER_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LAST_KNOWN_ELR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partition: int
    leader: int
    leader_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedScalarFieldContainer[int]
    offline_replicas: _containers.RepeatedScalarFieldContainer[int]
    eligible_leader_replicas: _containers.RepeatedScalarFieldContainer[int]
    last_known_elr: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ..., offline_replicas: _Optional[_Iterable[int]] = ..., eligible_leader_replicas: _Optional[_Iterable[int]] = ..., last_known_elr: _Optional[_Iterable[int]] = ...) -> None: ...

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

class DeleteRecordsRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[DeleteRecordsPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[DeleteRecordsPartition, _Mapping]]] = ...) -> None: ...

class DeleteRecordsPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "before_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BEFORE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    before_offset: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., before_offset: _Optional[int] = ...) -> None: ...

class DeleteRecordsResponse(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionLowWatermark]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionLowWatermark, _Mapping]]] = ...) -> None: ...

class PartitionLowWatermark(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "low_watermark")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LOW_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    error: _common_pb2.Error
    low_watermark: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., low_watermark: _Optional[int] = ...) -> None: ...

class DescribeLogDirsRequest(_message.Message):
    __slots__ = ("topic_ids",)
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, topic_ids: _Optional[_Iterable[bytes]] = ...) -> None: ...

class DescribeLogDirsResponse(_message.Message):
    __slots__ = ("error", "log_dirs")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    log_dirs: _containers.RepeatedCompositeFieldContainer[LogDir]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., log_dirs: _Optional[_Iterable[_Union[LogDir, _Mapping]]] = ...) -> None: ...

class LogDir(_message.Message):
    __slots__ = ("error", "path", "total_bytes", "usable_bytes", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    USABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    path: str
    total_bytes: int
    usable_bytes: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionSize]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., path: _Optional[str] = ..., total_bytes: _Optional[int] = ..., usable_bytes: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionSize, _Mapping]]] = ...) -> None: ...

class PartitionSize(_message.Message):
    __slots__ = ("topic_id", "topic", "partition", "size_bytes", "uncleanable", "late_transaction")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNCLEANABLE_FIELD_NUMBER: _ClassVar[int]
    LATE_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    topic: str
    partition: int
    size_bytes: int
    uncleanable: str
    late_transaction: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., size_bytes: _Optional[int] = ..., uncleanable: _Optional[str] = ..., late_transaction: _Optional[bool] = ...) -> None: ...

class OffsetsForLeaderEpochRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[EpochOfPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[EpochOfPartition, _Mapping]]] = ...) -> None: ...

class EpochOfPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "current_leader_epoch", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class OffsetsForLeaderEpochResponse(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[EpochEndOfPartition]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[EpochEndOfPartition, _Mapping]]] = ...) -> None: ...

class EpochEndOfPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "error", "end")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    error: _common_pb2.Error
    end: EpochEnd
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., end: _Optional[_Union[EpochEnd, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("topic_id", "partition", "last_epoch", "log_end_offset", "sound")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SOUND_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    last_epoch: int
    log_end_offset: int
    sound: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., last_epoch: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., sound: _Optional[bool] = ...) -> None: ...

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

class InitProducerIdRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InitProducerIdResponse(_message.Message):
    __slots__ = ("error", "producer_id", "producer_epoch")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    producer_id: int
    producer_epoch: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ...) -> None: ...

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

class DescribeProducersRequest(_message.Message):
    __slots__ = ("partitions", "open_only")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    OPEN_ONLY_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionOfLog]
    open_only: bool
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionOfLog, _Mapping]]] = ..., open_only: _Optional[bool] = ...) -> None: ...

class DescribeProducersResponse(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionProducers]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionProducers, _Mapping]]] = ...) -> None: ...

class PartitionProducers(_message.Message):
    __slots__ = ("error", "high_watermark", "last_stable_offset", "producers")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    high_watermark: int
    last_stable_offset: int
    producers: _containers.RepeatedCompositeFieldContainer[ActiveProducer]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., high_watermark: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., producers: _Optional[_Iterable[_Union[ActiveProducer, _Mapping]]] = ...) -> None: ...

class ActiveProducer(_message.Message):
    __slots__ = ("producer", "last_sequence", "last_timestamp_ms", "coordinator_epoch", "first_offset")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    producer: _common_pb2.TxnProducer
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    first_offset: int
    def __init__(self, producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., last_sequence: _Optional[int] = ..., last_timestamp_ms: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ..., first_offset: _Optional[int] = ...) -> None: ...
