"""A record to be sent, before it is serialized: interceptors see it, and `send_many` takes it as a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic

from ottla.generics import K, V
from ottla.serdes.serdes import HeadersLike


@dataclass(frozen=True, slots=True)
class ProducerRecord(Generic[K, V]):
    """The arguments of `send` as one object; change it with `dataclasses.replace`.

    `topic` None is the producer's topic, `partition` None the partitioner's choice, `timestamp` (in ms) None is now.
    """

    value: V | None
    key: K | None = None
    topic: str | None = None
    partition: int | None = None
    headers: HeadersLike | None = None
    timestamp: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Return all fields but the value, as keyword arguments of `send`."""
        return {name: getattr(self, name) for name in _ARGUMENTS}


_ARGUMENTS: Final = ("key", "topic", "partition", "headers", "timestamp")
