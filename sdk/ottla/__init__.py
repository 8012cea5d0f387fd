"""ottla: a Kafka-compatible event-streaming stack in Python.

    import ottla

    with ottla.Producer(topic="orders") as producer:
        producer.send({"id": 1, "total": 9.5}, key="eu")

    for record in ottla.Consumer("orders", start="earliest"):
        print(record.key, record.value)

    frame = ottla.read("orders", start="earliest").to_pandas()

    ottla.Admin().topics.create("orders", partitions=12, if_exists="ok")

`ottla.aio` has the same clients for asyncio. Each name is imported when you first use it, so `import ottla` costs next
to nothing and the command line starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.admin.acl import Acl, AclFilter, Resource
    from ottla.admin.admin import Admin, BrokerInfo, ClusterInfo
    from ottla.admin.configs import ConfigEntry
    from ottla.admin.group_info import (
        GroupEvent,
        GroupInfo,
        GroupLag,
        GroupMember,
        GroupSummary,
        OffsetReset,
        PartitionLag,
    )
    from ottla.admin.partitions import Election
    from ottla.admin.replica_verification import ReplicaCheck
    from ottla.admin.topics import PartitionInfo, TopicInfo
    from ottla.admin.transaction_info import (
        ActiveProducer,
        OpenTransaction,
        PartitionTransactions,
        TransactionEvent,
        TransactionInfo,
        TransactionSummary,
    )
    from ottla.admin.users import UserInfo
    from ottla.app.app import App
    from ottla.app.context import Context, ThreadContext
    from ottla.client.log_dirs import LogDirInfo
    from ottla.client.offsets import GroupMetadata, OffsetAndMetadata
    from ottla.client.security.logins import OAuthBearer, Plain, Scram
    from ottla.client.security.tls import Tls
    from ottla.consumer.batch import Batch
    from ottla.consumer.consumer import Consumer
    from ottla.consumer.group.listener import RebalanceListener
    from ottla.consumer.read import Rows, read
    from ottla.errors import (
        AuthenticationError,
        AuthorizationError,
        BufferFullError,
        CommitFailedError,
        ConcurrentUseError,
        ConfigError,
        ConnectError,
        DeliveryError,
        ErrorCode,
        FatalError,
        FencedError,
        FencedInstanceError,
        HandlerError,
        NotABrokerError,
        OffsetOutOfRangeError,
        OttlaError,
        RebalanceInProgressError,
        RecordTooLargeError,
        RejectError,
        RetriableError,
        SerializationError,
        TimeoutError,  # noqa: A004 - users write `ottla.TimeoutError`
        TopicExistsError,
        TransactionAborted,
        TruncationError,
        UnknownTopicError,
        UnreadableBatchError,
        WakeupError,
    )
    from ottla.mirror.client import MirrorClient
    from ottla.mirror.flow_info import FlowInfo, MirroredPartition, MovedGroup, MovedGroups, MovedPosition
    from ottla.mirror.verification import CopyCheck
    from ottla.producer.delivery import Delivery, RecordMetadata
    from ottla.producer.interceptors import ProducerInterceptor
    from ottla.producer.producer import Producer
    from ottla.producer.producer_record import ProducerRecord
    from ottla.producer.send_many import BatchResult, FailedRow
    from ottla.producer.transactions import Transaction
    from ottla.record import Record
    from ottla.table.table import Table
    from ottla.table.watch import Change, Watch
    from ottla_core.model import TopicPartition
    from ottla_core.security.secret import Secret

_HOMES = {
    "ottla.admin.acl": ("Acl", "AclFilter", "Resource"),
    "ottla.admin.admin": ("Admin", "BrokerInfo", "ClusterInfo", "LogDirInfo"),
    "ottla.app.app": ("App",),
    "ottla.app.context": ("Context", "ThreadContext"),
    "ottla.admin.configs": ("ConfigEntry",),
    "ottla.consumer.consumer": ("Consumer",),
    "ottla.producer.delivery": ("Delivery", "RecordMetadata"),
    "ottla.client.security.logins": ("OAuthBearer", "Plain", "Scram"),
    "ottla_core.security.secret": ("Secret",),
    "ottla.client.security.tls": ("Tls",),
    "ottla.errors": (
        "AuthenticationError",
        "AuthorizationError",
        "BufferFullError",
        "CommitFailedError",
        "ConcurrentUseError",
        "ConfigError",
        "ConnectError",
        "DeliveryError",
        "ErrorCode",
        "FatalError",
        "FencedError",
        "FencedInstanceError",
        "HandlerError",
        "NotABrokerError",
        "OffsetOutOfRangeError",
        "OttlaError",
        "RebalanceInProgressError",
        "RecordTooLargeError",
        "RejectError",
        "RetriableError",
        "SerializationError",
        "TimeoutError",
        "TopicExistsError",
        "TransactionAborted",
        "TruncationError",
        "UnknownTopicError",
        "UnreadableBatchError",
        "WakeupError",
    ),
    "ottla.admin.group_info": (
        "GroupEvent",
        "GroupInfo",
        "GroupLag",
        "GroupMember",
        "GroupSummary",
        "OffsetReset",
        "PartitionLag",
    ),
    "ottla.consumer.group.listener": ("RebalanceListener",),
    "ottla.client.offsets": ("GroupMetadata", "OffsetAndMetadata"),
    "ottla.producer.interceptors": ("ProducerInterceptor",),
    "ottla.producer.send_many": ("BatchResult", "FailedRow"),
    "ottla.producer.transactions": ("Transaction",),
    "ottla.producer.producer_record": ("ProducerRecord",),
    "ottla.admin.partitions": ("Election",),
    "ottla.producer.producer": ("Producer",),
    "ottla.consumer.batch": ("Batch",),
    "ottla.record": ("Record",),
    "ottla.consumer.read": ("Rows", "read"),
    "ottla.table.table": ("Table",),
    "ottla.table.watch": ("Change", "Watch"),
    "ottla.admin.topics": ("PartitionInfo", "TopicInfo"),
    "ottla.admin.transaction_info": (
        "ActiveProducer",
        "OpenTransaction",
        "PartitionTransactions",
        "TransactionEvent",
        "TransactionInfo",
        "TransactionSummary",
    ),
    "ottla.admin.replica_verification": ("ReplicaCheck",),
    "ottla.admin.users": ("UserInfo",),
    "ottla.mirror.client": ("MirrorClient",),
    "ottla.mirror.flow_info": ("FlowInfo", "MirroredPartition", "MovedGroup", "MovedGroups", "MovedPosition"),
    "ottla.mirror.verification": ("CopyCheck",),
    "ottla_core.model": ("TopicPartition",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

# Literal, for type checkers; a test compares it with _HOMES.
__all__ = [
    "Acl",
    "AclFilter",
    "ActiveProducer",
    "Admin",
    "App",
    "AuthenticationError",
    "AuthorizationError",
    "Batch",
    "BatchResult",
    "BrokerInfo",
    "BufferFullError",
    "Change",
    "ClusterInfo",
    "CommitFailedError",
    "ConcurrentUseError",
    "ConfigEntry",
    "ConfigError",
    "ConnectError",
    "Consumer",
    "Context",
    "CopyCheck",
    "Delivery",
    "DeliveryError",
    "Election",
    "ErrorCode",
    "FailedRow",
    "FatalError",
    "FencedError",
    "FencedInstanceError",
    "FlowInfo",
    "GroupEvent",
    "GroupInfo",
    "GroupLag",
    "GroupMember",
    "GroupMetadata",
    "GroupSummary",
    "HandlerError",
    "LogDirInfo",
    "MirrorClient",
    "MirroredPartition",
    "MovedGroup",
    "MovedGroups",
    "MovedPosition",
    "NotABrokerError",
    "OAuthBearer",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "OffsetReset",
    "OpenTransaction",
    "OttlaError",
    "PartitionInfo",
    "PartitionLag",
    "PartitionTransactions",
    "Plain",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "RebalanceInProgressError",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "RecordTooLargeError",
    "RejectError",
    "ReplicaCheck",
    "Resource",
    "RetriableError",
    "Rows",
    "Scram",
    "Secret",
    "SerializationError",
    "Table",
    "ThreadContext",
    "TimeoutError",
    "Tls",
    "TopicExistsError",
    "TopicInfo",
    "TopicPartition",
    "Transaction",
    "TransactionAborted",
    "TransactionEvent",
    "TransactionInfo",
    "TransactionSummary",
    "TruncationError",
    "UnknownTopicError",
    "UnreadableBatchError",
    "UserInfo",
    "WakeupError",
    "Watch",
    "read",
]


def __getattr__(name: str) -> Any:
    """Import a public name, `ottla.aio` or `ottla.testing` when it is first used."""
    if name in ("aio", "testing"):
        return import_module(f"ottla.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "aio", "testing"})
