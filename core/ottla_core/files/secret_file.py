"""Reads a secret from a file. No setting holds a secret itself: others can read command lines and environments."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePath
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.secret import Secret

NO_FILE: Final = PurePath()
"""The default of a setting that names a file."""

_MOST_BYTES: Final = 64 << 10


def read_secret(setting: str, path: PurePath) -> Secret:
    """Return the text of the file without the end of its last line.

    Raises INVALID_CONFIG, which names the setting, if the file can't be read, if other users can read it, or if it is
    empty.
    """
    try:
        with Path(path).open("rb") as file:
            check_private(setting, path, os.fstat(file.fileno()))
            data = file.read(_MOST_BYTES + 1)
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise _invalid(setting, path, f"can't be read ({error.strerror})", "check the path and its owner") from None
    except UnicodeDecodeError:
        raise _invalid(setting, path, "is not UTF-8", "write one line of text") from None
    if not text or len(data) > _MOST_BYTES:
        raise _invalid(setting, path, "is empty or too large", "write one line of text")
    return Secret(text)


def check_private(setting: str, path: PurePath, status: os.stat_result) -> None:
    """Raise INVALID_CONFIG if other users can read the file.

    A file of root's may be readable by its group, because an administrator gives it to one service in this way.
    """
    others = stat.S_IROTH if status.st_uid == 0 else stat.S_IROTH | stat.S_IRGRP
    if status.st_mode & others:
        raise _invalid(setting, path, "can be read by other users", f"run `chmod 600 {path}`")


def _invalid(setting: str, path: PurePath, problem: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, f"the file {path} of {setting} {problem}", hint=hint)
