"""A log reads one of a mirror's own one-partition topics from its beginning: committed records only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import ottla
from ottla_core.model import TopicPartition
from ottla_mirror.clusters.access import Access


class LogRecord(NamedTuple):
    """A log record is in one of a mirror's own topics. Only a tombstone has an empty `value`."""

    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes | None]] = ()


class Log:
    """The log of one topic. For one thread."""

    def __init__(self, access: Access, topic: str) -> None:
        reads: dict[str, Any] = {"start": "earliest", "auto_offset_reset": "earliest", "key": "bytes", "value": "bytes"}
        self._consumer: Final = ottla.Consumer[Any, Any](topic, **access.arguments(), **reads)
        self._partition: Final = TopicPartition(topic, 0)
        self.close: Final = self._consumer.close

    @property
    def position(self) -> int:
        return self._consumer.position(self._partition)

    def poll(self, timeout: float) -> Iterable[LogRecord]:
        return [LogRecord(r.key or b"", r.value or b"", r.headers) for r in self._consumer.poll(timeout)]
