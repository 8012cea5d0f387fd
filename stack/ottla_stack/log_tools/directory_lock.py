"""While a broker runs, its logs are its own: what changes files holds the lock of their data directory meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.errors import ErrorCode, FatalError
from ottla_broker.storage.identity import META, DirectoryLock
from ottla_core.errors import OttlaError


@contextmanager
def locked(data_directory: Path) -> Iterator[None]:
    """The lock of the data directory; a copy of a partition lies in none. Raises FatalError, which names its holder."""
    if not (data_directory / META).exists():
        yield
        return
    try:
        lock = DirectoryLock(data_directory)
    except OttlaError as error:
        raise FatalError(
            ErrorCode.INVALID_CONFIG,
            error.message,
            hint="stop that broker first, or copy the partition's directory and give the copy",
        ) from None
    try:
        yield
    finally:
        lock.release()
