from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Error(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class TxnProducer(_message.Message):
    __slots__ = ("id", "epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: int
    epoch: int
    def __init__(self, id: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class TxnMarker(_message.Message):
    __slots__ = ("producer", "committed", "coordinator_epoch", "transaction_version")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    producer: TxnProducer
    committed: bool
    coordinator_epoch: int
    transaction_version: int
    def __init__(self, producer: _Optional[_Union[TxnProducer, _Mapping]] = ..., committed: _Optional[bool] = ..., coordinator_epoch: _Optional[int] = ..., transaction_version: _Optional[int] = ...) -> None: ...

class ShardNumbers(_message.Message):
    __slots__ = ("numbers", "total")
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    total: int
    def __init__(self, numbers: _Optional[_Iterable[int]] = ..., total: _Optional[int] = ...) -> None: ...

class ShardsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShardsResponse(_message.Message):
    __slots__ = ("error", "shards")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    error: Error
    shards: _containers.RepeatedCompositeFieldContainer[ShardStanding]
    def __init__(self, error: _Optional[_Union[Error, _Mapping]] = ..., shards: _Optional[_Iterable[_Union[ShardStanding, _Mapping]]] = ...) -> None: ...

class ShardStanding(_message.Message):
    __slots__ = ("shard", "phase", "for_ms", "next_offset", "trouble", "unreadable", "coordinator")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    FOR_MS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    shard: int
    phase: str
    for_ms: int
    next_offset: int
    trouble: str
    unreadable: int
    coordinator: int
    def __init__(self, shard: _Optional[int] = ..., phase: _Optional[str] = ..., for_ms: _Optional[int] = ..., next_offset: _Optional[int] = ..., trouble: _Optional[str] = ..., unreadable: _Optional[int] = ..., coordinator: _Optional[int] = ...) -> None: ...

class Frames(_message.Message):
    __slots__ = ("frames", "cancelled")
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedScalarFieldContainer[bytes]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, frames: _Optional[_Iterable[bytes]] = ..., cancelled: _Optional[_Iterable[int]] = ...) -> None: ...

class ResponseFrames(_message.Message):
    __slots__ = ("frames", "last_started")
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    LAST_STARTED_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedScalarFieldContainer[bytes]
    last_started: int
    def __init__(self, frames: _Optional[_Iterable[bytes]] = ..., last_started: _Optional[int] = ...) -> None: ...
