"""The Group contract called directly, at the owner of the group's shard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.routing import shard_of
from ottla_core.rpc.aio import AioPeer
from ottla_proto.common_pb2 import ShardsRequest
from ottla_proto.contracts import Group, Method

SHARDS: Final = 8
CALL_S: Final = 1.0
MOVING: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Ask again: the coordinator is another, or not there, and whether it has done what was asked is not known."""


class GroupClient:
    """`coordinators` are addresses. Each coordinator says which shards it owns."""

    def __init__(self, coordinators: Sequence[str]) -> None:
        self.coordinators: Final = tuple(coordinators)
        self._peers: Final[dict[str, AioPeer]] = {}
        self._owners: dict[int, str] = {}
        self._looking: asyncio.Task[None] | None = None

    async def ask(self, group: str, method: Method[Any, Any], asked: Any, *, timeout: float = CALL_S) -> Any:
        """The response, with the error that it may carry. Raises OttlaError, one of `MOVING`, without a response.

        Once, and to one coordinator only: what becomes of it is either known or not.
        """
        if not self._owners:
            await self._look()
        address = self._owners.get(shard_of(group, SHARDS))
        if not address:
            await self._look()
            raise OttlaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody owns the shard of {group}")
        try:
            response = await self.ask_at(address, method, asked, timeout=timeout)
        except OttlaError:
            await self._look()
            raise
        if response.error.code in MOVING:
            await self._look()
        return response

    async def ask_at(self, address: str, method: Method[Any, Any], asked: Any, *, timeout: float = CALL_S) -> Any:
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = AioPeer(address, client_id="faults")
        return await peer.ask(method, asked, timeout=timeout)

    async def _look(self) -> None:
        """Who owns what; one look at a time, for all who wait."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._ask_coordinators())
        await self._looking

    async def _ask_coordinators(self) -> None:
        responses = await asyncio.gather(
            *(self.ask_at(address, Group.SHARDS, ShardsRequest()) for address in self.coordinators),
            return_exceptions=True,
        )
        self._owners = {
            shard.shard: address
            for address, response in zip(self.coordinators, responses, strict=True)
            if not isinstance(response, BaseException)
            for shard in response.shards
        }

    async def close(self) -> None:
        await asyncio.gather(*(peer.close() for peer in self._peers.values()))
