"""Writes files and makes directories that only their owner may read."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.errors import ConfigError, config_error

_KEEP: Final = -1
"""With this, a file has the owner and the group that the process gives to new files."""


def make_private_directory(path: Path) -> None:
    """Make a directory that nobody but its owner can look into, unless there is one. Raises ConfigError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody but its owner can read. Raises ConfigError."""
    replace_file(path, text.encode(), 0o600)


def replace_file(path: Path, content: bytes, mode: int, group: int = _KEEP) -> None:
    """Replace a file in one step. What a kill leaves behind is a temporary file for its owner alone. Raises
    ConfigError."""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchown(descriptor, _KEEP, group)
                os.fchmod(descriptor, mode)
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> ConfigError:
    return config_error(f"{path} can't be written: {error.strerror}", hint="check the directory and its owner")
