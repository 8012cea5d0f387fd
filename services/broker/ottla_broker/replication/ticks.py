"""The passing of time for a broker's leaders. They propose to remove replicas that have lagged for too long from the
ISR, and to add those that may join it.

Only leaders in which time may change something are called, so an idle partition costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla_broker.replication.leading import Leading
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_core.event_loop.slices import sliced

_log = logging.getLogger(__name__)

_TICK_S = 0.5


class Ticks:
    def __init__(self, replicas: ReplicaTable) -> None:
        self.ticking: Final[dict[Leading, None]] = {}
        """Leaderships put themselves in here, and leave it (Leading.on_tick)."""
        self._replicas: Final = replicas

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            await sliced(self._tick, dict.fromkeys([*self.ticking, *self._waited_for()]))

    def _waited_for(self) -> list[Leading]:
        """Return the leaderships where a request waits for followers, which may have died."""
        waiting = [*self._replicas.deletions.partitions, *self._replicas.confirmations.partitions]
        found = (self._replicas.get(partition_id) for partition_id in waiting)
        return [replica.leading for replica in found if replica is not None and replica.leading is not None]

    def _tick(self, leading: Leading) -> None:
        try:
            leading.on_tick()
        except Exception:  # one partition's bug must not keep the others' ISRs as they are
            _log.exception("the periodic check of %s failed", leading)
