"""Writes files and makes directories that only their owner may read, and refuses those that others have made."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.errors import ConfigError, config_error

_ROOT: Final = 0
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_KEEP: Final = -1
"""With this, a file has the owner and the group that the process gives to new files."""


def make_private_directory(path: Path) -> None:
    """Make a directory that nobody but its owner can look into, unless there is one. Raises ConfigError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None


def check_owner(path: Path) -> None:
    """Raise ConfigError if the path, or its target if it is a link, belongs to another user than this one or root. The
    path need not exist."""
    for follow in (False, True):
        with suppress(FileNotFoundError):
            owner = path.stat(follow_symlinks=follow).st_uid
            if owner not in (os.geteuid(), _ROOT):
                raise _refused(path, f"belongs to another user of this host (uid {owner})")


def check_not_planted(directory: Path) -> None:
    """Raise ConfigError if others may have made or changed the directory or its content, as OpenSSH refuses such keys.
    The directory need not exist."""
    _check_writers(directory.parent)
    for path in _with_all_in(directory):
        if path.is_symlink():
            raise _refused(path, "is a link")
        check_owner(path)
        _check_writers(path)


def _check_writers(path: Path) -> None:
    with suppress(FileNotFoundError):
        if path.stat().st_mode & _WRITABLE_BY_OTHERS:
            raise _refused(path, "can be changed by other users of this host")


def _with_all_in(directory: Path) -> Iterator[Path]:
    """Yield a directory, and only then list its content."""
    yield directory
    yield from sorted(directory.rglob("*"))


def _refused(path: Path, why: str) -> ConfigError:
    return config_error(
        f"{path} {why}, so it may have been planted",
        hint=f"check it, and then remove it, or make it yours alone: `chown {os.geteuid()}`, `chmod go-w`, no links",
    )


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
