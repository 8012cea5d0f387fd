"""A list of groups is of the shards that its request names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from groups import Shard

from ottla_core.rpc.context import RequestContext
from ottla_group_coordinator.service import GroupService
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import ShardNumbers


@pytest.mark.parametrize(
    ("named", "listed"),
    [
        (None, ["g0", "g1", "g2"]),
        (ShardNumbers(numbers=[2, 7, 0]), ["g0", "g2"]),
        (ShardNumbers(), []),
    ],
)
async def test_the_groups_of_the_shards_that_are_named_are_listed(
    named: ShardNumbers | None, listed: list[str]
) -> None:
    """A broker that speaks for no shard names none. A request without the message means all shards."""
    held = {n: Shard() for n in range(3)}
    for n, shard in held.items():
        shard.commit(1, group=f"g{n}")
    asked: list[int] = []

    async def ask_shard(number: int, decide: Any, **how: Any) -> Any:
        asked.append(number)
        return held[number].take(decide(held[number].machine, held[number].now))

    shards: Any = SimpleNamespace(owned=lambda: list(held), ask_shard=ask_shard)
    nothing: Any = SimpleNamespace()
    service = GroupService(shards, nothing, 7, nothing, nothing, nothing)
    response = await service.list_groups(pb.ListGroupsRequest(shards=named), RequestContext(client_id="test"))
    assert [group.group for group in response.groups] == listed
    assert response.shards.numbers == [int(name[1:]) for name in listed]
    assert asked == [int(name[1:]) for name in listed], "no other shard is looked at"
