"""A full disk, reported to the cluster and watched until there is room again.

This broker's registration says that it is read-only: others lead if they can, and it joins no ISR. If it leads
partitions because no other broker can, it still serves their readers. Every second it tries whether there is room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla_broker.membership.own_registration import OwnRegistration
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log_dir import LogDir
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.event_loop.tasks import end_task

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.5
_TRY_S: Final = 1.0


class DiskRoom:
    """A component that reports a full disk."""

    def __init__(self, own: OwnRegistration, log_dir: Callable[[], LogDir], threads: DiskThreads) -> None:
        self._own = own
        self._log_dir = log_dir
        self._threads = threads
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._threads.keep(self._log_dir().disk.keep_reserve)
        self._task = asyncio.create_task(self._run(), name="disk-room")

    async def stop(self) -> None:
        await end_task(self._task)

    async def _run(self) -> None:
        clock, was_full, try_at = asyncio.get_running_loop().time, False, 0.0
        while True:
            await asyncio.sleep(_TICK_S)
            disk = self._log_dir().disk
            try:
                if disk.full and clock() >= try_at:
                    try_at = clock() + _TRY_S
                    await self._threads.keep(disk.keep_reserve)
                if bool(disk.full) != was_full:
                    was_full = bool(disk.full)
                    self._say(disk.full)
                await self._own.tell(read_only=was_full)
            except StoreUnavailableError as error:
                _log.warning("can't report whether the disk is full, retrying: %s", error)
                await asyncio.sleep(_TRY_S)
            except Exception:
                _log.exception("checking the free space on the disk failed, retrying")
                await asyncio.sleep(_TRY_S)

    def _say(self, full: str) -> None:
        path = self._log_dir().disk.path
        if full:
            _log.error(
                "the broker can't append to %s until the disk has room again: %s; free space, or shorten retention",
                path,
                full,
            )
        else:
            _log.info("%s has room again", path)
