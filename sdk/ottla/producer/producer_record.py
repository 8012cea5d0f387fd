"""A record on its way out, before it is serialized: what interceptors see, and a row of `send_many`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic

from ottla.generics import K, V
from ottla.serdes.serdes import HeadersLike


@dataclass(frozen=True, slots=True)
class ProducerRecord(Generic[K, V]):
    """What `send` takes, as one object; `dataclasses.replace` makes another one of it.

    `topic` None is the producer's, `partition` None the partitioner's choice, `timestamp` (milliseconds) None now.
    """

    value: V | None
    key: K | None = None
    topic: str | None = None
    partition: int | None = None
    headers: HeadersLike | None = None
    timestamp: int | None = None

    def arguments(self) -> dict[str, Any]:
        """All but the value, as `send` takes them."""
        return {name: getattr(self, name) for name in _ARGUMENTS}


_ARGUMENTS: Final = ("key", "topic", "partition", "headers", "timestamp")
