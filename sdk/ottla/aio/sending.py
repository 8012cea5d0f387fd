"""What `send` returns at once: a future of the record's metadata, which may be awaited, gathered or made a task of.

A plain future can't be given to `TaskGroup.create_task`, and a coroutine would cost a task for each record that is
gathered, several times what sending it costs. So this is a future that is a coroutine, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ottla.producer.delivery import RecordMetadata


class Sending(asyncio.Future[RecordMetadata], Coroutine[Any, Any, RecordMetadata]):
    """One record on its way. Cancelling it stops the waiting and not the record."""

    _steps: Any = None
    is_refused: bool = False
    """Whether the producer has refused the record, so that it was not sent: it can't be serialized, for example."""

    def send(self, value: None) -> Any:
        """For tasks: wait on."""
        self._steps = self._steps or self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """For tasks: the waiting was cancelled."""
        self._steps = self._steps or self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        """For tasks: the waiting has ended."""
