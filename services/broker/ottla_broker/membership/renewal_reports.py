"""A broker reports to the store how often it has renewed the vouch for its data directory.

A snapshot below the file system brings everything on the disk back, change times included. If its broker has not
registered since, only something beside the disk can tell that it is old: the number of renewals in the store is larger
than the directory's (rule C17). A renewal is on disk before it is reported, so a directory that is no copy never has
fewer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ottla_broker.storage.log_dir import LogDir
from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.leased_key import alter
from ottla_core.cluster.store import KeyValue, MetaStore, StoreUnavailableError
from ottla_core.event_loop.tasks import end_task

_log = logging.getLogger(__name__)

REPORT_S: Final = 10.0
_LAST_S: Final = 1.0
"""How long a stop waits for the last report. A component gets half of what the others have left of the stop, so more
could be too long."""


class RenewalReports:
    """A component. It stops after the data directory is closed, so that its last report is of the clean stop."""

    def __init__(
        self, store: MetaStore, cluster_id: str, incarnation: str, log_dir: Callable[[], LogDir | None]
    ) -> None:
        self._store: Final = store
        self._cluster_id: Final = cluster_id
        self._incarnation: Final = incarnation
        self._log_dir: Final = log_dir
        self._reported = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="renewal-reports")

    async def stop(self) -> None:
        await end_task(self._task)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_S):
                await self._report()

    async def kill(self) -> None:
        await end_task(self._task)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            await self._report()

    async def _report(self) -> None:
        """Report the number if there is a new one. A report that fails is made up for by the next one."""
        try:
            log_dir = self._log_dir()
            if log_dir is None or log_dir.renewals == self._reported:
                return
            renewals = log_dir.renewals
            if await self._tell(log_dir.identity.node_id, renewals):
                self._reported = renewals
        except StoreUnavailableError as error:
            _log.info("can't report that the data directory is complete: %s", error)
        except Exception:
            _log.exception("reporting that the data directory is complete failed")

    async def _tell(self, broker_id: int, renewals: int) -> bool:
        """Return whether the store has it. It has not if another incarnation has registered, or this one has not."""
        key = keys.last_incarnation(broker_id)

        def told(entry: KeyValue) -> bytes | None:
            last = decode(key, entry)
            is_mine = last.incarnation == self._incarnation
            return encode(key, replace(last, renewals=renewals)) if is_mine else None

        return await alter(self._store, keys.key_text(self._cluster_id, key), told)
