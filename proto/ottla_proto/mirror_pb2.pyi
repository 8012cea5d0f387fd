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
    __slots__ = ("error", "flows")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    flows: _containers.RepeatedCompositeFieldContainer[FlowStatus]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., flows: _Optional[_Iterable[_Union[FlowStatus, _Mapping]]] = ...) -> None: ...

class FlowStatus(_message.Message):
    __slots__ = ("name", "source", "target", "group", "policy", "delivery", "leads", "trouble", "partitions", "topics", "paused", "groups", "source_bootstrap", "target_bootstrap")
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
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_BOOTSTRAP_FIELD_NUMBER: _ClassVar[int]
    TARGET_BOOTSTRAP_FIELD_NUMBER: _ClassVar[int]
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
    paused: bool
    groups: _containers.RepeatedCompositeFieldContainer[GroupTrouble]
    source_bootstrap: _containers.RepeatedScalarFieldContainer[str]
    target_bootstrap: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., source: _Optional[str] = ..., target: _Optional[str] = ..., group: _Optional[str] = ..., policy: _Optional[str] = ..., delivery: _Optional[str] = ..., leads: _Optional[bool] = ..., trouble: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[PartitionMirrored, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[TopicTrouble, _Mapping]]] = ..., paused: _Optional[bool] = ..., groups: _Optional[_Iterable[_Union[GroupTrouble, _Mapping]]] = ..., source_bootstrap: _Optional[_Iterable[str]] = ..., target_bootstrap: _Optional[_Iterable[str]] = ...) -> None: ...

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

class GroupTrouble(_message.Message):
    __slots__ = ("group", "trouble")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    group: str
    trouble: str
    def __init__(self, group: _Optional[str] = ..., trouble: _Optional[str] = ...) -> None: ...

class PauseFlowRequest(_message.Message):
    __slots__ = ("flow", "paused")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    flow: str
    paused: bool
    def __init__(self, flow: _Optional[str] = ..., paused: _Optional[bool] = ...) -> None: ...

class PauseFlowResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ...) -> None: ...

class MoveGroupsRequest(_message.Message):
    __slots__ = ("flow", "groups", "dry_run")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    flow: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    dry_run: bool
    def __init__(self, flow: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class MoveGroupsResponse(_message.Message):
    __slots__ = ("error", "source_reached", "groups")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SOURCE_REACHED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    source_reached: bool
    groups: _containers.RepeatedCompositeFieldContainer[GroupMoved]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., source_reached: _Optional[bool] = ..., groups: _Optional[_Iterable[_Union[GroupMoved, _Mapping]]] = ...) -> None: ...

class GroupMoved(_message.Message):
    __slots__ = ("group", "error", "positions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    error: _common_pb2.Error
    positions: _containers.RepeatedCompositeFieldContainer[PositionMoved]
    def __init__(self, group: _Optional[str] = ..., error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., positions: _Optional[_Iterable[_Union[PositionMoved, _Mapping]]] = ...) -> None: ...

class PositionMoved(_message.Message):
    __slots__ = ("topic", "partition", "before", "to_topic", "after", "had", "obstacle")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    TO_TOPIC_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    HAD_FIELD_NUMBER: _ClassVar[int]
    OBSTACLE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    before: int
    to_topic: str
    after: int
    had: int
    obstacle: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., before: _Optional[int] = ..., to_topic: _Optional[str] = ..., after: _Optional[int] = ..., had: _Optional[int] = ..., obstacle: _Optional[str] = ...) -> None: ...

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

class GroupPositionsRequest(_message.Message):
    __slots__ = ("flow", "group")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    flow: str
    group: str
    def __init__(self, flow: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class GroupPositionsResponse(_message.Message):
    __slots__ = ("error", "positions")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.Error
    positions: _containers.RepeatedCompositeFieldContainer[GroupPosition]
    def __init__(self, error: _Optional[_Union[_common_pb2.Error, _Mapping]] = ..., positions: _Optional[_Iterable[_Union[GroupPosition, _Mapping]]] = ...) -> None: ...

class GroupPosition(_message.Message):
    __slots__ = ("copy", "partition", "offset")
    COPY_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    copy: str
    partition: int
    offset: int
    def __init__(self, copy: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...
