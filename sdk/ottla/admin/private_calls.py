"""The calls of Admin that Kafka's messages can't express. Only clusters of ottla serve them."""

from __future__ import annotations

from collections.abc import Callable

from ottla.admin.controller_channel import ControllerChannel
from ottla.admin.group_info import GroupEvent, GroupLag, PartitionLag, ShardStatus
from ottla.admin.transaction_info import ActiveProducer
from ottla.client.kafka.apis import OTTLA_CALL
from ottla.client.kafka.exchange import Exchange, Terms, raise_failed
from ottla.client.kafka.private_call import private_call, raise_in_band
from ottla.client.units import Duration
from ottla.errors import ErrorCode, error_from_code
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_core.model import NO_OWNER, PartitionId
from ottla_core.records.leader_epochs import EpochStart, ReplicaEpochs
from ottla_core.routing import GROUP
from ottla_proto import broker_pb2
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import ShardsRequest, ShardsResponse, ShardStanding, TxnMarker, TxnProducer
from ottla_proto.contracts import ClientCalls, Controller, Group, Txn
from ottla_proto.controller_pb2 import DeclareRestoredRequest


def lag(group: str, now_ms: Callable[[], int]) -> Exchange[GroupLag]:
    """Return the exchange that asks for the lag of a group. `now_ms` returns the time in ms since 1970, up to which
    ages are counted."""

    def read(response: pb.LagResponse) -> GroupLag:
        now = now_ms()
        return GroupLag(group, tuple(_partition_lag(partition, now) for partition in response.partitions))

    return private_call(Group.LAG, pb.LagRequest(group=group), read)


def _partition_lag(wire: pb.PartitionLag, now_ms: int) -> PartitionLag:
    committed = wire.committed if wire.committed >= 0 else None
    who = (wire.member_id, wire.client_id, wire.client_host)
    if wire.error.code:
        error = error_from_code(wire.error.code, wire.error.message)
        return PartitionLag(wire.topic, wire.partition, committed, None, None, None, None, None, *who, error)
    oldest = wire.oldest_unread_ms if wire.HasField("oldest_unread_ms") else None
    records = wire.records if committed is not None else None
    seconds = None if oldest is None else max(0, now_ms - oldest) / 1000
    if records == 0:
        seconds = 0.0
    return PartitionLag(
        wire.topic,
        wire.partition,
        committed,
        wire.log_start_offset,
        wire.log_end_offset,
        records,
        seconds,
        oldest,
        *who,
    )


def explanation(group: str) -> Exchange[tuple[GroupEvent, ...]]:
    """Return the exchange that asks for the latest events of a group, oldest first."""

    def read(response: pb.ExplainGroupResponse) -> tuple[GroupEvent, ...]:
        return tuple(map(_event, response.events))

    return private_call(Group.EXPLAIN_GROUP, pb.ExplainGroupRequest(group=group), read)


def _event(wire: pb.GroupEvent) -> GroupEvent:
    return GroupEvent(
        wire.at_ms,
        wire.kind,
        wire.cause,
        wire.generation,
        wire.member.member_id,
        wire.member.instance_id if wire.member.HasField("instance_id") else None,
        wire.client_id,
        wire.client_host,
        wire.duration_ms / 1000,
        wire.partitions_moved,
    )


def shard_statuses(channel: ControllerChannel, kind: str, timeout: Duration | None) -> list[ShardStatus]:
    """Return the state of all shards, by number. A broker queries the owners; a shard without an owner is "unowned"."""

    def read(response: ShardsResponse) -> list[ShardStatus]:
        return sorted(map(_status, response.shards), key=lambda status: status.shard)

    asked = private_call(Group.SHARDS if kind == GROUP else Txn.SHARDS, ShardsRequest(), read)
    deadline = channel.deadline(timeout)
    return channel.retried(lambda: channel.cluster.exchange_any(asked, timeout=deadline.left()), deadline)


def _status(wire: ShardStanding) -> ShardStatus:
    if wire.coordinator == NO_OWNER:
        return ShardStatus(wire.shard, None, "unowned", 0.0, None, "", 0)
    seconds = wire.for_ms / 1000
    return ShardStatus(
        wire.shard,
        wire.coordinator,
        wire.phase,
        seconds,
        wire.next_offset,
        wire.trouble,
        wire.unreadable,
    )


def abort_marker(shard: int, producer: ActiveProducer, timeout_ms: int) -> Exchange[None]:
    """Return the exchange that writes an abort marker to a shard of groups.

    Only the owner of the shard may do that. A broker forwards the call to it.
    """
    marker = TxnMarker(
        producer=TxnProducer(id=producer.producer_id, epoch=producer.producer_epoch),
        coordinator_epoch=max(0, producer.coordinator_epoch),
    )
    request = pb.WriteShardMarkersRequest(
        markers=[pb.ShardsMarker(marker=marker, shards=[shard])], timeout_ms=timeout_ms
    )

    def read(response: pb.WriteShardMarkersResponse) -> None:
        raise_in_band(response.markers[0].shards[0])

    return private_call(Group.WRITE_TXN_MARKERS, request, read)


def replica_epochs(partition: PartitionId) -> Exchange[ReplicaEpochs]:
    """Return the exchange that asks where the leader epochs of a replica began."""

    def read(response: broker_pb2.ReplicaEpochsResponse) -> ReplicaEpochs:
        entries = [EpochStart(entry.leader_epoch, entry.start_offset) for entry in response.epochs]
        return ReplicaEpochs(entries, response.log_start_offset, response.high_watermark)

    request = broker_pb2.ReplicaEpochsRequest(topic_id=partition.topic_id, partition=partition.partition)
    return private_call(ClientCalls.REPLICA_EPOCHS, request, read)


def import_of(
    partition: PartitionId, records: bytes, *, expected_offset: int, log_start_offset: int, timeout_ms: int
) -> Exchange[int]:
    """Return the exchange that appends whole batches at the offsets that they have. Its result is the offset after the
    last record."""
    request = broker_pb2.ImportRecordsRequest(
        topic_id=partition.topic_id,
        partition=partition.partition,
        expected_next_offset=expected_offset,
        records=records,
        log_start_offset=log_start_offset,
        timeout_ms=timeout_ms,
    )
    return private_call(ClientCalls.IMPORT_RECORDS, request, lambda response: response.next_offset)


def import_of_nothing() -> Exchange[None]:
    """Return the exchange that finds out whether a broker serves imports. It names no topic, so it changes nothing.

    A broker that serves imports responds that there is no such topic, and this error is ignored. Raises
    UNSUPPORTED_VERSION if the broker does not serve them.
    """

    def build(terms: Terms) -> OttlaCallRequest:
        return OttlaCallRequest(method=ClientCalls.IMPORT_RECORDS.path, timeout_ms=terms.timeout_ms)

    def read(response: OttlaCallResponse) -> None:
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise_failed(response)

    return Exchange(OTTLA_CALL, build, read, takes_errors=True)


def restoration() -> Exchange[int]:
    """Return the exchange that declares etcd restored from a backup. Its result is how often that has happened."""
    return private_call(Controller.DECLARE_RESTORED, DeclareRestoredRequest(), lambda response: response.count)
