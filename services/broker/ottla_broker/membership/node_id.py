"""The node id of this broker: the one in its settings, or else the one that its directory was given, or else a new one.

A new id comes from the controller, which gives a directory the same id whenever it asks (feature 118).
"""

from __future__ import annotations

import asyncio
import logging

from ottla_core.cluster.controller_peer import ControllerPeer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.retry import Backoff
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_log = logging.getLogger(__name__)

ALLOCATE_LIMIT_S = 60.0
_CALL_S = 3.0


async def allocate_node_id(controller: ControllerPeer, directory_id: str) -> int:
    """Return the id that the controller gives to this directory. Raises OttlaError if no controller answers within a
    minute."""
    backoff = Backoff(first_s=0.05)
    give_up_at = asyncio.get_running_loop().time() + ALLOCATE_LIMIT_S
    last = OttlaError(ErrorCode.NOT_CONTROLLER, "no controller is elected")
    while asyncio.get_running_loop().time() < give_up_at:
        try:
            request = pb.AllocateBrokerIdRequest(directory_id=directory_id)
            response = await controller.call(Controller.ALLOCATE_BROKER_ID, request, timeout=_CALL_S)
        except OttlaError as error:
            last = error
            await asyncio.sleep(backoff.next())
        else:
            _log.info("the controller assigned node id %d to this data directory", response.broker_id)
            return response.broker_id
    raise last
