"""The second argument of a handler: the record, and a way to send records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic

from ottla.aio.sending import Sending
from ottla.generics import K, V
from ottla.producer.delivery import RecordMetadata
from ottla.record import Record
from ottla.serdes.serdes import HeadersLike

if TYPE_CHECKING:
    from datetime import datetime

    from ottla_core.records.record import Headers

Send = Callable[..., Sending]
"""Like aio.Producer.send."""


class Context(Generic[K, V]):
    """The second argument of a handler.

    Attributes:
        record: the record to handle, with key and value deserialized.
        attempt: the number of this attempt, 1 for the first.
        group: the consumer group that handles the record.
    """

    def __init__(self, record: Record[K, V], attempt: int, group: str, send: Send) -> None:
        self.record: Final = record
        self.attempt: Final = attempt
        self.group: Final = group
        self.sent: Final[list[Sending]] = []  # the record is handled once these are acknowledged
        self._send: Final = send

    def send(
        self,
        value: Any,
        *,
        topic: str,
        key: Any = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp: int | None = None,
    ) -> Sending:
        """Send a record, serialized by `auto`; in a coroutine, await the result to get its RecordMetadata.

        Whether you await the result or not, the record being handled counts as done only once the sent record is
        acknowledged; if the delivery fails, so does the handler. If a record is handled again, its handler's sends are
        repeated.
        """
        sending = self._send(value, topic=topic, key=key, partition=partition, headers=headers, timestamp=timestamp)
        self.sent.append(sending)
        return sending

    @property
    def topic(self) -> str:
        """The topic of the record."""
        return self.record.topic

    @property
    def partition(self) -> int:
        """The partition of the record."""
        return self.record.partition

    @property
    def offset(self) -> int:
        """The offset of the record."""
        return self.record.offset

    @property
    def key(self) -> K | None:
        """The deserialized key of the record."""
        return self.record.key

    @property
    def headers(self) -> Headers:
        """The record's headers as (name, bytes or None) pairs."""
        return self.record.headers

    @property
    def timestamp(self) -> int:
        """The record's timestamp in milliseconds since the epoch, or -1 if it has no timestamp."""
        return self.record.timestamp

    @property
    def datetime(self) -> datetime | None:
        """The record's timestamp as a datetime in UTC, or None if it has no timestamp."""
        return self.record.datetime


class ThreadContext(Context[K, V]):
    """The Context of a handler that is a plain function and runs in a thread. Its `send` waits."""

    def __init__(
        self, record: Record[K, V], attempt: int, group: str, send: Send, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(record, attempt, group, send)
        self._loop: Final = loop

    def send(self, value: Any, **arguments: Any) -> RecordMetadata:  # type: ignore[override]  # a thread can't await
        """Send a record, wait until it is acknowledged, and return its metadata.

        Takes the arguments of Context.send.
        """

        async def acknowledged() -> RecordMetadata:
            return await Context.send(self, value, **arguments)

        return asyncio.run_coroutine_threadsafe(acknowledged(), self._loop).result()
