"""The state of each shard of one kind of coordinator, as its owner reports it."""

from __future__ import annotations

from ottla.admin.controller_channel import ControllerChannel
from ottla.admin.group_info import ShardStatus
from ottla.client.kafka.private_call import private_call
from ottla.client.units import Duration
from ottla_core.model import NO_OWNER
from ottla_core.routing import GROUP
from ottla_proto.common_pb2 import ShardsRequest, ShardsResponse, ShardStanding
from ottla_proto.contracts import Group, Txn


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
