"""The moment from which this broker may be given leaders: it knows what it has, and is trusted with no more than
that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla_broker.machines.departure import is_relied_upon
from ottla_broker.replication.replicas import Replicas
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.soundness import Incarnation

_LIMIT_S: Final = 60.0


class StartupReadiness:
    def __init__(
        self, replicas: Replicas, log_dir: Callable[[], LogDir], threads: DiskThreads, incarnation: str
    ) -> None:
        self._replicas = replicas
        self._log_dir = log_dir
        self._threads = threads
        self._incarnation = incarnation

    async def until(self, revision: int, epoch: int) -> None:
        """Return once this broker may be given leaders. Raises REQUEST_TIMED_OUT.

        It has then applied the metadata of `revision`, which is that of its registration (rule C8). If that metadata
        was restored from a backup, the controller has counted the restoration (rule C18). If the logs here may lack
        acknowledged records, no partition relies on those any more (rule C15).

        From then on the directory names this incarnation as the one whose records it has (rule C17).
        """
        await self._replicas.until(lambda image: image.revision >= revision and not image.is_behind, timeout=_LIMIT_S)
        log_dir, incarnation = self._log_dir(), Incarnation(self._incarnation, epoch)
        if log_dir.may_have_lost_tail:
            me = log_dir.identity.node_id
            await self._replicas.until(lambda image: not is_relied_upon(image, me), timeout=_LIMIT_S)
        if log_dir.incarnation != incarnation:
            await self._threads.keep(log_dir.vouch, incarnation)
            # The logs may lead only from now on. If the metadata already named this broker as a leader, they do not
            # change while no controller is active, so nothing else would have it lead.
            self._replicas.look_at_all()
