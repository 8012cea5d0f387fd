"""ottla: a Kafka-compatible event-streaming stack in Python.

    import ottla

    with ottla.Producer(topic="orders") as producer:
        producer.send({"id": 1, "total": 9.5}, key="eu")

    for record in ottla.Consumer("orders", start="earliest"):
        print(record.key, record.value)

    frame = ottla.read("orders", start="earliest").to_pandas()

    ottla.Admin().topics.create("orders", partitions=12, if_exists="ok")

`ottla.aio` has the same clients for asyncio. Names are imported when they are first used, so that `import ottla` costs
next to nothing and the command line starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.admin import Admin, BrokerInfo, ClusterInfo, LogDirInfo
    from ottla.app.app import App
    from ottla.app.context import Context
    from ottla.configs import ConfigEntry
    from ottla.consumer import Consumer
    from ottla.delivery import Delivery, RecordMetadata
    from ottla.errors import (
        AuthorizationError,
        BufferFullError,
        CommitFailedError,
        ConcurrentUseError,
        ConfigError,
        ConnectError,
        DeliveryError,
        ErrorCode,
        FatalError,
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
        TruncationError,
        UnknownTopicError,
        WakeupError,
    )
    from ottla.group.listener import RebalanceListener
    from ottla.group.offsets import GroupMetadata, OffsetAndMetadata
    from ottla.group_info import (
        GroupEvent,
        GroupInfo,
        GroupLag,
        GroupMember,
        GroupSummary,
        OffsetReset,
        PartitionLag,
    )
    from ottla.interceptors import ProducerInterceptor
    from ottla.many import BatchResult, FailedRow
    from ottla.outgoing import ProducerRecord
    from ottla.partitions import Election
    from ottla.producer import Producer
    from ottla.record import Batch, Record
    from ottla.rows import Rows, read
    from ottla.topics import PartitionInfo, TopicInfo
    from ottla.verification import ReplicaCheck
    from ottla_core.model import TopicPartition

_HOMES = {
    "ottla.admin": ("Admin", "BrokerInfo", "ClusterInfo", "LogDirInfo"),
    "ottla.app.app": ("App",),
    "ottla.app.context": ("Context",),
    "ottla.configs": ("ConfigEntry",),
    "ottla.consumer": ("Consumer",),
    "ottla.delivery": ("Delivery", "RecordMetadata"),
    "ottla.errors": (
        "AuthorizationError",
        "BufferFullError",
        "CommitFailedError",
        "ConcurrentUseError",
        "ConfigError",
        "ConnectError",
        "DeliveryError",
        "ErrorCode",
        "FatalError",
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
        "TruncationError",
        "UnknownTopicError",
        "WakeupError",
    ),
    "ottla.group_info": (
        "GroupEvent",
        "GroupInfo",
        "GroupLag",
        "GroupMember",
        "GroupSummary",
        "OffsetReset",
        "PartitionLag",
    ),
    "ottla.group.listener": ("RebalanceListener",),
    "ottla.group.offsets": ("GroupMetadata", "OffsetAndMetadata"),
    "ottla.interceptors": ("ProducerInterceptor",),
    "ottla.many": ("BatchResult", "FailedRow"),
    "ottla.outgoing": ("ProducerRecord",),
    "ottla.partitions": ("Election",),
    "ottla.producer": ("Producer",),
    "ottla.record": ("Batch", "Record"),
    "ottla.rows": ("Rows", "read"),
    "ottla.topics": ("PartitionInfo", "TopicInfo"),
    "ottla.verification": ("ReplicaCheck",),
    "ottla_core.model": ("TopicPartition",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

# Literal, for type checkers; a test compares it with _HOMES.
__all__ = [
    "Admin",
    "App",
    "AuthorizationError",
    "Batch",
    "BatchResult",
    "BrokerInfo",
    "BufferFullError",
    "ClusterInfo",
    "CommitFailedError",
    "ConcurrentUseError",
    "ConfigEntry",
    "ConfigError",
    "ConnectError",
    "Consumer",
    "Context",
    "Delivery",
    "DeliveryError",
    "Election",
    "ErrorCode",
    "FailedRow",
    "FatalError",
    "FencedInstanceError",
    "GroupEvent",
    "GroupInfo",
    "GroupLag",
    "GroupMember",
    "GroupMetadata",
    "GroupSummary",
    "HandlerError",
    "LogDirInfo",
    "NotABrokerError",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "OffsetReset",
    "OttlaError",
    "PartitionInfo",
    "PartitionLag",
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
    "RetriableError",
    "Rows",
    "SerializationError",
    "TimeoutError",
    "TopicExistsError",
    "TopicInfo",
    "TopicPartition",
    "TruncationError",
    "UnknownTopicError",
    "WakeupError",
    "read",
]


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use; `ottla.aio` and `ottla.testing` too."""
    if name in ("aio", "testing"):
        return import_module(f"ottla.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "aio", "testing"})
