"""A record as it lies in a batch, before its bytes are given a meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeAlias

Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = list[Header]
"""Header names with their values, in the order given; names may repeat (KIP-82)."""

RawRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
"""(offset, timestamp in ms, key, value, headers). The timestamp is -1 where the producer gave none."""

OFFSET: Final = 0
TIMESTAMP: Final = 1
KEY: Final = 2
VALUE: Final = 3
HEADERS: Final = 4
"""The numbers of its fields."""

MAX_TIMESTAMP_MS: Final = (1 << 63) - 1


class RecordSource(Protocol):
    """The records of one batch, parsed while they are asked for; each call parses from the start.

    Nothing here is trusted: an iterator raises one of `DAMAGE` where lengths, varints or the count don't hold.
    """

    DAMAGE: ClassVar[tuple[type[Exception], ...]]

    def offsets(self) -> Iterator[int]: ...

    def records(self) -> Iterator[RawRecord]: ...

    def columns(self, *fields: int) -> Sequence[list[Any]]:
        """These fields of all records, a list a field: OFFSET, TIMESTAMP, KEY, VALUE or HEADERS."""
        ...
