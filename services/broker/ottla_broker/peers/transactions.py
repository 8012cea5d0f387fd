"""Asks the txn-coordinator, before a first batch is taken, whether a partition is part of a producer's open
transaction.

Otherwise a batch that was long on its way could open a transaction that no one ever ends (KIP-890, rule 39).
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla_broker.peers.coordinator_peers import CoordinatorPeers
from ottla_core.errors import COORDINATOR_MOVES, ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_core.routing import TXN
from ottla_core.rpc.retry import Backoff
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import TxnProducer
from ottla_proto.contracts import Txn

_CALL_S: Final = 5.0
_PATIENCE_S: Final = 1.0
"""How long to wait for a shard that moves, or for the markers of the previous transaction. The client would not retry
sooner."""
_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.1
_SOON: Final = COORDINATOR_MOVES | {ErrorCode.CONCURRENT_TRANSACTIONS}


class TransactionVerifier:
    def __init__(self, coordinators: CoordinatorPeers) -> None:
        self._coordinators: Final = coordinators

    async def verify(
        self,
        transactional_id: str,
        producer: TxnProducer,
        partition: TopicPartition,
        version: int,
        coordinator_epoch: int,
    ) -> None:
        """Return once the partition is in the open transaction; with `version` 2 it is added. `coordinator_epoch` is
        the highest of the producer's markers there, or -1 without any. A coordinator with a lower epoch has been
        replaced.

        Raises what the coordinator answers: PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING, TRANSACTION_ABORTABLE, or
        CONCURRENT_TRANSACTIONS while the previous transaction is being ended. If no coordinator answers in time, raises
        an error after which producers try again.
        """
        request = pb.PartitionsToAdd(
            transactional_id=transactional_id,
            producer=producer,
            partitions=[pb.TxnPartition(topic=partition.topic, partition=partition.partition)],
            verify_only=version < TRANSACTIONS_V2,
            transaction_version=version,
            coordinator_epoch=coordinator_epoch if coordinator_epoch >= 0 else None,
        )
        loop = asyncio.get_running_loop()
        patient_until, backoff = loop.time() + _PATIENCE_S, Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while (error := await self._add(request)) is not None:
            if error.code not in _SOON or loop.time() >= patient_until:
                raise _as_producers_know(error)
            await asyncio.sleep(backoff.next())

    async def _add(self, request: pb.PartitionsToAdd) -> OttlaError | None:
        try:
            owner = self._coordinators.owner(TXN, request.transactional_id)
            call = pb.AddPartitionsRequest(transactions=[request])
            response = await self._coordinators.ask(owner, Txn.ADD_PARTITIONS, call, _CALL_S)
        except OttlaError as error:
            return error
        if response.error.code:
            return OttlaError(response.error.code, response.error.message)
        added = response.transactions[0]
        failed = added.error if added.error.code else added.partitions[0]
        return OttlaError(failed.code, failed.message) if failed.code else None


def _as_producers_know(error: OttlaError) -> OttlaError:
    """Return an error that makes producers retry. They look for no coordinator when a produce fails, and would take its
    errors for final ones."""
    if error.code not in COORDINATOR_MOVES:
        return error
    return OttlaError(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        f"can't verify whether the partition is in the transaction: {error.message}",
        hint="try again",
    )
