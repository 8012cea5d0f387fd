"""Heartbeats of Kafka clients to one coordinator, gathered: most of what one costs there is the call that brings it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from ottla_core.errors import ErrorCode
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.gathered import Gathered
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group

GATHER_S: Final = 0.05
"""Between two calls: little beside the seconds between two heartbeats of a member."""

MOST: Final = 500
"""In one call, which holds the coordinator's loop; the contract takes twice as many."""


class GatheredHeartbeats:
    """Heartbeats to one coordinator, which responds to each as if it had come alone."""

    def __init__(self, peer: AioPeer) -> None:
        self._peer: Final = peer
        self._gathered: Final = Gathered(self._call, GATHER_S, most=MOST, weigh=lambda entry: 1)

    async def ask(self, request: pb.HeartbeatRequest, timeout_s: float) -> pb.HeartbeatResponse:
        """The response, with the error that it may carry. Raises TransportError."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_s
        response = await self._gathered.ask(request, timeout_s)
        if response.error.code != ErrorCode.REQUEST_TIMED_OUT:
            return response
        # Its shard is not proved at the moment. The others' heartbeats were not to wait for that; this one is.
        return await self._peer.ask(Group.HEARTBEAT, request, timeout=max(0.0, give_up_at - loop.time()))

    async def _call(self, heartbeats: list[pb.HeartbeatRequest], timeout_s: float) -> Sequence[pb.HeartbeatResponse]:
        request = pb.HeartbeatsRequest(heartbeats=heartbeats)
        return (await self._peer.call(Group.HEARTBEATS, request, timeout=timeout_s)).heartbeats
