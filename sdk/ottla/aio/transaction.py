"""A transaction as an `async with` block: it does what ottla.Transaction does, on the thread that works off the line.

So the transaction begins after every earlier send, and ends after every send in it. If the task is cancelled while it
enters or leaves the block, the thread goes on: what has begun is aborted again, and what was being ended is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from ottla.aio.carry_through import carry_through, let_go
from ottla.aio.sending import Sending
from ottla.producer.transactions import ConsumedBatch
from ottla.producer.transactions import Transaction as SyncTransaction


class Transaction:
    """One transaction; `Producer.transaction()` returns it."""

    def __init__(
        self,
        send: Callable[..., Sending],
        behind_line: Callable[..., asyncio.Future[Any]],
        forget_failures: Callable[[], object],
        sync: SyncTransaction,
    ) -> None:
        self._send: Final = send
        self._behind_line: Final = behind_line
        self._forget_failures: Final = forget_failures
        self._sync: Final = sync

    def send(self, value: Any, **arguments: Any) -> Sending:
        """Send a record like `ottla.aio.Producer.send`. The commit includes it, whether you await the result or not."""
        return self._send(value, **arguments)

    async def commit_offsets(self, batch: ConsumedBatch) -> None:
        """Commit offsets in the transaction, like `ottla.Transaction.commit_offsets`."""
        await carry_through(self._behind_line(self._sync.commit_offsets, batch))

    async def __aenter__(self) -> Self:
        self._sync.prepare(asyncio.current_task())
        try:
            await self._behind_line(self._sync.enter)
        except BaseException:
            self._sync.leave()
            with suppress(RuntimeError):  # the producer or the loop is closed
                let_go(self._behind_line(self._sync.withdraw))
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._sync.leave()
        try:
            await carry_through(self._behind_line(self._sync.__exit__, kind, error, traceback))
        finally:
            if self._sync.aborted:
                self._forget_failures()
