"""The way to the txn-coordinators: to the present owner of a transactional id's shard."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import COORDINATOR_MOVES, ErrorCode, OttlaError
from ottla_core.routing import TXN
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.peers import Peers
from ottla_core.rpc.retry import Backoff
from ottla_core.rpc.status import TransportError
from ottla_proto import txn_pb2 as pb
from ottla_proto.contracts import Txn

_SOON: Final = COORDINATOR_MOVES | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.REQUEST_TIMED_OUT}


class HasImage(Protocol):
    @property
    def image(self) -> ClusterImage: ...


class TxnCoordinators:
    """A component: it connects to a coordinator at the first call."""

    def __init__(self, metadata: HasImage, tls: InternalTls | None = None) -> None:
        self._metadata: Final = metadata
        self._peers: Final = Peers(tls=tls)

    async def start(self) -> None:
        """Do nothing: the first call connects."""

    async def stop(self) -> None:
        await self._peers.close()

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if new.coordinators is not old.coordinators:
            self._peers.retain({coordinator.address for coordinator in new.coordinators.values()})

    async def add_offsets(self, request: pb.AddOffsetsRequest, timeout_s: float) -> None:
        """Return once the coordinator has added the offsets. It is asked again while it moves, or while it ends the
        previous transaction.

        Raises the coordinator's error, and COORDINATOR_LOAD_IN_PROGRESS if none has answered within `timeout_s`. After
        that, clients of every age try again at once, with the same group coordinator.
        """
        backoff, loop = Backoff(first_s=0.02, most_s=0.5), asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_s
        while True:
            try:
                # the coordinator's log may take as long as this one's
                await self._ask(request, max(give_up_at - loop.time(), 0.0))
            except OttlaError as error:
                if not isinstance(error, TransportError) and error.code not in _SOON:
                    raise
                pause_s = backoff.next()
                if loop.time() + pause_s < give_up_at:
                    await asyncio.sleep(pause_s)
                    continue
                if error.code == ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
                raise OttlaError(
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                    f"can't determine whether transaction {request.transactional_id!r} is open: {error}",
                    hint="try again",
                ) from error
            return

    async def _ask(self, request: pb.AddOffsetsRequest, timeout_s: float) -> None:
        owner = self._metadata.image.owner_of_key(TXN, request.transactional_id)
        if owner is None:
            raise OttlaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "no txn-coordinator owns the transactional id's shard"
            )
        calls = self._peers.at(owner.address).gathered(Txn.CALLS)
        await calls.call(Txn.ADD_OFFSETS, request, timeout=timeout_s)
