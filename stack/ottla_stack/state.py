"""`ottla up` leaves this in its directory for `ottla down` and `ottla status`: a lock, and the processes that run.

A pid alone is not enough, because the kernel reuses it: a process is known by its pid and the time of its start.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Final

from ottla_core.errors import ErrorCode, OttlaError

_LOCK: Final = "ottla.lock"
_FLOCK: Final = struct.Struct("hhqqi4x")  # the kernel's struct flock: type, whence, start, length, pid


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """`started` is in the kernel's clock ticks since boot."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        return ProcessIdentity.of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Signal this very process, if it still runs."""
        if self.alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """`admin_port` and `kafka_port` are 0 if it has none."""

    name: str
    identity: ProcessIdentity
    port: int
    admin_port: int
    restarts: int = 0
    kafka_port: int = 0


@dataclass(frozen=True, slots=True)
class StackState:
    """The running processes, as the supervisor last wrote them down."""

    supervisor: ProcessIdentity
    port_base: int
    bootstrap: str
    ready: bool = False
    processes: list[RunningProcess] = field(default_factory=list)

    def write(self, directory: Path) -> None:
        path = state_path(directory)
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(self), indent=1))
        draft.replace(path)

    @classmethod
    def read(cls, directory: Path) -> StackState | None:
        """Return the state, or None if nothing was ever started in `directory`, or if its state can't be read."""
        try:
            raw = json.loads(state_path(directory).read_text())
            processes = [
                RunningProcess(**{**p, "identity": ProcessIdentity(**p["identity"])}) for p in raw["processes"]
            ]
            return cls(**{**raw, "supervisor": ProcessIdentity(**raw["supervisor"]), "processes": processes})
        except (OSError, ValueError, KeyError, TypeError):
            return None


def state_path(directory: Path) -> Path:
    return directory / "state.json"


def lock(directory: Path) -> IO[str]:
    """Hold the directory as long as this process runs. Raises if another `ottla up` holds it."""
    directory.mkdir(parents=True, exist_ok=True)
    file = (directory / _LOCK).open("a")
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK))
    except OSError:
        file.close()
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"another `ottla up` is running in {directory}{_holder(directory)}",
            hint=f"stop it with `ottla down --dir {directory}`, or choose another --dir and --port-base",
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def unreadable_state(directory: Path) -> OttlaError:
    """Return the error for a directory whose lock is held, and whose state.json is gone or torn."""
    return OttlaError(
        ErrorCode.INVALID_REQUEST,
        f"an `ottla up` is running in {directory}{_holder(directory)}, but {state_path(directory)} can't be read",
        hint="send that process SIGTERM; it then stops its services cleanly",
    )


def _holder(directory: Path) -> str:
    """Return the process that last took the lock, as a part of a message."""
    pid = (directory / _LOCK).read_text().strip()
    return f" (process {pid})" if pid else ""


def is_locked(directory: Path) -> bool:
    """Return whether an `ottla up` runs in `directory`. It only looks, because taking the lock could make another one
    fail."""
    try:
        with (directory / _LOCK).open() as file:
            found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK))
    except FileNotFoundError:
        return False
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def _flock(kind: int) -> bytes:
    """Return a lock on the whole file, held by the open file and not by the process."""
    return _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)
