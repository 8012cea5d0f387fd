"""Groups are described shard by shard, until the response is large."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from groups import Shard

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import RequestContext
from ottla_group_coordinator import service as service_module
from ottla_group_coordinator.service import GroupService
from ottla_proto import group_pb2 as pb

SHARDS = 3


class Coordinator:
    """A coordinator of all shards but one. The shard of group gN is N modulo the number of shards."""

    def __init__(self, *, lost: int | None = None) -> None:
        self.decided: list[int] = []
        self._lost = lost
        self._held = {n: Shard() for n in range(SHARDS)}
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
        request = pb.DescribeGroupsRequest(groups=[f"g{n}" for n in numbers])
        response = await self._service.describe_groups(request, RequestContext(client_id="test"))
        return [(group.group, group.shard, group.error.code) for group in response.groups]


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
