"""What `send` returns at once: a future of the record's metadata that you can await, gather or make a task of.

`TaskGroup.create_task` does not take a plain future, and a coroutine would need a task for each gathered record, which
costs several times as much as sending it. So this is both a future and a coroutine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ottla.producer.delivery import RecordMetadata


class Sending(asyncio.Future[RecordMetadata], Coroutine[Any, Any, RecordMetadata]):
    """The future of one sent record. Cancelling it stops the wait, not the record."""

    _steps: Any = None
    is_refused: bool = False
    """Whether the producer refused the record, so that it was not sent; for example, it can't be serialized."""

    def send(self, value: None) -> Any:
        """For tasks: continue to wait."""
        self._steps = self._steps or self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """For tasks: the waiting was cancelled."""
        self._steps = self._steps or self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        """For tasks: the waiting has ended."""
