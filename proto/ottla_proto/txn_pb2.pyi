from ottla_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TxnCalls(_message.Message):
    __slots__ = ("calls", "cancelled")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[TxnCall]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, calls: _Optional[_Iterable[_Union[TxnCall, _Mapping]]] = ..., cancelled: _Optional[_Iterable[int]] = ...) -> None: ...

class TxnCall(_message.Message):
    __slots__ = ("correlation_id", "timeout_ms", "init_producer", "add_partitions", "add_offsets", "end_txn")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    INIT_PRODUCER_FIELD_NUMBER: _ClassVar[int]
    ADD_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ADD_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    END_TXN_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    timeout_ms: int
    init_producer: InitProducerRequest
    add_partitions: AddPartitionsRequest
    add_offsets: AddOffsetsRequest
    end_txn: EndTxnRequest
    def __init__(self, correlation_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., init_producer: _Optional[_Union[InitProducerRequest, _Mapping]] = ..., add_partitions: _Optional[_Union[AddPartitionsRequest, _Mapping]] = ..., add_offsets: _Optional[_Union[AddOffsetsRequest, _Mapping]] = ..., end_txn: _Optional[_Union[EndTxnRequest, _Mapping]] = ...) -> None: ...

class TxnResponses(_message.Message):
    __slots__ = ("responses", "last_started")
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    LAST_STARTED_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[TxnResponse]
    last_started: int
    def __init__(self, responses: _Optional[_Iterable[_Union[TxnResponse, _Mapping]]] = ..., last_started: _Optional[int] = ...) -> None: ...

class TxnResponse(_message.Message):
    __slots__ = ("correlation_id", "not_started", "init_producer", "add_partitions", "add_offsets", "end_txn")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    NOT_STARTED_FIELD_NUMBER: _ClassVar[int]
    INIT_PRODUCER_FIELD_NUMBER: _ClassVar[int]
    ADD_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ADD_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    END_TXN_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    not_started: _common_pb2.Error
    init_producer: InitProducerResponse
    add_partitions: AddPartitionsResponse
    add_offsets: AddOffsetsResponse
    end_txn: EndTxnResponse
    def __init__(self, correlation_id: _Optional[int] = ..., not_started: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., init_producer: _Optional[_Union[InitProducerResponse, _Mapping]] = ..., add_partitions: _Optional[_Union[AddPartitionsResponse, _Mapping]] = ..., add_offsets: _Optional[_Union[AddOffsetsResponse, _Mapping]] = ..., end_txn: _Optional[_Union[EndTxnResponse, _Mapping]] = ...) -> None: ...

class InitProducerRequest(_message.Message):
    __slots__ = ("transactional_id", "timeout_ms", "producer", "two_phase_commit", "keep_prepared", "client_id", "client_host")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    TWO_PHASE_COMMIT_FIELD_NUMBER: _ClassVar[int]
    KEEP_PREPARED_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    timeout_ms: int
    producer: _common_pb2.TxnProducer
    two_phase_commit: bool
    keep_prepared: bool
    client_id: str
    client_host: str
    def __init__(self, transactional_id: _Optional[str] = ..., timeout_ms: _Optional[int] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., two_phase_commit: _Optional[bool] = ..., keep_prepared: _Optional[bool] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ...) -> None: ...

class InitProducerResponse(_message.Message):
    __slots__ = ("error", "producer", "kept", "transaction_version")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    producer: _common_pb2.TxnProducer
    kept: _common_pb2.TxnProducer
    transaction_version: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., kept: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., transaction_version: _Optional[int] = ...) -> None: ...

class AddPartitionsRequest(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[PartitionsToAdd]
    def __init__(self, transactions: _Optional[_Iterable[_Union[PartitionsToAdd, _Mapping]]] = ...) -> None: ...

class PartitionsToAdd(_message.Message):
    __slots__ = ("transactional_id", "producer", "partitions", "verify_only", "transaction_version", "coordinator_epoch")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    VERIFY_ONLY_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer: _common_pb2.TxnProducer
    partitions: _containers.RepeatedCompositeFieldContainer[TxnPartition]
    verify_only: bool
    transaction_version: int
    coordinator_epoch: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[TxnPartition, _Mapping]]] = ..., verify_only: _Optional[bool] = ..., transaction_version: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ...) -> None: ...

class TxnPartition(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class AddPartitionsResponse(_message.Message):
    __slots__ = ("error", "transactions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    transactions: _containers.RepeatedCompositeFieldContainer[PartitionsAdded]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., transactions: _Optional[_Iterable[_Union[PartitionsAdded, _Mapping]]] = ...) -> None: ...

class PartitionsAdded(_message.Message):
    __slots__ = ("error", "partitions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.Error]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[_common_pb2.Error, _Mapping]]] = ...) -> None: ...

class AddOffsetsRequest(_message.Message):
    __slots__ = ("transactional_id", "producer", "group", "verify_only", "transaction_version", "coordinator_epoch")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VERIFY_ONLY_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer: _common_pb2.TxnProducer
    group: str
    verify_only: bool
    transaction_version: int
    coordinator_epoch: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., group: _Optional[str] = ..., verify_only: _Optional[bool] = ..., transaction_version: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ...) -> None: ...

class AddOffsetsResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class EndTxnRequest(_message.Message):
    __slots__ = ("transactional_id", "producer", "committed", "transaction_version", "client_id", "client_host")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer: _common_pb2.TxnProducer
    committed: bool
    transaction_version: int
    client_id: str
    client_host: str
    def __init__(self, transactional_id: _Optional[str] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., committed: _Optional[bool] = ..., transaction_version: _Optional[int] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ...) -> None: ...

class EndTxnResponse(_message.Message):
    __slots__ = ("error", "producer")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    producer: _common_pb2.TxnProducer
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ...) -> None: ...

class PrepareRequest(_message.Message):
    __slots__ = ("transactional_id", "producer", "client_id", "client_host")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer: _common_pb2.TxnProducer
    client_id: str
    client_host: str
    def __init__(self, transactional_id: _Optional[str] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ...) -> None: ...

class PrepareResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class ForgetRequest(_message.Message):
    __slots__ = ("transactional_id", "producer")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer: _common_pb2.TxnProducer
    def __init__(self, transactional_id: _Optional[str] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ...) -> None: ...

class ForgetResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ("states", "producer_ids", "longer_than_ms", "prefix", "pattern", "shards")
    STATES_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_FIELD_NUMBER: _ClassVar[int]
    LONGER_THAN_MS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[str]
    producer_ids: _containers.RepeatedScalarFieldContainer[int]
    longer_than_ms: int
    prefix: str
    pattern: str
    shards: _common_pb2.ShardNumbers
    def __init__(self, states: _Optional[_Iterable[str]] = ..., producer_ids: _Optional[_Iterable[int]] = ..., longer_than_ms: _Optional[int] = ..., prefix: _Optional[str] = ..., pattern: _Optional[str] = ..., shards: _Optional[_Union[_common_pb2.ShardNumbers, _Mapping]] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("error", "unknown_states", "transactions", "shards")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_STATES_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    unknown_states: _containers.RepeatedScalarFieldContainer[str]
    transactions: _containers.RepeatedCompositeFieldContainer[ListedTransaction]
    shards: _common_pb2.ShardNumbers
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., unknown_states: _Optional[_Iterable[str]] = ..., transactions: _Optional[_Iterable[_Union[ListedTransaction, _Mapping]]] = ..., shards: _Optional[_Union[_common_pb2.ShardNumbers, _Mapping]] = ...) -> None: ...

class ListedTransaction(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "state", "shard", "coordinator")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    state: str
    shard: int
    coordinator: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., state: _Optional[str] = ..., shard: _Optional[int] = ..., coordinator: _Optional[int] = ...) -> None: ...

class DescribeTransactionsRequest(_message.Message):
    __slots__ = ("transactional_ids",)
    TRANSACTIONAL_IDS_FIELD_NUMBER: _ClassVar[int]
    transactional_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, transactional_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeTransactionsResponse(_message.Message):
    __slots__ = ("error", "transactions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionDescription]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., transactions: _Optional[_Iterable[_Union[TransactionDescription, _Mapping]]] = ...) -> None: ...

class TransactionDescription(_message.Message):
    __slots__ = ("error", "transactional_id", "state", "producer", "timeout_ms", "started_at_ms", "updated_at_ms", "partitions", "prepared", "transaction_version", "events", "shard", "coordinator")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    transactional_id: str
    state: str
    producer: _common_pb2.TxnProducer
    timeout_ms: int
    started_at_ms: int
    updated_at_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[TxnPartition]
    prepared: bool
    transaction_version: int
    events: _containers.RepeatedCompositeFieldContainer[TransactionEvent]
    shard: int
    coordinator: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., transactional_id: _Optional[str] = ..., state: _Optional[str] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., timeout_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., updated_at_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[TxnPartition, _Mapping]]] = ..., prepared: _Optional[bool] = ..., transaction_version: _Optional[int] = ..., events: _Optional[_Iterable[_Union[TransactionEvent, _Mapping]]] = ..., shard: _Optional[int] = ..., coordinator: _Optional[int] = ...) -> None: ...

class TransactionEvent(_message.Message):
    __slots__ = ("at_ms", "kind", "producer", "client_id", "client_host", "cause")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    kind: str
    producer: _common_pb2.TxnProducer
    client_id: str
    client_host: str
    cause: str
    def __init__(self, at_ms: _Optional[int] = ..., kind: _Optional[str] = ..., producer: _Optional[_Union[_common_pb2.TxnProducer, _Mapping]] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., cause: _Optional[str] = ...) -> None: ...
