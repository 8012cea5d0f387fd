"""A file that has a password should be readable by its owner alone."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path
from stat import S_IRGRP, S_IROTH
from typing import Final

_log: Final = logging.getLogger("ottla.security")
_ROOT: Final = 0
_POSIX: Final = "posix"


def check_private(path: Path) -> None:
    """Log a warning if other users can read this file, which has a password.

    Like the key files of libpq, a file of root's may be readable by its group: so an administrator can give it to one
    service, as Kubernetes does.
    """
    try:
        status = path.stat()
    except OSError:
        return  # whoever reads the file reports that
    others = S_IROTH if status.st_uid == _ROOT else S_IROTH | S_IRGRP
    if os.name == _POSIX and status.st_mode & others:
        _warn(path, status.st_mode & ~others & 0o777)


@lru_cache(maxsize=100)  # each client of a program reads the file, but one warning is enough
def _warn(path: Path, mode: int) -> None:
    _log.warning("%s has a password, and other users can read it; run `chmod %o %s`", path, mode, path)
