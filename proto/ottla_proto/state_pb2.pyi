from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Topic(_message.Message):
    __slots__ = ("format", "topic_id", "partition_count", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    format: int
    topic_id: bytes
    partition_count: int
    configs: _containers.ScalarMap[str, str]
    def __init__(self, format: _Optional[int] = ..., topic_id: _Optional[bytes] = ..., partition_count: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("format", "replicas", "leader", "leader_epoch", "isr", "partition_epoch", "adding_replicas", "removing_replicas", "recovering", "elr", "last_known_elr", "directories", "restored")
    class DirectoriesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    RECOVERING_FIELD_NUMBER: _ClassVar[int]
    ELR_FIELD_NUMBER: _ClassVar[int]
    LAST_KNOWN_ELR_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    format: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    leader: int
    leader_epoch: int
    isr: _containers.RepeatedScalarFieldContainer[int]
    partition_epoch: int
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    recovering: bool
    elr: _containers.RepeatedScalarFieldContainer[int]
    last_known_elr: _containers.RepeatedScalarFieldContainer[int]
    directories: _containers.ScalarMap[int, str]
    restored: int
    def __init__(self, format: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ..., partition_epoch: _Optional[int] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ..., recovering: _Optional[bool] = ..., elr: _Optional[_Iterable[int]] = ..., last_known_elr: _Optional[_Iterable[int]] = ..., directories: _Optional[_Mapping[int, str]] = ..., restored: _Optional[int] = ...) -> None: ...

class Broker(_message.Message):
    __slots__ = ("format", "directory_id", "address", "kafka_address", "rack", "fenced", "incarnation", "epoch", "unclean", "shutting_down", "kafka_listeners", "read_only", "secret", "ahead_of")
    class KafkaListenersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KAFKA_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_FIELD_NUMBER: _ClassVar[int]
    SHUTTING_DOWN_FIELD_NUMBER: _ClassVar[int]
    KAFKA_LISTENERS_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    AHEAD_OF_FIELD_NUMBER: _ClassVar[int]
    format: int
    directory_id: str
    address: str
    kafka_address: str
    rack: str
    fenced: bool
    incarnation: str
    epoch: int
    unclean: bool
    shutting_down: bool
    kafka_listeners: _containers.ScalarMap[str, str]
    read_only: bool
    secret: bytes
    ahead_of: int
    def __init__(self, format: _Optional[int] = ..., directory_id: _Optional[str] = ..., address: _Optional[str] = ..., kafka_address: _Optional[str] = ..., rack: _Optional[str] = ..., fenced: _Optional[bool] = ..., incarnation: _Optional[str] = ..., epoch: _Optional[int] = ..., unclean: _Optional[bool] = ..., shutting_down: _Optional[bool] = ..., kafka_listeners: _Optional[_Mapping[str, str]] = ..., read_only: _Optional[bool] = ..., secret: _Optional[bytes] = ..., ahead_of: _Optional[int] = ...) -> None: ...

class LastLife(_message.Message):
    __slots__ = ("format", "incarnation", "directory_id", "epoch", "renewals")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RENEWALS_FIELD_NUMBER: _ClassVar[int]
    format: int
    incarnation: str
    directory_id: str
    epoch: int
    renewals: int
    def __init__(self, format: _Optional[int] = ..., incarnation: _Optional[str] = ..., directory_id: _Optional[str] = ..., epoch: _Optional[int] = ..., renewals: _Optional[int] = ...) -> None: ...

class Restored(_message.Message):
    __slots__ = ("format", "count", "seq")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    format: int
    count: int
    seq: int
    def __init__(self, format: _Optional[int] = ..., count: _Optional[int] = ..., seq: _Optional[int] = ...) -> None: ...

class Terms(_message.Message):
    __slots__ = ("format", "terms")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    format: int
    terms: _containers.RepeatedCompositeFieldContainer[Term]
    def __init__(self, format: _Optional[int] = ..., terms: _Optional[_Iterable[_Union[Term, _Mapping]]] = ...) -> None: ...

class Term(_message.Message):
    __slots__ = ("uuid", "first_seq")
    UUID_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    first_seq: int
    def __init__(self, uuid: _Optional[str] = ..., first_seq: _Optional[int] = ...) -> None: ...

class Acl(_message.Message):
    __slots__ = ("format", "resource_type", "name", "pattern_type", "principal", "host", "operation", "permission")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    format: int
    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int
    def __init__(self, format: _Optional[int] = ..., resource_type: _Optional[int] = ..., name: _Optional[str] = ..., pattern_type: _Optional[int] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission: _Optional[int] = ...) -> None: ...

class LoginSecret(_message.Message):
    __slots__ = ("format", "secret")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    format: int
    secret: bytes
    def __init__(self, format: _Optional[int] = ..., secret: _Optional[bytes] = ...) -> None: ...

class ScramCredential(_message.Message):
    __slots__ = ("format", "iterations", "salt", "stored_key", "server_key")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    STORED_KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    format: int
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    def __init__(self, format: _Optional[int] = ..., iterations: _Optional[int] = ..., salt: _Optional[bytes] = ..., stored_key: _Optional[bytes] = ..., server_key: _Optional[bytes] = ...) -> None: ...

class Coordinator(_message.Message):
    __slots__ = ("format", "address", "incarnation")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    format: int
    address: str
    incarnation: str
    def __init__(self, format: _Optional[int] = ..., address: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("format", "owner", "incarnation", "epoch")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    format: int
    owner: int
    incarnation: int
    epoch: int
    def __init__(self, format: _Optional[int] = ..., owner: _Optional[int] = ..., incarnation: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Controller(_message.Message):
    __slots__ = ("format", "id", "address")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    format: int
    id: int
    address: str
    def __init__(self, format: _Optional[int] = ..., id: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class Configs(_message.Message):
    __slots__ = ("format", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    format: int
    configs: _containers.ScalarMap[str, str]
    def __init__(self, format: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ProducerIds(_message.Message):
    __slots__ = ("format", "next")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    format: int
    next: int
    def __init__(self, format: _Optional[int] = ..., next: _Optional[int] = ...) -> None: ...

class BrokerIds(_message.Message):
    __slots__ = ("format", "next", "by_directory")
    class ByDirectoryEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    BY_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    format: int
    next: int
    by_directory: _containers.ScalarMap[str, int]
    def __init__(self, format: _Optional[int] = ..., next: _Optional[int] = ..., by_directory: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Sequence(_message.Message):
    __slots__ = ("format", "value")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    format: int
    value: int
    def __init__(self, format: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
