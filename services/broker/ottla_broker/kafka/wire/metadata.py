"""Metadata's response on the wire, written by hand: it may have every partition of the cluster.

    answer, 0 to 13:  throttle ms int32 (3), [broker int32, host, port int32, rack (1)], cluster id (2), controller
        int32 (1), [error int16, name, id (10), internal bool (1), [error int16, partition int32, leader int32, leader
        epoch int32 (7), [replica int32], [in sync int32], [offline int32] (5)], operations int32 (8)],
        operations int32 (8 to 10), error int16 (13)

Numbers in brackets are the first versions that have the field. From 9 on everything is in its compact spelling.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.addresses import controller_for
from ottla_broker.kafka.authorization.access import Access
from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.errors import ErrorCode
from ottla_core.host_port import HostPort
from ottla_core.kafka_formats.primitives import Writer
from ottla_core.model import INTERNAL_TOPICS, NO_LEADER
from ottla_core.security.resource import CLUSTER_NAME, ResourceType
from ottla_proto.operation import Operation

_CONTROLLER_FROM: Final = 1
_CLUSTER_ID_FROM: Final = 2
_THROTTLE_FROM: Final = 3
_OFFLINE_FROM: Final = 5
_LEADER_EPOCH_FROM: Final = 7
_OPERATIONS_FROM: Final = 8
_FLEXIBLE_FROM: Final = 9
_TOPIC_ID_FROM: Final = 10
_CLUSTER_OPERATIONS: Final = range(_OPERATIONS_FROM, 11)
_NO_NAME_FROM: Final = 12
"""Before this version a response has a name for every topic. For an unknown id the name is empty, as in Kafka."""
_ERROR_FROM: Final = 13

NOT_REQUESTED: Final = -(2**31)
"""It stands in the place of authorized operations (KIP-430) that were not requested."""
_NONE_SHOWN: Final = 0

_PARTITION: Final = struct.Struct(">hii")
_PARTITION_AND_EPOCH: Final = struct.Struct(">hiii")
_KEPT_NODES: Final = 4096
_KEPT_TAILS: Final = 4096

_API: Final = "Metadata"
ERRORS: Final = error_codes.Errors(
    "MetadataResponse; KRaftMetadataCache, getPartitionMetadata; AutoTopicCreationManager; KIP-516",
    error_codes.TOPIC
    | {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
    },
    {ErrorCode.LISTENER_NOT_FOUND: error_codes.Since(6, ErrorCode.LEADER_NOT_AVAILABLE), **error_codes.by_id(10)},
)


class Terms(NamedTuple):
    """What a topic's bytes depend on besides the topic itself: the client's authorized operations, and the ids of the
    brokers that are not fenced, and of those that have no address for the client's listener."""

    version: int
    operations: int
    live: frozenset[int]
    unreachable: frozenset[int]


def cluster_operations(access: Access, *, requested: bool) -> int:
    """Return the client's authorized operations on the cluster. Without DESCRIBE on the cluster, none are shown."""
    if not requested:
        return NOT_REQUESTED
    return access.operations(ResourceType.CLUSTER, CLUSTER_NAME) if access.allows(Operation.DESCRIBE) else _NONE_SHOWN


def topic_operations(access: Access, name: str, *, requested: bool) -> int:
    """Return the client's authorized operations on a topic."""
    return access.operations(ResourceType.TOPIC, name) if requested else NOT_REQUESTED


def write_head(
    version: int, image: ClusterImage, endpoints: Mapping[int, HostPort], node_id: int, topics: int
) -> bytearray:
    """Write the part before the topics, whose number is `topics`. `endpoints` are the brokers that the client gets."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _THROTTLE_FROM:
        writer.int32(0)
    writer.array(len(endpoints))
    for broker_id, endpoint in endpoints.items():
        writer.int32(broker_id)
        writer.string(endpoint.host)
        writer.int32(endpoint.port)
        if version >= _CONTROLLER_FROM:
            writer.string(image.brokers[broker_id].rack or None)
        writer.tags()
    if version >= _CLUSTER_ID_FROM:
        writer.string(image.cluster_id)
    if version >= _CONTROLLER_FROM:
        writer.int32(controller_for(node_id, endpoints))
    writer.array(topics)
    return writer.buffer


def write_tail(version: int, *, operations: int) -> bytearray:
    """Write the part after the topics."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version in _CLUSTER_OPERATIONS:
        writer.int32(operations)
    if version >= _ERROR_FROM:
        writer.int16(ErrorCode.NONE)
    writer.tags()
    return writer.buffer


def write_missing(version: int, code: ErrorCode, name: str | None, topic_id: bytes) -> bytes:
    """Return the bytes of a topic that does not exist, with the name or id by which it was requested."""
    if name is None and version < _NO_NAME_FROM:
        name = ""
    head = write_topic_head(version, name, topic_id, 0, code=code)
    return head + write_topic_tail(version, operations=NOT_REQUESTED)


def write_topic_head(
    version: int, name: str | None, topic_id: bytes, partitions: int, *, code: ErrorCode = ErrorCode.NONE
) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int16(ERRORS.sent(_API, version, code))
    writer.string(name)
    if version >= _TOPIC_ID_FROM:
        writer.buffer += topic_id
    if version >= _CONTROLLER_FROM:
        writer.buffer.append(code == ErrorCode.NONE and name in INTERNAL_TOPICS)
    writer.array(partitions)
    return bytes(writer.buffer)


@lru_cache(_KEPT_TAILS)
def write_topic_tail(version: int, *, operations: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _OPERATIONS_FROM:
        writer.int32(operations)
    writer.tags()
    return bytes(writer.buffer)


def write_partition(terms: Terms, number: int, partition: Partition) -> bytes:
    """Return a partition. As in Kafka, it has no leader if the client does not get the leader's endpoint: the leader is
    fenced, or has no address for the client's listener."""
    code, leader = int(ErrorCode.NONE), partition.leader
    if leader in terms.unreachable or leader not in terms.live:
        reason = ErrorCode.LISTENER_NOT_FOUND if leader in terms.unreachable else ErrorCode.LEADER_NOT_AVAILABLE
        code, leader = ERRORS.sent(_API, terms.version, reason), NO_LEADER
    nodes = _nodes(terms.version, terms.live, partition.replicas, partition.isr)
    if terms.version < _LEADER_EPOCH_FROM:
        return _PARTITION.pack(code, number, leader) + nodes
    return _PARTITION_AND_EPOCH.pack(code, number, leader, partition.leader_epoch) + nodes


@lru_cache(_KEPT_NODES)
def _nodes(version: int, live: frozenset[int], replicas: tuple[int, ...], isr: tuple[int, ...]) -> bytes:
    """Return the end of a partition, which many partitions have in common."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    offline = tuple(replica for replica in replicas if replica not in live)
    for nodes in (replicas, isr, offline) if version >= _OFFLINE_FROM else (replicas, isr):
        writer.array(len(nodes))
        for node in nodes:
            writer.int32(node)
    writer.tags()
    return bytes(writer.buffer)
