"""The world's etcd is the in-memory twin in a process of its own. It is stopped, started, compacted and restored."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping, MutableSequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.world.fibers import World
from tests.world.network import Network
from tests.world.process import Process

from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import KeyValue


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup is a copy of what etcd had at one revision."""

    revision: int
    entries: Mapping[str, KeyValue]
    leases: Mapping[int, Any]


class Etcd:
    """This is etcd's process, which lives as long as the world. Only a restore loses what etcd has committed."""

    def __init__(self, world: World, network: Network) -> None:
        self.memory: Memory
        self.is_up = True
        self.lives = 1
        """This counts the starts of etcd. A request from before the last stop is never answered."""
        self._world: Final = world
        self._tasks: Final[deque[asyncio.Task[None]]] = deque(maxlen=1000)
        self.process: Final = Process(world, network, "etcd", self._main)

    async def _main(self, process: Process) -> None:
        self.memory = Memory(clock=process)
        await asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[Any, Any, None], begun: MutableSequence[asyncio.Task[None]] | None = None) -> None:
        """Run the work in a task, which is added to `begun` at once."""
        task = self.process.loop.create_task(work)
        (self._tasks if begun is None else begun).append(task)
        self.process.wake()

    def stop(self) -> None:
        """End this life: calls that wait for an answer fail, watches end, and new calls are refused."""
        self._world.note("etcd stops")
        self.is_up = False
        self.lives += 1
        self.memory.stop()
        self.process.wake()

    def begin(self) -> None:
        """Start a new life with all that was committed. Each lease has its whole time to live again."""
        self._world.note("etcd begins")
        self.is_up = True
        self.process.loop.call_soon_threadsafe(self.memory.begin)

    def compact(self) -> None:
        """Compact the history. A watch that is behind then finds that the events it missed are gone."""
        self._world.note("etcd is compacted")
        self.memory.forget()

    def restore(self, backup: Backup, *, bump: int, leases_live_on: bool) -> None:
        """Replace all that etcd has with a backup, while etcd is down.

        Its revision goes on from `bump` above that of the backup.
        """
        assert not self.is_up, "a store that runs can't be restored"
        self._world.note(f"etcd is restored to revision {backup.revision}, bumped by {bump}")
        self.memory.restore(backup, bump=bump, leases_live_on=leases_live_on)


class Memory(MemoryStore):
    """This is the twin, with what happens to etcd's process and to its data."""

    def stop(self) -> None:
        """Refuse all calls. No lease expires while etcd is down."""
        self.disconnect()
        if self._timer is not None:
            self._timer.cancel()

    def begin(self) -> None:
        now = self._clock.monotonic()
        for lease in self._leases.values():
            lease.expires_at = now + lease.ttl_s
        self.reconnect()
        self._schedule_expiry()

    def forget(self) -> None:
        """Forget the history up to now."""
        self.compact(self._revision)

    def back_up(self) -> Backup:
        leases = {number: replace(lease, keys=set(lease.keys)) for number, lease in self._leases.items()}
        return Backup(self._revision, dict(self._entries), leases)

    def restore(self, backup: Backup, *, bump: int, leases_live_on: bool) -> None:
        """Take over what the backup has.

        Unless its leases live on, they and their keys are gone, as if the leases had expired meanwhile.
        """
        self._revision = self._compacted = backup.revision + bump
        self._history = []
        leases = backup.leases if leases_live_on else {}
        self._leases = {number: replace(lease, keys=set(lease.keys)) for number, lease in leases.items()}
        self._entries = {
            key: entry for key, entry in backup.entries.items() if not entry.lease or entry.lease in leases
        }
