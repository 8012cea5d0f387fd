"""Coordinators as a cluster sees them: a registration, a port, and appends to the shards that they were given."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from waiting import LIMIT_S, until

from ottla_core.cluster.coordinator_registration import CoordinatorRegistration
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.following import Following
from ottla_core.cluster.image import ClusterImage, Coordinator, Partition, Shard, Topic
from ottla_core.cluster.store import MetaStore
from ottla_core.errors import ErrorCode
from ottla_core.model import SHARD_TOPICS
from ottla_core.records.fence import ShardFence, seal_fence
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.server import RpcServer
from ottla_core.rpc.status import TransportError
from ottla_core.telemetry import Metrics
from ottla_proto import broker_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Broker

CALL_S = 5.0
DEFINITE = frozenset({ErrorCode.NONE, ErrorCode.OFFSET_MISMATCH, ErrorCode.SHARD_FENCED, ErrorCode.MESSAGE_TOO_LARGE})


class RegisteredCoordinator:
    """One process's place in the cluster: it serves nothing but gRPC's health."""

    def __init__(self, store: MetaStore, instance_id: int, *, kind: str = "group", cluster_id: str = "ottla") -> None:
        self.kind, self.id = kind, instance_id
        self.unseated: list[Exception] = []
        self.follower = MetadataFollower(store, cluster_id)
        self.server = RpcServer("127.0.0.1", 0, Metrics())
        incarnation = uuid.uuid4().hex
        self.seat = CoordinatorRegistration(
            store,
            cluster_id,
            6,
            lambda: Coordinator(kind, instance_id, 0, f"127.0.0.1:{self.server.port}", incarnation),
            self.unseated.append,
        )
        self._following = Following(self.follower, None)
        self._peers: dict[str, AioPeer] = {}

    async def start(self) -> None:
        await self._following.start()
        self.follower.on_change(self.seat.on_image)
        await self.server.start()
        await self.seat.start()

    async def stop(self) -> None:
        await self.seat.stop()
        await self._end(self.server.stop(grace_s=0))

    async def kill(self) -> None:
        """As SIGKILL would."""
        await self.seat.kill()
        await self._end(self.server.kill())

    async def _end(self, serving: Any) -> None:
        await serving
        await self._following.stop()
        for peer in self._peers.values():
            await peer.close()

    @property
    def image(self) -> ClusterImage:
        return self.follower.image

    def owned(self) -> dict[int, Shard]:
        shards = {n: shard for (kind, n), shard in self.image.shards.items() if kind == self.kind}
        return {n: s for n, s in shards.items() if (s.owner, s.incarnation) == (self.id, self.seat.epoch)}

    async def fence_of(self, number: int) -> ShardFence:
        """Who it is in that shard, once it has been given it."""
        await until(lambda: number in self.owned())
        shard = self.owned()[number]
        return ShardFence(shard.epoch, shard.incarnation)

    def place(self, number: int) -> tuple[Topic, Partition]:
        topic = self.image.topics[SHARD_TOPICS[self.kind]]
        return topic, self.image.partitions_of(topic)[number][1]

    def peer(self, leader: int) -> AioPeer:
        address = self.image.brokers[leader].address
        return self._peers.setdefault(address, AioPeer(address, client_id=f"{self.kind}-{self.id}"))

    async def append_once(
        self, number: int, fence: ShardFence, expected: int, records: bytes, *, timeout_s: float = CALL_S
    ) -> pb.ShardAppendResponse:
        """One call to whoever leads, as far as is known here."""
        topic, partition = self.place(number)
        request = pb.ShardAppendRequest(
            topic_id=topic.id,
            partition=number,
            leader_epoch=partition.leader_epoch,
            kind=self.kind,
            shard_epoch=fence.epoch,
            incarnation=fence.incarnation,
            expected_next_offset=expected,
            records=records,
            timeout_ms=int(timeout_s * 1000),
        )
        if partition.leader not in self.image.brokers:
            return pb.ShardAppendResponse(error=Error(code=ErrorCode.LEADER_NOT_AVAILABLE))
        try:
            return await self.peer(partition.leader).ask(Broker.SHARD_APPEND, request, timeout=timeout_s + 1)
        except TransportError as error:
            return pb.ShardAppendResponse(error=Error(code=error.code))

    async def append(self, number: int, fence: ShardFence, expected: int, records: bytes) -> pb.ShardAppendResponse:
        """The same bytes at the same offset until the answer is definite (rule 5)."""
        give_up_at = asyncio.get_running_loop().time() + LIMIT_S
        while True:
            response = await self.append_once(number, fence, expected, records)
            if response.error.code in DEFINITE:
                return response
            assert asyncio.get_running_loop().time() < give_up_at, f"still unknown: {response.error}"
            await asyncio.sleep(0.02)

    async def take(self, number: int, at_ms: int) -> tuple[ShardFence, int]:
        """Its fence, in the shard's log, and the offset that comes next."""
        fence, expected = await self.fence_of(number), 0
        while True:
            response = await self.append(number, fence, expected, seal_fence(fence, at_ms))
            if not response.error.code:
                return fence, response.base_offset + 1
            assert response.error.code == ErrorCode.OFFSET_MISMATCH, response.error
            expected = response.log_end_offset

    async def check(
        self, number: int, fence: ShardFence, next_offset: int, *, timeout_s: float = CALL_S
    ) -> pb.CheckFenceResponse:
        topic, partition = self.place(number)
        request = pb.CheckFenceRequest(
            topic_id=topic.id,
            partition=number,
            leader_epoch=partition.leader_epoch,
            shard_epoch=fence.epoch,
            incarnation=fence.incarnation,
            next_offset=next_offset,
            timeout_ms=int(timeout_s * 1000),
        )
        return await self.peer(partition.leader).ask(Broker.CHECK_FENCE, request, timeout=timeout_s + 1)

    async def until_image(self, condition: Callable[[ClusterImage], object]) -> None:
        await until(lambda: condition(self.image))
