"""Offsets that producers commit in their transactions, and the markers that end these: from contract to shards."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ottla_core.coordination.shard import Decide, Marker, ShardDecision, TransactionProducer
from ottla_core.coordination.shards import Shards
from ottla_core.coordination.timers import Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.status import error_message
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_group_coordinator.machines.transactions import Guard, check_producer
from ottla_group_coordinator.txn_coordinators import TxnCoordinators
from ottla_proto import group_pb2 as pb
from ottla_proto import txn_pb2
from ottla_proto.common_pb2 import Error, TxnMarker, TxnProducer

_COMMIT_S: Final = 5.0
"""Kafka's offsets.commit.timeout.ms."""
_MARKER_S: Final = 5.0
"""How long markers wait if their request does not say. It ends before the caller's deadline, so that a shard whose log
is late gets an error of its own and the request's other shards are written."""


class CommitsInTransactions:
    def __init__(self, shards: Shards[GroupShard], coordinators: TxnCoordinators) -> None:
        self._shards: Final = shards
        self._coordinators: Final = coordinators

    async def commit(self, request: pb.CommitOffsetsRequest, decide: Decide[GroupShard]) -> Any:
        """Carry out `decide` within the transaction. Member and generation are checked before and after the call to the
        txn-coordinator. Raises what both raise, and COORDINATOR_LOAD_IN_PROGRESS, after which clients try again."""
        producer = _producer(request.transaction.producer)
        check_producer(producer)
        guard: Guard | None = None

        def decide_pending(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
            return shard.transactions.decide_commit(producer, decide(shard, now), guard)

        give_up_at = asyncio.get_running_loop().time() + _COMMIT_S
        while (left_s := give_up_at - asyncio.get_running_loop().time()) > 0:
            size_bytes = request.ByteSize()
            result = await self._shards.ask(request.group, decide_pending, timeout=left_s, size_bytes=size_bytes)
            if not isinstance(result, Guard):
                return result
            guard = result
            await self._coordinators.add_offsets(_add_offsets(request, guard), left_s)
        raise OttlaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            "the producer's transactions kept ending before the offsets could be committed",
            hint="try again",
        )

    async def write_markers(self, request: pb.WriteShardMarkersRequest) -> pb.WriteShardMarkersResponse:
        """Write each marker as if it had come alone."""
        timeout_s = request.timeout_ms / 1000 or _MARKER_S
        written = [self._write(shard, item.marker, timeout_s) for item in request.markers for shard in item.shards]
        errors = iter(await asyncio.gather(*written))
        return pb.WriteShardMarkersResponse(
            markers=[pb.ShardMarkerWritten(shards=[next(errors) for _ in item.shards]) for item in request.markers]
        )

    async def _write(self, shard: int, named: TxnMarker, timeout_s: float) -> Error:
        marker = Marker(_producer(named.producer), named.committed, named.coordinator_epoch)
        raises_epochs = named.transaction_version >= TRANSACTIONS_V2

        def decide(held: GroupShard, now: Moment) -> ShardDecision[None]:
            return held.transactions.decide_marker(marker, raises_epochs=raises_epochs)

        try:
            check_producer(marker.producer, marker.coordinator_epoch)
            await self._shards.ask_shard(shard, decide, timeout=timeout_s)
        except OttlaError as error:
            return error_message(error)
        return Error()


def _producer(producer: TxnProducer) -> TransactionProducer:
    return TransactionProducer(producer.id, producer.epoch)


def _add_offsets(request: pb.CommitOffsetsRequest, guard: Guard) -> txn_pb2.AddOffsetsRequest:
    transaction = request.transaction
    return txn_pb2.AddOffsetsRequest(
        transactional_id=transaction.transactional_id,
        producer=transaction.producer,
        group=request.group,
        verify_only=transaction.transaction_version < TRANSACTIONS_V2,
        transaction_version=transaction.transaction_version,
        coordinator_epoch=guard.coordinator_epoch if guard.coordinator_epoch >= 0 else None,
    )
