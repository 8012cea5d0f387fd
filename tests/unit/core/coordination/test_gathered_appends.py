"""Appends to one leader go together where they come close together, and never for long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from waiting import until

from ottla_core.coordination import gathered_appends
from ottla_core.coordination.gathered_appends import GatheredAppends
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import broker_pb2 as pb


class Peer:
    """Answers each append with its own offset, once it is let go."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: OttlaError | None = None

    async def call(self, method: Any, asked: pb.ShardAppendsRequest, *, timeout: float) -> pb.ShardAppendsResponse:
        self.calls.append([each.expected_next_offset for each in asked.appends])
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return pb.ShardAppendsResponse(
            appends=[pb.ShardAppendResponse(base_offset=each.expected_next_offset) for each in asked.appends]
        )


@pytest.fixture
def peer() -> Peer:
    return Peer()


@pytest.fixture
def gathered(peer: Peer) -> GatheredAppends:
    return GatheredAppends(peer, 0.02)  # type: ignore[arg-type]  # a stand-in


async def append(gathered: GatheredAppends, offset: int, size_bytes: int = 1) -> int:
    asked = pb.ShardAppendRequest(expected_next_offset=offset, records=b"x" * size_bytes)
    return (await gathered.append(asked, 1.0)).base_offset


async def test_what_comes_while_the_moment_lasts_goes_together(gathered: GatheredAppends, peer: Peer) -> None:
    assert await append(gathered, 0) == 0
    assert await asyncio.gather(*(append(gathered, n) for n in (1, 2, 3))) == [1, 2, 3]
    assert peer.calls == [[0], [1, 2, 3]]


async def test_a_call_that_waits_for_its_replicas_holds_nobody_up(gathered: GatheredAppends, peer: Peer) -> None:
    peer.gate.clear()
    slow = asyncio.create_task(append(gathered, 0))
    while not peer.calls:
        await asyncio.sleep(0)
    other = asyncio.create_task(append(gathered, 1))
    async with asyncio.timeout(20):
        while len(peer.calls) < 2:
            await asyncio.sleep(0.001)
    peer.gate.set()
    assert [*await asyncio.gather(slow, other)] == [0, 1]


async def test_what_comes_beside_a_call_goes_together_when_that_is_back(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered_appends, "BUSY_S", 1_000.0)
    gathered = GatheredAppends(peer, 0.0)  # type: ignore[arg-type]  # a stand-in
    peer.gate.clear()
    appends = [asyncio.create_task(append(gathered, 0))]
    await until(lambda: peer.calls)
    for n in (1, 2):
        appends.append(asyncio.create_task(append(gathered, n)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert peer.calls == [[0]]
    peer.gate.set()
    assert [*await asyncio.gather(*appends)] == [0, 1, 2]
    assert peer.calls == [[0], [1, 2]]


async def test_a_lost_call_is_lost_for_all_of_it_and_for_no_more(gathered: GatheredAppends, peer: Peer) -> None:
    peer.error = OttlaError(ErrorCode.NETWORK_EXCEPTION, "cut")
    outcomes = await asyncio.gather(append(gathered, 0), append(gathered, 1), return_exceptions=True)
    assert [type(each) for each in outcomes] == [OttlaError, OttlaError]
    peer.error = None
    assert await append(gathered, 2) == 2


async def test_what_nobody_waits_for_any_more_is_not_sent(gathered: GatheredAppends, peer: Peer) -> None:
    await append(gathered, 0)
    given_up = asyncio.create_task(append(gathered, 1))
    kept = asyncio.create_task(append(gathered, 2))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await kept == 2
    assert peer.calls == [[0], [2]]


async def test_a_call_has_a_largest_size(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered_appends, "MAX_BYTES", 10)
    gathered = GatheredAppends(peer, 0.02)  # type: ignore[arg-type]  # a stand-in
    sizes = {1: 4, 2: 4, 3: 4, 4: 20, 5: 1}
    assert await asyncio.gather(*(append(gathered, n, size) for n, size in sizes.items())) == [1, 2, 3, 4, 5]
    assert peer.calls == [[1, 2], [3], [4], [5]]
