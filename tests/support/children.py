"""Processes that a test has started, which end with their block: one whose test fails would run on beside the next."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import AnyStr

from waiting import wait_until

_GRACE_S = 20.0


@contextmanager
def ending(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """The process; where it still runs in the end it is told to stop, for it may have processes of its own."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):  # of what was never flushed
                    pipe.close()


def stop(pid: int) -> None:
    """SIGSTOP, acted upon: a signal is only sent by the time that `kill` returns, and a thread may answer one more."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(_state(stat) in "TZX" for stat in Path(f"/proc/{pid}/task").glob("*/stat")))


def _state(stat: Path) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return stat.read_text().rpartition(")")[2].split()[0]
    return "X"
