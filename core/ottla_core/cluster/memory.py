"""The metadata store in memory: etcd's revisions, compares, leases and compaction, without etcd.

It is a product module, for `ottla.testing.Cluster` and for tests, and passes the same suite as the real store. It is
for one event loop, because nothing here is awaited in the middle of a change. Tests drive it by `clock` and
`expire_leases`, `compact`, `disconnect` and `reconnect`, and `lose_next_response`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.store import (
    CompactedError,
    Compare,
    Delete,
    Event,
    EventBatch,
    KeyValue,
    LeaseLostError,
    Put,
    Snapshot,
    StoreUnavailableError,
    TxnResult,
    check_txn,
)

MIN_TTL_S: Final = 2  # etcd's floor, at its default election timeout
PROGRESS_S: Final = 1.0
HISTORY_REVISIONS: Final = 10_000  # kept for watches; the embedded etcd keeps as many


@dataclass(slots=True)
class _Lease:
    ttl_s: int
    expires_at: float
    keys: set[str] = field(default_factory=set)


class MemoryStore:
    """A `MetaStore`. Leases end by `clock`, which is read whenever the store is used or a lease is due."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._entries: dict[str, KeyValue] = {}
        self._revision = 1  # as in etcd, the first change makes revision 2
        self._compacted = 0
        self._history: list[tuple[Event, ...]] = [()]  # the revisions after `_compacted`, one each
        self._leases: dict[int, _Lease] = {}
        self._next_lease = 1
        self._connected = True
        self._lose_next_response = False
        self._changed = asyncio.Event()
        self._timer: asyncio.Handle | None = None

    async def snapshot(self, prefix: str, *, timeout: float) -> Snapshot:
        self._begin()
        entries = sorted((e for e in self._entries.values() if e.key.startswith(prefix)), key=lambda e: e.key)
        return Snapshot(self._revision, tuple(entries))

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Put | Delete], *, timeout: float) -> TxnResult:
        check_txn(compares, ops)
        self._begin()
        succeeded = all(self._holds(compare) for compare in compares)
        if succeeded:
            self._perform(ops)
        if self._lose_next_response:
            self._lose_next_response = False
            raise StoreUnavailableError("the connection was lost before the response", indefinite=True)
        return TxnResult(succeeded, self._revision)

    async def watch(self, prefix: str, *, from_revision: int) -> AsyncGenerator[EventBatch, None]:
        self._begin()
        if from_revision > self._revision + 1:
            raise CompactedError(
                f"the store is at revision {self._revision}, but the watch starts at revision {from_revision}"
            )
        seen = from_revision - 1
        if seen >= self._compacted:
            yield EventBatch(seen, ())
        while True:
            self._begin()
            if seen < self._compacted:
                raise CompactedError(f"revision {seen + 1} has been compacted")
            missed = [e for events in self._history[seen - self._compacted :] for e in events]
            seen = self._revision
            events = tuple(e for e in missed if e.entry.key.startswith(prefix))
            if events:
                yield EventBatch(events[-1].entry.mod_revision, events)
            elif not await self._change():
                yield EventBatch(seen, ())

    async def grant_lease(self, ttl_s: int, *, timeout: float) -> int:
        self._begin()
        lease = self._next_lease
        self._next_lease += 1
        ttl_s = max(ttl_s, MIN_TTL_S)
        self._leases[lease] = _Lease(ttl_s, self._clock.monotonic() + ttl_s)
        self._schedule_expiry()
        return lease

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        self._begin()
        held = self._lease(lease)
        held.expires_at = self._clock.monotonic() + held.ttl_s
        return held.ttl_s

    async def revoke_lease(self, lease: int, *, timeout: float) -> None:
        self._begin()
        if lease in self._leases:
            self._end_lease(lease)

    async def size_bytes(self, *, timeout: float) -> int:
        self._begin()
        return sum(len(entry.key) + len(entry.value) for entry in self._entries.values())

    async def close(self) -> None:
        self.disconnect()
        self._leases.clear()
        self._schedule_expiry()

    # ---- switches for tests ----------------------------------------------------------------------------------------

    def expire_leases(self) -> None:
        """End the leases that are due by the clock, as etcd does by itself."""
        now = self._clock.monotonic()
        for lease in [n for n, held in self._leases.items() if held.expires_at <= now]:
            self._end_lease(lease)

    def compact(self, revision: int) -> None:
        """Forget the history up to and including `revision`, which has been reached."""
        if self._compacted < revision <= self._revision:
            del self._history[: revision - self._compacted]
            self._compacted = revision

    def disconnect(self) -> None:
        """Let every call fail from now on, and so the watches that run. The time of leases goes on."""
        self._connected = False
        self._wake()

    def reconnect(self) -> None:
        self._connected = True

    def lose_next_response(self) -> None:
        """Carry out the next transaction, and leave its caller without a result (rule C4)."""
        self._lose_next_response = True

    # ---- revisions -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._connected:
            raise StoreUnavailableError("the in-memory store is disconnected", indefinite=False)
        self.expire_leases()

    def _holds(self, compare: Compare) -> bool:
        entry = self._entries.get(compare.key)
        create, mod = (entry.create_revision, entry.mod_revision) if entry else (0, 0)
        return compare.create_revision in (None, create) and compare.mod_revision in (None, mod)

    def _perform(self, ops: Sequence[Put | Delete]) -> None:
        for op in ops:
            if isinstance(op, Put) and op.lease:
                self._lease(op.lease)
        writes = [op for op in ops if isinstance(op, Put) or op.key in self._entries]
        self._commit([self._write(op, self._revision + 1) for op in writes])

    def _write(self, op: Put | Delete, revision: int) -> Event:
        old = self._entries.pop(op.key, None)
        if old is not None and old.lease:
            self._leases[old.lease].keys.discard(op.key)
        if isinstance(op, Delete):
            return Event(KeyValue(op.key, b"", 0, revision), deleted=True)
        if op.lease:
            self._leases[op.lease].keys.add(op.key)
        entry = KeyValue(op.key, op.value, old.create_revision if old else revision, revision, op.lease)
        self._entries[op.key] = entry
        return Event(entry)

    def _commit(self, events: Sequence[Event]) -> None:
        """Make `events` the next revision. An empty change makes no revision, as in etcd."""
        if not events:
            return
        self._revision += 1
        self._history.append(tuple(events))
        if len(self._history) >= 2 * HISTORY_REVISIONS:
            self.compact(self._revision - HISTORY_REVISIONS)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self) -> bool:
        """Wait for the next change. Return False if there was none for `PROGRESS_S`."""
        try:
            async with asyncio.timeout(PROGRESS_S):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    # ---- leases ----------------------------------------------------------------------------------------------------

    def _lease(self, lease: int) -> _Lease:
        if lease not in self._leases:
            raise LeaseLostError(f"lease {lease:x} does not exist")
        return self._leases[lease]

    def _end_lease(self, lease: int) -> None:
        """Delete all keys of a lease in one revision, in their order, as etcd does."""
        keys = sorted(self._leases[lease].keys)
        self._commit([self._write(Delete(key), self._revision + 1) for key in keys])
        del self._leases[lease]

    def _schedule_expiry(self) -> None:
        """Look again when the next lease is due, so that its keys go even without any call."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._leases:
            due_in_s = min(held.expires_at for held in self._leases.values()) - self._clock.monotonic()
            self._timer = asyncio.get_running_loop().call_later(max(due_in_s, 0.0), self._on_timer)

    def _on_timer(self) -> None:
        self.expire_leases()
        self._schedule_expiry()
