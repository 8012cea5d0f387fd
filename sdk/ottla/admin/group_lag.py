"""The exchange that asks a group-coordinator of ottla how far a group is behind."""

from __future__ import annotations

from ottla.admin.group_info import GroupLag, PartitionLag
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.private_call import private_call
from ottla.errors import error_from_code
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group


def lag(group: str, now_ms: int) -> Exchange[GroupLag]:
    """Return the exchange that asks for the lag of a group. Ages are counted up to `now_ms`, in ms since 1970."""

    def read(response: pb.LagResponse) -> GroupLag:
        return GroupLag(group, tuple(_partition_lag(partition, now_ms) for partition in response.partitions))

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
