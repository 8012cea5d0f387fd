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

KILLED_AT_AN_END = """
import os, signal, sys
from ottla.producer.txn_client import TxnClient

when, left, end = sys.argv[1], int(sys.argv[2]), TxnClient.end
del sys.argv[:3]

def killed(*args, **kwargs):
    global left
    left -= 1
    if not left and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    ended = end(*args, **kwargs)
    if not left and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return ended

TxnClient.end = killed
"""
"""How the source of a child begins that kills itself "before" or "after" its nth end of a transaction: by its first two
arguments, which it takes away."""


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
