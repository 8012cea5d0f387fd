"""A record as a consumer returns it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic

from ottla.generics import K, V

if TYPE_CHECKING:
    from ottla_core.records.record import Headers


class Record(Generic[K, V]):
    """One record.

    Attributes:
        topic, partition, offset: where the record is.
        timestamp: milliseconds since the epoch, or -1 if the record has no timestamp; `datetime` is the same time as a
            datetime in UTC.
        key, value: the deserialized key and value; None for null. If a topic has tombstones, include None in the value
            type, so that type checkers expect it: `Consumer[str, Order | None]("orders", key=str, value=Order)`.
        headers: (name, bytes or None) pairs, in the order in which they were written; a name may occur more than once.
    """

    __slots__ = ("headers", "key", "offset", "partition", "timestamp", "topic", "value")

    def __init__(
        self, topic: str, partition: int, offset: int, timestamp: int, key: K | None, value: V, headers: Headers
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    @property
    def datetime(self) -> datetime | None:
        """The timestamp as a datetime in UTC, or None if the record has no timestamp."""
        return None if self.timestamp < 0 else datetime.fromtimestamp(self.timestamp / 1000, UTC)

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header with this name, or None if no such header exists or its value is null."""
        return next((value for header, value in reversed(self.headers) if header == name), None)

    def __repr__(self) -> str:
        return (
            f"Record({self.topic}-{self.partition}@{self.offset}, timestamp={self.timestamp}, "
            f"key={self.key!r:.60}, value={self.value!r:.120})"
        )
