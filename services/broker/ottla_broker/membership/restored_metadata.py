"""A broker reports that the metadata is older than its data, because the store was restored from a backup.

It finds that out from one of these, all of which was in the store before: the directory knows a later incarnation of
this broker than the store, or has followed the metadata further, or a log knows a later leader epoch. What a start
finds is in the registration from the beginning, because a moment later the broker might lead by the backup's ISR. What
is found later is reported. The controller then counts a restoration, and the logs decide who leads (rule C18).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla_broker.membership.own_registration import OwnRegistration
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.event_loop.tasks import end_task

_TRY_S: Final = 0.5

_log = logging.getLogger(__name__)


class OlderMetadata:
    """A component. `found(revision)` is called on the loop: up to that revision the metadata is older than the data.

    It reports that revision, because a restoration that was counted since needs no second one.
    """

    def __init__(self, own: OwnRegistration) -> None:
        self._own: Final = own
        self._found = asyncio.Event()
        self.revision: int | None = None
        """It is the newest revision that was found to be older. It is None if there is none."""
        self._task: asyncio.Task[None] | None = None

    def found(self, revision: int) -> None:
        self.revision = revision if self.revision is None else max(self.revision, revision)
        self._found.set()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="older-metadata")

    async def stop(self) -> None:
        await end_task(self._task)

    async def _run(self) -> None:
        while True:
            await self._found.wait()
            self._found.clear()
            if not await self._report():
                self._found.set()
            await asyncio.sleep(_TRY_S)

    async def _report(self) -> bool:
        try:
            return await self._own.tell(ahead_of=self.revision)
        except StoreUnavailableError as error:
            _log.warning("can't report that the metadata is older than the logs, retrying: %s", error)
        except Exception:
            _log.exception("reporting that the metadata is older than the logs failed, retrying")
        return False
