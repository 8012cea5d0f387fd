"""The pretender is a process that claims to be a broker.

It knows what every client may know: ids, epochs and addresses of brokers, leaders and ISRs. It does not know the
secrets of registrations, so nobody may believe it. If a leader or the controller believed it, a replica that lacks
acknowledged records would count as in sync.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.world.client import batches_in
from tests.world.cluster import Cluster
from tests.world.process import Process

from ottla_core.cluster.image import Broker, Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId
from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.aio_stream import AioFrameStream
from ottla_core.rpc.status import raise_error
from ottla_proto import broker_pb2, contracts, controller_pb2

NAME: Final = "pretender"
_LIMIT_S: Final = 1.0
_PAUSE_S: Final = 0.05
_FETCHED_BYTES: Final = 1 << 20


class Pretender:
    """This claims to be the broker `follower`, which follows partition 0 of a topic. There is one pretender at a time.

    `counts` counts the requests for which it was not believed.
    """

    def __init__(self, cluster: Cluster, counts: Counter[str], topic: str, follower: str) -> None:
        self._cluster: Final = cluster
        self._counts: Final = counts
        self._topic: Final = topic
        self._follower: Final = int(follower.rpartition("-")[2])

    def fetch(self) -> None:
        """Claim from now on, by fetching, that the follower has all that its leader has."""
        self._begin(self._fetch)

    def propose(self) -> None:
        """Ask the controller from now on, in the leader's name, to take the follower into the ISR."""
        self._begin(self._propose)

    def end(self) -> None:
        self._cluster.kill(NAME)

    def _begin(self, lie: Callable[[], Awaitable[None]]) -> None:
        async def work(_: Process) -> None:
            while True:
                try:
                    await lie()
                except OttlaError as error:
                    self._counts["not believed"] += error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                await asyncio.sleep(_PAUSE_S)

        self._cluster.start_client(work, NAME)

    async def _fetch(self) -> None:
        peer = AioPeer(self._registered(self._partition().leader).address)
        stream = peer.open_stream(contracts.Broker.REPLICA_FETCH)
        try:
            offset, epoch = await self._end_of(peer)
            while True:
                offset, epoch = await self._fetch_from(stream, offset, epoch)
        finally:
            await stream.close()
            await peer.close()

    async def _end_of(self, peer: AioPeer) -> tuple[int, int]:
        """Return the high watermark, which every client may know, and the leader epoch there."""
        request = broker_pb2.ListOffsetsRequest()
        request.partitions.add(topic_id=self._topic_id, timestamp_ms=-1)
        found = (await peer.call(contracts.Broker.LIST_OFFSETS, request, timeout=_LIMIT_S)).partitions[0]
        raise_error(found.error)
        return found.offset, found.leader_epoch

    async def _fetch_from(self, stream: AioFrameStream[Any, Any], offset: int, epoch: int) -> tuple[int, int]:
        """Fetch once. Return the next offset, and the leader epoch of the last record before it."""
        follower = self._registered(self._follower)
        request = broker_pb2.FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=_FETCHED_BYTES,
            follower=broker_pb2.Follower(broker_id=follower.id, broker_epoch=follower.epoch),
        )
        request.partitions.add(
            topic_id=self._topic_id,
            current_leader_epoch=self._partition().leader_epoch,
            fetch_offset=offset,
            max_bytes=_FETCHED_BYTES,
            last_fetched_epoch=epoch,
        )
        response = await stream.exchange(request, timeout_ms=1000, timeout=_LIMIT_S)
        for found in response.partitions:
            raise_error(found.error)
            if found.HasField("diverging_epoch"):
                return found.diverging_epoch.end_offset, found.diverging_epoch.leader_epoch
            for header, _ in batches_in(found.records):
                offset, epoch = header.next_offset, header.leader_epoch
        return offset, epoch

    async def _propose(self) -> None:
        partition, controller = self._partition(), self._cluster.metadata.controller
        isr = [self._registered(each) for each in sorted({*partition.isr, self._follower})]
        leader = self._registered(partition.leader)
        request = controller_pb2.AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.epoch)
        request.partitions.add(
            topic_id=self._topic_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=[controller_pb2.IsrMember(broker_id=each.id, broker_epoch=each.epoch) for each in isr],
        )
        assert controller is not None, "a topic was created, so a controller was elected"
        peer = AioPeer(controller.address)
        try:
            await peer.call(contracts.Controller.ALTER_PARTITION, request, timeout=_LIMIT_S)
        finally:
            await peer.close()

    # ---- what everybody may know -----------------------------------------------------------------------------------

    @property
    def _topic_id(self) -> TopicId:
        return self._cluster.metadata.topics[self._topic]

    def _partition(self) -> Partition:
        """Return the partition. Raises LEADER_NOT_AVAILABLE if nobody leads it."""
        partition = self._cluster.metadata.of(self._topic)
        if partition is None or partition.leader < 0:
            raise OttlaError(ErrorCode.LEADER_NOT_AVAILABLE, "nobody leads the partition", hint="ask again")
        return partition

    def _registered(self, broker_id: int) -> Broker:
        return self._cluster.metadata.brokers[broker_id]
