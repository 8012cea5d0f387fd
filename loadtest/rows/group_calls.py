"""Calls of the Group contract for benchmarks: each group's go to whoever owns its shard, on one connection each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from itertools import count
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from google.protobuf.message import Message

import ottla
from ottla_core.errors import OttlaError
from ottla_core.host_port import HostPort
from ottla_core.routing import shard_of
from ottla_core.rpc.aio import AioPeer
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group, Method
from ottla_stack.running import RunningStack

Asked = TypeVar("Asked", bound=Message)
Response = TypeVar("Response", bound=Message)

LIMIT_S: Final = 30.0
_PAUSE_S: Final = 0.02
_ASSIGNED: Final = b"its share"


class GroupCalls:
    """`async with GroupCalls(stack) as calls`: every shard has an owner by then."""

    def __init__(self, stack: RunningStack) -> None:
        # `make bench-before` also measures older commits, whose plans have no host because it is always this one.
        host = getattr(stack.plan, "host", "127.0.0.1")
        self._coordinators: Final = {
            service.name: str(HostPort(host, service.port))
            for service in stack.plan.services()
            if service.name.startswith("group-coordinator-")
        }
        self._admin: Final = ottla.Admin(stack.bootstrap)
        self._peers: Final[dict[str, AioPeer]] = {}
        self._owners: list[str] = []

    async def __aenter__(self) -> Self:
        async with asyncio.timeout(LIMIT_S):
            while True:
                if await self.look_up():
                    return self
                await asyncio.sleep(_PAUSE_S)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.gather(*(peer.close() for peer in self._peers.values()))
        self._admin.close()

    async def look_up(self) -> bool:
        """Ask who owns what; whether each shard has somebody."""
        shards = await asyncio.to_thread(self._admin.groups.shards, timeout=LIMIT_S)
        self._owners = [self._coordinators.get(f"group-coordinator-{each.coordinator}", "") for each in shards]
        return bool(shards) and all(self._owners)

    def owner(self, group: str) -> str:
        """gRPC address of the coordinator."""
        return self._owners[shard_of(group, len(self._owners))]

    def in_shard_of(self, group: str) -> Iterator[str]:
        """Names of other groups that its coordinator has in the same shard, without end."""
        shards = len(self._owners)
        shard = shard_of(group, shards)
        return (name for n in count() if shard_of(name := f"{group}-{n}", shards) == shard)

    async def ask(
        self, group: str, method: Method[Asked, Response], asked: Asked, limit_s: float = LIMIT_S
    ) -> Response:
        """Raises OttlaError as it came: whoever measures wants to know of it."""
        address = self.owner(group)
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = AioPeer(address)
        return await peer.call(method, asked, timeout=limit_s)

    async def until_served(self, group: str) -> None:
        """Until a fetch of offsets is answered, whoever has to come first for that."""
        while True:
            try:
                await self.ask(group, Group.FETCH_OFFSETS, pb.FetchOffsetsRequest(group=group), limit_s=1.0)
            except OttlaError:
                await asyncio.sleep(_PAUSE_S)
                await self.look_up()
            else:
                return

    async def commit(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int],
        member: pb.Member | None = None,
        generation: int = -1,
    ) -> None:
        asked = pb.CommitOffsetsRequest(group=group, member=member, generation=generation)
        for (topic, partition), offset in offsets.items():
            asked.offsets.add(topic=topic, partition=partition, offset=offset)
        response = await self.ask(group, Group.COMMIT_OFFSETS, asked)
        assert not any(each.error.code for each in response.partitions)

    async def round(self, group: str, member_ids: list[str]) -> tuple[int, list[str]]:
        """All members join and synchronize; an empty id is a new one's. The generation, and their ids."""
        joined = await asyncio.gather(*(self.join(group, member_id) for member_id in member_ids))
        generation, ids = joined[0].generation, [each.member_id for each in joined]
        await asyncio.gather(*(self.sync(group, each, generation, ids) for each in joined))
        return generation, ids

    async def join(self, group: str, member_id: str) -> pb.JoinResponse:
        """One member joins; an empty id is a new one's."""
        asked: dict[str, Any] = {"session_timeout_ms": 300_000, "rebalance_timeout_ms": 300_000}
        return await self.ask(
            group,
            Group.JOIN,
            pb.JoinRequest(
                group=group,
                member=pb.Member(member_id=member_id),
                protocol_type="consumer",
                protocols=[pb.Protocol(name="range", metadata=b"what it reads")],
                client_id="bench",
                reason="a benchmark",
                **asked,
            ),
        )

    async def sync(self, group: str, joined: pb.JoinResponse, generation: int, ids: list[str]) -> None:
        """One member gets its assignment; the leader gives all members theirs."""
        asked = pb.SyncRequest(group=group, member=pb.Member(member_id=joined.member_id), generation=generation)
        if joined.leader == joined.member_id:
            for member_id in ids:
                asked.assignments.add(member_id=member_id, assignment=_ASSIGNED)
        response = await self.ask(group, Group.SYNC, asked)
        assert response.assignment == _ASSIGNED

    async def heartbeat(self, group: str, member_id: str, generation: int) -> None:
        asked = pb.HeartbeatRequest(group=group, member=pb.Member(member_id=member_id), generation=generation)
        await self.ask(group, Group.HEARTBEAT, asked)
