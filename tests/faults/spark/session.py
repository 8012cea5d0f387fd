"""The processes of one session, as /proc tells: a driver that was started in a session of its own, and all it started.

So they are found when their parent is gone, too, and nobody else is.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path


def members(session: int) -> list[int]:
    """Those that are alive."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            told = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _, _, session_id, *_ = told.rpartition(")")[2].split()
        if int(session_id) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def session_of(pid: int) -> int | None:
    """None where it is gone."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def executor_of(pid: int) -> int | None:
    """The JVM of the executor whose task runs in this Python process; None where there is none but the driver's."""
    while pid > 1:
        try:
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            break
    return None


def is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(pid: int) -> None:
    """SIGKILL; nothing where it is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
