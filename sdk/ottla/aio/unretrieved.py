"""Failures of records that were not awaited: `flush` and `close` raise them, as in the synchronous producer."""

from __future__ import annotations

from typing import Final

from ottla.aio.sending import Sending
from ottla.errors import OttlaError, TransactionAborted
from ottla.machines.failures import not_delivered

_MOST: Final = 1000
"""A program that sends for hours with no flush and no broker must not fill the memory: older failures are counted."""


class UnretrievedFailures:
    """Failed records that may still turn out not to be awaited. Use it on the event loop's thread."""

    def __init__(self) -> None:
        self._failed: list[Sending] = []
        self._count = 0
        self._first: BaseException | None = None

    def add(self, sending: Sending) -> None:
        """Note that `sending` has just failed; it may be awaited now or later."""
        self._failed.append(sending)
        if len(self._failed) > _MOST:
            self._settle()

    def raise_failures(self) -> None:
        """Raise DeliveryError if some of them were not awaited, and forget all of them."""
        count, first = self.forget()
        if isinstance(first, OttlaError):
            raise not_delivered(count, first) from first
        if first is not None:
            raise first

    def forget(self) -> tuple[int, BaseException | None]:
        """Return how many were not awaited and why the first of them failed. The caller reports them."""
        self._settle()
        count, first = self._count, self._first
        self._count, self._first = 0, None
        return count, first

    def _settle(self) -> None:
        failed, self._failed = self._failed, []
        for sending in failed:
            if sending._log_traceback:  # asyncio's own mark of an error that was never retrieved
                error = sending.exception()  # retrieves it: it is reported once
                if isinstance(error, TransactionAborted):
                    continue  # the end of the transaction raises it
                self._count += 1
                self._first = self._first or error
