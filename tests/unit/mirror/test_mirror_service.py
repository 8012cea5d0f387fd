"""The mirror's service answers about however much one request names, and leaves its loop to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from turns import turns_during

from ottla_core.clock import ManualClock
from ottla_core.model import TopicPartition
from ottla_core.rpc.context import RequestContext
from ottla_mirror import service as module
from ottla_mirror.failover import GroupMoved, Moved
from ottla_mirror.service import MirrorService
from ottla_proto import mirror_pb2 as pb

MANY = 30_000
CALLER = RequestContext(client_id="test")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> MirrorService:
    """A mirror whose one flow has copied each record to the same offset of topic "copy". What it does on threads takes
    no turn of the loop."""

    async def at_once(call: Callable[..., Any], *args: Any, **more: Any) -> Any:
        return call(*args, **more)

    monkeypatch.setattr(asyncio, "to_thread", at_once)

    def translate(at: TopicPartition, offset: int) -> int:
        return offset

    flow: Any = SimpleNamespace(
        settings=SimpleNamespace(name="a->b", policy="renamed"),
        syncs=SimpleNamespace(catch_up=lambda limit_s: None, translate=translate),
        names=SimpleNamespace(target_of=lambda topic: "copy"),
    )
    return MirrorService([flow], ManualClock())


@pytest.mark.usefixtures("slices_by_looks")
async def test_a_translation_of_many_offsets_leaves_turns_to_others(service: MirrorService) -> None:
    offsets = [pb.SourceOffset(topic="t", partition=n, offset=n) for n in range(MANY)]
    request = pb.TranslateOffsetsRequest(flow="a->b", offsets=offsets)
    translating = asyncio.create_task(service.translate_offsets(request, CALLER))
    assert await turns_during(translating) > MANY / 100
    assert [each.offset for each in translating.result().offsets] == list(range(MANY))


@pytest.mark.usefixtures("slices_by_looks")
async def test_a_failover_of_many_groups_leaves_turns_to_others(
    service: MirrorService, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = Moved(True, [GroupMoved(f"g{n}", []) for n in range(MANY)])
    monkeypatch.setattr(module, "fail_over", lambda flow, groups, *, dry_run: moved)
    moving = asyncio.create_task(service.failover(pb.MoveGroupsRequest(flow="a->b"), CALLER))
    assert await turns_during(moving) > MANY / 100
    assert len(moving.result().groups) == MANY
