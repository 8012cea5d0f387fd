"""A broker that shuts down has its leaders moved away before it stops serving (rule C8).

The broker calls the controller until nothing is left to move, and continues serving. Then it waits until its own
replicas know. If the controller can't be reached in time, the broker stops all the same, as if it had died.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla_broker.machines.departure import leads_transferable
from ottla_broker.peers.registration_view import UNREGISTERED, RegistrationView
from ottla_broker.replication.replicas import Replicas
from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.errors import OttlaError
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_log = logging.getLogger(__name__)

_LIMIT_S: Final = 5.0
_CALL_S: Final = 2.0
_AGAIN_S: Final = 0.05


class ControlledShutdown:
    """A component that starts last, so its stop comes first."""

    def __init__(self, controller: ControllerPeer, replicas: Replicas, registration: RegistrationView) -> None:
        self._controller = controller
        self._replicas = replicas
        self._registration = registration

    async def start(self) -> None:
        """Do nothing: the work is done by the stop."""

    async def stop(self) -> None:
        if self._registration.current().epoch == UNREGISTERED:
            return
        try:
            async with asyncio.timeout(_LIMIT_S):
                remaining = await self._move_leaders()
        except (TimeoutError, OttlaError):
            _log.warning("could not hand leadership to other brokers within %g s; shutting down anyway", _LIMIT_S)
        else:
            _log.info("handed leadership to other brokers; partitions that no other broker can lead: %d", remaining)

    async def kill(self) -> None:
        """Do nothing: SIGKILL gives no chance to hand over."""

    async def _move_leaders(self) -> int:
        """Have the leaders moved away. Return how many partitions are left that no other broker can lead."""
        while True:
            broker_id, epoch = self._registration.current()
            request = pb.ControlledShutdownRequest(
                broker_id=broker_id, broker_epoch=epoch, secret=self._registration.secret
            )
            try:
                response = await self._controller.call(Controller.CONTROLLED_SHUTDOWN, request, timeout=_CALL_S)
            except OttlaError as error:
                _log.info("the controller can't hand leadership to other brokers yet: %s", error)
            else:
                if response.remaining_leaders == 0:
                    await self._until_moved()
                    return sum(replica.leads for replica in self._replicas.table.all())
            await asyncio.sleep(_AGAIN_S)

    async def _until_moved(self) -> None:
        """Return once this broker knows that others lead. Before, it would wrongly answer as the leader."""
        broker_id, _ = self._registration.current()
        await self._replicas.until(lambda image: not leads_transferable(image, broker_id), timeout=_LIMIT_S)
