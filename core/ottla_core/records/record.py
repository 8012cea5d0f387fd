"""A record as it lies in a batch, before its bytes are interpreted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeAlias

Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = list[Header]
"""Header names with their values, in their order. Names may repeat (KIP-82)."""

RawRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
"""(offset, timestamp in ms, key, value, headers). The timestamp is -1 if the producer gave none."""

OFFSET: Final = 0
TIMESTAMP: Final = 1
KEY: Final = 2
VALUE: Final = 3
HEADERS: Final = 4
"""These are the numbers of a record's fields."""

MAX_TIMESTAMP_MS: Final = (1 << 63) - 1


class RecordSource(Protocol):
    """The records of one batch, parsed as they are requested. Each call parses from the start.

    Nothing here is trusted: an iterator raises one of `DAMAGE` if lengths, varints or the count don't hold.
    """

    DAMAGE: ClassVar[tuple[type[Exception], ...]]

    def each(self, *fields: int) -> Iterator[Any]:
        """Yield these fields of each record: the field itself, or a tuple of several."""
        ...

    def records(self) -> Iterator[RawRecord]: ...

    def columns(self, *fields: int) -> Sequence[list[Any]]:
        """Return these fields of all records, a list for each field: OFFSET, TIMESTAMP, KEY, VALUE or HEADERS."""
        ...
