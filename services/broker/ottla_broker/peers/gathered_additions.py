"""Partitions for open transactions, to one txn-coordinator, gathered: a transaction begins with a call for each of its
partitions, and many producers begin theirs at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla_core.rpc.aio import AioPeer
from ottla_core.rpc.gathered import Gathered
from ottla_proto import txn_pb2 as pb
from ottla_proto.contracts import Txn

GATHER_S: Final = 0.002
"""Between two calls; the first batches of a transaction wait for it."""

MOST: Final = 1_000
"""Partitions of one call, which holds the coordinator's loop."""


class GatheredAdditions:
    def __init__(self, peer: AioPeer) -> None:
        self._peer: Final = peer
        self._gathered: Final = Gathered(self._call, GATHER_S, most=MOST, weigh=lambda added: len(added.partitions))

    async def add(self, request: pb.PartitionsToAdd, timeout_s: float) -> pb.PartitionsAdded:
        """The response, with the errors that it may carry. Raises TransportError."""
        return await self._gathered.ask(request, timeout_s)

    async def _call(self, additions: list[pb.PartitionsToAdd], timeout_s: float) -> Sequence[pb.PartitionsAdded]:
        request = pb.AddPartitionsRequest(transactions=additions)
        return (await self._peer.call(Txn.ADD_PARTITIONS, request, timeout=timeout_s)).transactions
