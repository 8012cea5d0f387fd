"""A record to be sent, before it is serialized: interceptors see it, and `send_many` takes it as a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic

from ottla.generics import K, V
from ottla.serdes.serdes import HeadersLike


@dataclass(frozen=True, slots=True)
class ProducerRecord(Generic[K, V]):
    """The arguments of `send` as one object; change it with `dataclasses.replace`.

    If `topic` is None, the producer's topic is used; if `partition` is None, the partitioner chooses one. `timestamp`
    is in milliseconds; None means now.
    """

    value: V | None
    key: K | None = None
    topic: str | None = None
    partition: int | None = None
    headers: HeadersLike | None = None
    timestamp: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Return all fields except the value, as keyword arguments for `send`."""
        return {name: getattr(self, name) for name in _ARGUMENTS}


_ARGUMENTS: Final = ("key", "topic", "partition", "headers", "timestamp")
