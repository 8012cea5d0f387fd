"""The state of each shard of one kind of coordinator, as its owner reports it."""

from __future__ import annotations

from ottla.admin.controller_channel import ControllerChannel
from ottla.admin.group_info import ShardStatus, status_of
from ottla.client.units import Duration
from ottla_proto.common_pb2 import ShardsRequest, ShardsResponse
from ottla_proto.contracts import Method


def shard_statuses(
    channel: ControllerChannel, kind: str, method: Method[ShardsRequest, ShardsResponse], timeout: Duration | None
) -> list[ShardStatus]:
    """Return the state of all shards, by number. A broker queries the owners; a shard without an owner is "unowned"."""
    response = channel.cluster.call_any(method, ShardsRequest(), timeout=channel.deadline(timeout).left())
    return sorted(map(status_of, response.shards), key=lambda status: status.shard)
