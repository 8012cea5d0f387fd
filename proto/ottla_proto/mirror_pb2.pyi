from ottla_proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MirrorStatusRequest(_message.Message):
    __slots__ = ("flow",)
    FLOW_FIELD_NUMBER: _ClassVar[int]
    flow: str
    def __init__(self, flow: _Optional[str] = ...) -> None: ...

class MirrorStatusResponse(_message.Message):
    __slots__ = ("error", "flows", "mirror")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    flows: _containers.RepeatedCompositeFieldContainer[FlowStatus]
    mirror: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., flows: _Optional[_Iterable[_Union[FlowStatus, _Mapping]]] = ..., mirror: _Optional[int] = ...) -> None: ...

class FlowStatus(_message.Message):
    __slots__ = ("name", "source", "target", "group", "policy", "delivery", "leads", "trouble", "partitions", "topics")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    name: str
    source: str
    target: str
    group: str
    policy: str
    delivery: str
    leads: bool
    trouble: str
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionMirrored]
    topics: _containers.RepeatedCompositeFieldContainer[TopicTrouble]
    def __init__(self, name: _Optional[str] = ..., source: _Optional[str] = ..., target: _Optional[str] = ..., group: _Optional[str] = ..., policy: _Optional[str] = ..., delivery: _Optional[str] = ..., leads: _Optional[bool] = ..., trouble: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[PartitionMirrored, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[TopicTrouble, _Mapping]]] = ...) -> None: ...

class PartitionMirrored(_message.Message):
    __slots__ = ("topic", "partition", "copy", "position", "lag", "lag_ms", "records", "bytes", "trouble")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    COPY_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    LAG_MS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    copy: str
    position: int
    lag: int
    lag_ms: int
    records: int
    bytes: int
    trouble: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., copy: _Optional[str] = ..., position: _Optional[int] = ..., lag: _Optional[int] = ..., lag_ms: _Optional[int] = ..., records: _Optional[int] = ..., bytes: _Optional[int] = ..., trouble: _Optional[str] = ...) -> None: ...

class TopicTrouble(_message.Message):
    __slots__ = ("copy", "trouble")
    COPY_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    copy: str
    trouble: str
    def __init__(self, copy: _Optional[str] = ..., trouble: _Optional[str] = ...) -> None: ...

class TranslateOffsetsRequest(_message.Message):
    __slots__ = ("flow", "offsets")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    flow: str
    offsets: _containers.RepeatedCompositeFieldContainer[SourceOffset]
    def __init__(self, flow: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[SourceOffset, _Mapping]]] = ...) -> None: ...

class SourceOffset(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class TranslateOffsetsResponse(_message.Message):
    __slots__ = ("error", "offsets")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetTranslated]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., offsets: _Optional[_Iterable[_Union[OffsetTranslated, _Mapping]]] = ...) -> None: ...

class OffsetTranslated(_message.Message):
    __slots__ = ("error", "copy", "partition", "offset")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COPY_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    copy: str
    partition: int
    offset: int
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., copy: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...
