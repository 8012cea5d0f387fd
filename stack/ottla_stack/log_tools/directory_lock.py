"""While a broker runs, its logs are its own: a tool that changes files holds the lock of their data directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.errors import ErrorCode, FatalError
from ottla_broker.storage.identity import META, DirectoryLock
from ottla_core.errors import OttlaError


@contextmanager
def locked(data_directory: Path) -> Iterator[None]:
    """Hold the lock of a data directory. In a directory of copies of partitions, the lock leaves no file behind.

    Raises FatalError, which names the holder.
    """
    if not (data_directory / META).exists():
        with _locked_copies(data_directory):
            yield
        return
    try:
        lock = DirectoryLock(data_directory)
    except OttlaError as error:
        raise FatalError(
            ErrorCode.INVALID_CONFIG,
            error.message,
            hint="stop that broker first, or copy the partition's directory and pass the copy",
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _locked_copies(directory: Path) -> Iterator[None]:
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"another `ottla log` command is changing a log in {directory}"
            raise FatalError(ErrorCode.INVALID_CONFIG, text, hint="wait until that command is done") from None
        yield
    finally:
        os.close(fd)
