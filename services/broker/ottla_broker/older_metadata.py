"""Metadata that is older than a log here: the store was restored from a backup, and the cluster has to hear of it.

A log knows a later leader epoch than the metadata only then: epochs are given in the store before any batch carries
them. The registration says so, and the controller counts a restoration (rule C18).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla_broker.own_registration import OwnRegistration
from ottla_broker.seat import UNREGISTERED, Seat
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.tasks import end_task

_TRY_S: Final = 0.5

_log = logging.getLogger(__name__)


class OlderMetadata:
    """A component; `found(revision)` is called on the loop: the metadata up to that revision is older than a log here.

    What is told is that revision: a restoration that was counted meanwhile needs no second one.
    """

    def __init__(self, own: OwnRegistration, seat: Seat) -> None:
        self._own: Final = own
        self._seat: Final = seat
        self._found = asyncio.Event()
        self._revision = 0
        self._task: asyncio.Task[None] | None = None

    def found(self, revision: int) -> None:
        self._revision = revision
        self._found.set()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="older-metadata")

    async def stop(self) -> None:
        await end_task(self._task)

    async def _run(self) -> None:
        while True:
            await self._found.wait()
            self._found.clear()
            if not await self._told():
                self._found.set()
            await asyncio.sleep(_TRY_S)

    async def _told(self) -> bool:
        """Not before this process is registered: it may find it at its start."""
        registered = self._seat.life().epoch != UNREGISTERED
        try:
            return registered and await self._own.tell(ahead=True, former_epoch=self._revision)
        except StoreUnavailableError as error:
            _log.warning("that the metadata is older than the logs can't be told, trying on: %s", error)
        except Exception:
            _log.exception("telling that the metadata is older than the logs failed, trying on")
        return False
