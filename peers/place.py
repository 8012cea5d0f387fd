"""Where peers are installed, and how: once, whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent / ".peers"
_LIMIT_S: Final = 600.0
_TAIL_CHARS: Final = 2000
_WAITING: Final = "-oDPkg::Lock::Timeout=300"
"""Seconds, for whoever else installs something on this machine."""


class PeerError(Exception):
    """A peer can't be had on this machine; says why, and what to do."""


def installed(name: str, given: Sequence[Path], install: Callable[[Path], None]) -> Path:
    """The folder of a peer, which `install` fills where it isn't there yet, or where one of the files `given` changed.

    Several processes may ask at once: one installs, the others wait for it.
    """
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in given)).hexdigest()
    folder = ROOT / name
    ROOT.mkdir(exist_ok=True)
    with (ROOT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / ".installed"
        if stamp.is_file() and stamp.read_text() == wanted:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        install(folder)
        stamp.write_text(wanted)
    return folder


def program(name: str, package: str) -> str:
    """The path of a program, by Debian's package of it where it is missing and this is root on Debian."""
    found = shutil.which(name)
    if found is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise PeerError(f"{name} is not installed, and only root on Debian can do that here: install {package}")
        ROOT.mkdir(exist_ok=True)
        with (ROOT / "apt-get.lock").open("w") as lock:  # two programs may be missing, in two processes
            fcntl.flock(lock, fcntl.LOCK_EX)
            run(["apt-get", "update", "-qq"])
            run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", _WAITING, package])
        found = shutil.which(name)
    if found is None:
        raise PeerError(f"{package} is installed, but brought no {name}")
    return found


def run(command: Sequence[str | Path], cwd: Path | None = None, **environment: str) -> None:
    """Raises PeerError with the end of what the command said."""
    # Caught in one stream: package managers tell of errors in either.
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        said = done.stdout.decode(errors="replace")[-_TAIL_CHARS:]
        raise PeerError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said}")
