"""The shards' log: partitions of an internal topic, each requested from its current leader (docs/design/shards.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.shard_log import (
    Append,
    Appended,
    Batches,
    Call,
    Check,
    Confirmed,
    Read,
    Rejected,
    Result,
    Unknown,
    result_of,
)
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import SHARD_TOPICS, TopicId
from ottla_core.records.fence import ShardFence
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.peers import Peers
from ottla_core.rpc.status import TransportError
from ottla_proto import broker_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Broker

READ_BYTES: Final = 256 << 10
"""How much is read and processed at once, without a pause for other tasks of the loop. With records in batches of their
own, as a cleaner leaves them, that takes 40 ms, which is not far from `watchdog.LIMIT_S`."""


LINGER_S: Final = 0.02
"""How long an append waits for others while one is under way, because each message sets off fetches of the followers,
too. An append that finds none under way is sent at once."""


class _LogPartition(NamedTuple):
    """A shard's partition, with its leader as far as is known."""

    topic_id: TopicId
    partition: int
    leader_epoch: int
    address: str


class BrokerShardLog:
    """The logs of one kind of coordinator. A component: it connects to a leader at the first call."""

    def __init__(
        self, kind: str, image: Callable[[], ClusterImage], *, client_id: str = "", tls: InternalTls | None = None
    ) -> None:
        self._kind: Final = kind
        self._image = image
        self._peers: Final = Peers(client_id=client_id or f"{kind}-coordinator", tls=tls)

    async def start(self) -> None:
        """Do nothing: the first call connects."""

    async def stop(self) -> None:
        await self._peers.close()

    async def call(self, shard: int, owner: ShardFence, call: Call, *, timeout_s: float) -> Result:
        target = self._find_partition(shard)
        if target is None:
            return Rejected(_no_leader(SHARD_TOPICS[self._kind], shard))
        try:
            match call:
                case Append():
                    return await self._append(target, owner, call, timeout_s)
                case Check():
                    return await self._check(target, owner, call, timeout_s)
                case Read():
                    return await self._read(target, call, timeout_s)
        except TransportError as error:
            return Unknown(error)

    async def _append(self, target: _LogPartition, owner: ShardFence, call: Append, timeout_s: float) -> Result:
        request = pb.ShardAppendRequest(
            topic_id=target.topic_id,
            partition=target.partition,
            leader_epoch=target.leader_epoch,
            kind=self._kind,
            shard_epoch=owner.epoch,
            incarnation=owner.incarnation,
            expected_next_offset=call.expected_offset,
            records=call.batches,
            timeout_ms=int(timeout_s * 1000),
        )
        appends = self._peers.at(target.address).gathered(Broker.APPENDS)
        response = await appends.ask(
            Broker.SHARD_APPEND, request, timeout=timeout_s, linger_s=LINGER_S, while_busy=True
        )
        if response.error.code:
            return result_of(_error(response.error), response.log_end_offset)
        return Appended(response.base_offset, response.high_watermark)

    async def _check(self, target: _LogPartition, owner: ShardFence, call: Check, timeout_s: float) -> Result:
        request = pb.CheckFenceRequest(
            topic_id=target.topic_id,
            partition=target.partition,
            leader_epoch=target.leader_epoch,
            shard_epoch=owner.epoch,
            incarnation=owner.incarnation,
            next_offset=call.next_offset,
            timeout_ms=int(timeout_s * 1000),
        )
        calls = self._peers.at(target.address).gathered(Broker.CALLS)
        response = await calls.ask(Broker.CHECK_FENCE, request, timeout=timeout_s)
        return result_of(_error(response.error), 0) if response.error.code else Confirmed()

    async def _read(self, target: _LogPartition, call: Read, timeout_s: float) -> Result:
        """Read as a consumer's fetch does, so it ends at the high watermark. If the log begins later, read from there
        on."""
        offset = call.offset
        stream = self._peers.at(target.address).open_stream(Broker.FETCH)
        try:
            while True:
                request = pb.FetchRequest(min_bytes=1, max_bytes=READ_BYTES)
                request.partitions.add(
                    topic_id=target.topic_id,
                    partition=target.partition,
                    current_leader_epoch=target.leader_epoch,
                    fetch_offset=offset,
                    max_bytes=READ_BYTES,
                )
                response = await stream.exchange(request, timeout_ms=int(timeout_s * 1000), timeout=timeout_s)
                [fetched] = response.partitions
                if fetched.error.code != ErrorCode.OFFSET_OUT_OF_RANGE or fetched.log_start_offset <= offset:
                    break
                offset = fetched.log_start_offset
        except OttlaError as error:
            return Unknown(error)
        finally:
            await stream.close()
        if fetched.error.code:
            return Unknown(_error(fetched.error))
        return Batches(fetched.records, fetched.high_watermark)

    def _find_partition(self, shard: int) -> _LogPartition | None:
        """Return the shard's partition, or None while it has no leader. Then nothing is sent."""
        image = self._image()
        topic = image.topics.get(SHARD_TOPICS[self._kind])
        if topic is None or shard >= topic.partition_count:
            return None
        partition_id, partition = image.partitions_of(topic)[shard]
        leader = image.brokers.get(partition.leader)
        if leader is None:
            return None
        return _LogPartition(topic.id, partition_id.partition, partition.leader_epoch, leader.address)


def _error(error: Error) -> OttlaError:
    return OttlaError(error.code, error.message)


def _no_leader(topic: str, shard: int) -> OttlaError:
    return OttlaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{shard} currently has no leader", hint="try again")
