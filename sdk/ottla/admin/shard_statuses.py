"""The state of each shard of one kind of coordinator, as its owner reports it."""

from __future__ import annotations

from ottla.admin.controller_channel import ControllerChannel
from ottla.admin.group_info import ShardStatus, status_of, unowned
from ottla.client.door import KAFKA
from ottla.client.shard_owners import shard_owners
from ottla.client.units import Duration
from ottla_proto.common_pb2 import ShardsRequest, ShardsResponse
from ottla_proto.contracts import Method


def shard_statuses(
    channel: ControllerChannel, kind: str, method: Method[ShardsRequest, ShardsResponse], timeout: Duration | None
) -> list[ShardStatus]:
    """Query each owner for its shards, and return all by number; a shard without an owner is "unowned"."""
    deadline = channel.deadline(timeout)
    if channel.cluster.door is KAFKA:  # a broker queries the owners, and knows which shards have none
        all_shards = channel.cluster.call_any(method, ShardsRequest(), timeout=deadline.left()).shards
        return sorted(map(status_of, all_shards), key=lambda status: status.shard)
    owners = shard_owners(channel.cluster, kind, timeout=deadline.left())
    found = {n: unowned(n) for n in range(len(owners))}
    for address in sorted(set(owners) - {""}):
        response = channel.cluster.call(address, method, ShardsRequest(), timeout=deadline.left())
        found |= {shard.shard: status_of(shard) for shard in response.shards}
    return [found[n] for n in sorted(found)]
