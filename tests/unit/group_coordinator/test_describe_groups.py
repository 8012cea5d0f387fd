"""Groups are described shard by shard, until the response is large."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from consumer_groups import ConsumerShard, settings
from groups import Shard

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import RequestContext
from ottla_group_coordinator import service as service_module
from ottla_group_coordinator.machines.consumer.member import LEAVES
from ottla_group_coordinator.service import GroupService
from ottla_proto import group_pb2 as pb

SHARDS = 3


class Coordinator:
    """A coordinator of all shards but one. The shard of group gN is N modulo the number of shards."""

    def __init__(self, *, lost: int | None = None) -> None:
        self.decided: list[int] = []
        self._lost = lost
        self.of_g2 = ConsumerShard(settings())
        self._held: dict[int, Shard] = {0: Shard(), 1: Shard(), 2: self.of_g2}
        for n in range(12):
            self._held[n % SHARDS].commit(1, group=f"g{n}")
        shards: Any = SimpleNamespace(shard_of=lambda group: int(group[1:]) % SHARDS, ask_shard=self._ask_shard)
        nothing: Any = SimpleNamespace()
        self._service = GroupService(shards, nothing, 7, nothing, nothing, nothing)

    async def _ask_shard(self, number: int, decide: Any, **how: Any) -> Any:
        self.decided.append(number)
        if number == self._lost:
            raise OttlaError(ErrorCode.NOT_COORDINATOR, "elsewhere")
        return self._held[number].take(decide(self._held[number].machine, self._held[number].now))

    async def describe(self, *numbers: int) -> list[tuple[str, int, int]]:
        return [(group.group, group.shard, group.error.code) for group in await self.described(*numbers)]

    async def described(self, *numbers: int, after: str = "") -> list[pb.GroupDescription]:
        request = pb.DescribeGroupsRequest(groups=[f"g{n}" for n in numbers], after_member=after)
        return [*(await self._service.describe_groups(request, RequestContext(client_id="test"))).groups]


async def test_groups_of_one_shard_take_one_decision() -> None:
    coordinator = Coordinator()
    assert await coordinator.describe(0, 3, 6, 99, 1) == [
        ("g0", 0, 0),
        ("g3", 0, 0),
        ("g6", 0, 0),
        ("g99", 0, ErrorCode.GROUP_ID_NOT_FOUND),
        ("g1", 1, 0),
    ]
    assert coordinator.decided == [0, 1]


async def test_each_group_of_a_shard_gets_the_shards_error() -> None:
    described = await Coordinator(lost=1).describe(0, 1, 4, 2)
    assert [code for _, _, code in described] == [0, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR, 0]


@pytest.mark.parametrize(("most_bytes", "count"), [(0, 1), (30, 2), (1 << 20, 4)])
async def test_a_large_response_has_only_the_first_groups(
    monkeypatch: pytest.MonkeyPatch, most_bytes: int, count: int
) -> None:
    monkeypatch.setattr(service_module, "_DESCRIBED_BYTES", most_bytes)
    assert len(await Coordinator().describe(0, 3, 1, 4)) == count


@pytest.mark.story("large-consumer-group-in-one-message")
async def test_a_large_consumer_group_is_described_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_DESCRIBED_BYTES", 1_500)
    coordinator = Coordinator()
    for n in range(60):
        coordinator.of_g2.beat(f"m{n:02}", group="g2", topics=[f"topic{each}" for each in range(10)])
    found: list[str] = []
    parts, has_more, after = 0, True, ""
    while has_more:
        groups = await coordinator.described(2, 0, after=after)
        assert groups[0].ByteSize() < 2_000
        found += [member.member.member_id for member in groups[0].members]
        parts, has_more, after = parts + 1, groups[0].has_more, found[-1]
        assert len(groups) == 1 if has_more else 2, "other groups follow once it is complete"
        if parts == 2:  # a part goes on behind a member that has gone in the meantime
            coordinator.of_g2.beat(after, LEAVES, group="g2")
    assert found == [f"m{n:02}" for n in range(60)]
    assert parts > 3


async def test_a_part_has_one_member_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_DESCRIBED_BYTES", 1)
    coordinator = Coordinator()
    for member_id in ("m1", "m2"):
        coordinator.of_g2.beat(member_id, group="g2")
    for after, member_id, has_more in (("", "m1", True), ("m1", "m2", False)):
        (group,) = await coordinator.described(2, after=after)
        assert ([member.member.member_id for member in group.members], group.has_more) == ([member_id], has_more)
