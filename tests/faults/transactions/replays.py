"""Requests that come twice: each is carried out again a while after it was answered, as a frame that was long on its
way (KIP-890). The second response goes to nobody.

Clients of the old protocol have the same epoch in all their transactions, which only batches survive: of them batches
are repeated, and the markers of a txn-coordinator that was replaced.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.faults.put_in_place import put_in_place

import ottla_broker.replication.produce
from ottla_broker.machines.transactions import TransactionEnd
from ottla_broker.replication.leading import Leading
from ottla_broker.replication.produce import append
from ottla_broker.replication.replica import Replica
from ottla_broker.service import BrokerService
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_group_coordinator.service import GroupService
from ottla_txn_coordinator.service import TxnService

_SHARE: Final = 0.3
_DELAYS_S: Final = (0.0, 0.02, 0.1, 0.5, 2.0, 8.0, 20.0)
_OLD_MARKER_S: Final = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)
"""After the first marker of the next txn-coordinator: several, as the producer's next transaction has to be open."""


class Replays:
    """`file` grows by a byte with each that came to an end."""

    def __init__(self, file: Path) -> None:
        self._file: Final = file
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def sometimes(self, again: Callable[[], Awaitable[object]]) -> None:
        if random.random() < _SHARE:
            self.later(random.choice(_DELAYS_S), again)

    def later(self, delay_s: float, again: Callable[[], Awaitable[object]]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(delay_s, again))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, delay_s: float, again: Callable[[], Awaitable[object]]) -> None:
        await asyncio.sleep(delay_s)
        with suppress(OttlaError):
            await again()
        with self._file.open("ab") as count:
            count.write(b".")


def replay(kind: str, file: Path) -> None:
    """Let a service of that kind be asked twice."""
    replays = Replays(file)
    match kind:
        case "txn":
            _again(replays, TxnService, "end_txn", lambda request: request.transaction_version)
            _again(replays, TxnService, "add_offsets", lambda request: request.transaction_version)
            _again(replays, TxnService, "add_partitions", lambda request: _least(request.transactions))
        case "coordinator":
            _again(replays, GroupService, "commit_offsets", lambda request: request.transaction.transaction_version)
            _again(replays, GroupService, "write_txn_markers", lambda request: _least_of_markers(request))
        case "broker":
            _again(replays, BrokerService, "write_txn_markers", lambda request: _least_of_markers(request))
            _append_again(replays)
            _write_old_markers(replays)


def _least(items: Any) -> int:
    return min((item.transaction_version for item in items), default=0)


def _least_of_markers(request: Any) -> int:
    return _least(item.marker for item in request.markers)


def _again(replays: Replays, service: Any, name: str, version: Callable[[Any], int]) -> None:
    method = getattr(service, name)

    async def twice(self: Any, request: Any, context: Any) -> Any:
        if version(request) >= TRANSACTIONS_V2:
            copy = type(request).FromString(request.SerializeToString())
            replays.sometimes(lambda: method(self, copy, context))
        return await method(self, request, context)

    put_in_place(service, name, twice)


def _append_again(replays: Replays) -> None:
    def twice(replica: Replica, leading: Leading, records: Any, acks: int, slice_: Any, transaction: Any = None) -> Any:
        copy = bytes(records)
        appended = append(replica, leading, records, acks, slice_, transaction)

        async def again() -> None:
            once_more = append(replica, replica.led_in(None), copy, acks, Slice(), transaction)
            if isinstance(once_more, asyncio.Future):
                await once_more

        first_of_old = isinstance(appended, asyncio.Future) and getattr(transaction, "version", 0) < TRANSACTIONS_V2
        if transaction is not None and not first_of_old:
            replays.sometimes(again)
        return appended

    put_in_place(ottla_broker.replication.produce, "append", twice)


def _write_old_markers(replays: Replays) -> None:
    """What a txn-coordinator that was replaced has sent comes once more when its successor has been there (rule 36)."""
    append_marker = Leading.append_marker
    last: dict[tuple[Any, int], TransactionEnd] = {}

    def remembered(self: Leading, end: TransactionEnd) -> Any:
        appended = append_marker(self, end)
        former = last.get((self.id, end.producer_id))
        last[self.id, end.producer_id] = end
        if former is not None and former.marker.coordinator_epoch < end.marker.coordinator_epoch:

            async def again() -> None:
                append_marker(self.present(), former)

            for delay_s in _OLD_MARKER_S:
                replays.later(delay_s, again)
        return appended

    put_in_place(Leading, "append_marker", remembered)
