"""The limit for ids and names that members send, because no record can hold a longer one.

A request with a longer name has to be refused. Otherwise the group could no longer be written, and no member could
leave it or be removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError

LONGEST_NAME_BYTES: Final = 2**15 - 1
"""The limit for each id and name in a record, as UTF-8."""

_MOST_BYTES_OF_CHARACTER: Final = 4


def too_long(names: Iterable[str]) -> str | None:
    """Return the first name that no record can hold, or None."""
    return next((name for name in names if _is_too_long(name)), None)


def check_names(names: Iterable[str]) -> None:
    """Raise INVALID_REQUEST for a name that no record can hold."""
    if (name := too_long(names)) is not None:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"{name[:40]!r}… is longer than {LONGEST_NAME_BYTES} bytes",
            hint="choose a shorter name",
        )


def _is_too_long(name: str) -> bool:
    # Most names are so short that they need not be encoded.
    return _MOST_BYTES_OF_CHARACTER * len(name) > LONGEST_NAME_BYTES and len(name.encode()) > LONGEST_NAME_BYTES
