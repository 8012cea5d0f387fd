"""A transaction as an `async with` block: it does what ottla.Transaction does, on the thread that works off the line.

So the transaction begins after every earlier send, and ends after every send in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Protocol, Self

from ottla.aio.sending import Sending
from ottla.producer.transactions import ConsumedBatch
from ottla.producer.transactions import Transaction as SyncTransaction


class AsyncGroupMember(Protocol):
    """A consumer in a group that can go back to the committed offsets."""

    async def seek_to_committed(self) -> None: ...


class Transaction:
    """One transaction; `Producer.transaction()` returns it."""

    def __init__(
        self,
        send: Callable[..., Sending],
        behind_line: Callable[..., Awaitable[Any]],
        forget_failures: Callable[[], object],
        sync: SyncTransaction,
        consumer: AsyncGroupMember | None,
    ) -> None:
        self._send: Final = send
        self._behind_line: Final = behind_line
        self._forget_failures: Final = forget_failures
        self._sync: Final = sync
        self._consumer: Final = consumer

    def send(self, value: Any, **arguments: Any) -> Sending:
        """Send a record like `ottla.aio.Producer.send`. The commit includes it, whether you await the result or not."""
        return self._send(value, **arguments)

    async def commit_offsets(self, batch: ConsumedBatch) -> None:
        """Commit offsets in the transaction, like `ottla.Transaction.commit_offsets`."""
        await self._behind_line(self._sync.commit_offsets, batch)

    async def __aenter__(self) -> Self:
        await self._behind_line(self._sync.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._behind_line(self._sync.__exit__, kind, error, traceback)
        finally:
            if self._sync.aborted:
                self._forget_failures()
                if self._consumer is not None:
                    await self._consumer.seek_to_committed()
