"""A full disk, told to the cluster and watched until there is room again.

This broker's registration says that it is read-only: others lead where they can, and it joins no ISR. What it leads all
the same, being alone, it serves to readers. Whether there is room is tried every second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ottla_broker.disk_threads import DiskThreads
from ottla_broker.storage.log_dir import LogDir
from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.leased_key import CALL_S, read_key
from ottla_core.cluster.store import Compare, MetaStore, Put, StoreUnavailableError
from ottla_core.tasks import end_task

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.1
_TRY_S: Final = 1.0


class DiskRoom:
    """A component. `incarnation` is that of this process: the registration of another is not ours to change."""

    def __init__(
        self,
        store: MetaStore,
        metadata: MetadataFollower,
        log_dir: Callable[[], LogDir],
        threads: DiskThreads,
        incarnation: str,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._log_dir = log_dir
        self._threads = threads
        self._incarnation = incarnation
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
                await self._tell(read_only=was_full)
            except StoreUnavailableError as error:
                _log.warning("whether the disk is full can't be told, trying on: %s", error)
                await asyncio.sleep(_TRY_S)
            except Exception:
                _log.exception("watching the room on the disk failed, trying on")
                await asyncio.sleep(_TRY_S)

    def _say(self, full: str) -> None:
        path = self._log_dir().disk.path
        if full:
            _log.error(
                "nothing is appended in %s until there is room again: %s; free space, or shorten retention", path, full
            )
        else:
            _log.info("there is room in %s again", path)

    async def _tell(self, *, read_only: bool) -> None:
        """Have the registration say so, where it is seen to say something else; the next look tries again."""
        broker_id = self._log_dir().identity.node_id
        seen = self._metadata.image.brokers.get(broker_id)
        if seen is None or seen.fenced or seen.incarnation != self._incarnation or seen.read_only == read_only:
            return
        key = keys.broker(broker_id)
        entry = await read_key(self._store, keys.key_text(self._metadata.image.cluster_id, key))
        if entry is None:
            return
        mine = decode(key, entry)
        if mine.incarnation == self._incarnation and mine.read_only != read_only:
            value = encode(key, replace(mine, read_only=read_only))
            unchanged = Compare(entry.key, mod_revision=entry.mod_revision)
            await self._store.txn([unchanged], [Put(entry.key, value, entry.lease)], timeout=CALL_S)
