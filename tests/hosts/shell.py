"""Commands of the proof: run with a deadline, told to whoever watches, and in words when they fail."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

_began_at = time.monotonic()


class ProofError(Exception):
    """What does not hold, in a sentence."""


def say(words: str) -> None:
    print(f"{time.monotonic() - _began_at:7.1f} s  {words}", flush=True)


def run(command: Sequence[str], *, timeout_s: float = 60, environment: Mapping[str, str] | None = None) -> str:
    """Its standard output. Raises ProofError with the last words of a command that fails or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, env={**os.environ, **(environment or {})}
        )
    except FileNotFoundError:
        raise ProofError(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ProofError(f"`{' '.join(command)}` did not end within {timeout_s:g} s") from None
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-30:])
        raise ProofError(f"`{' '.join(command)}` ended with {done.returncode}:\n{said}")
    return done.stdout


def works(command: Sequence[str], *, timeout_s: float = 60) -> bool:
    try:
        run(command, timeout_s=timeout_s)
    except ProofError:
        return False
    return True


def wait_for(condition: Callable[[], object], what: str, *, limit_s: float) -> float:
    """Seconds until it held. Raises ProofError where it does not within the limit."""
    began_at = time.monotonic()
    while not condition():
        if time.monotonic() - began_at > limit_s:
            raise ProofError(f"no {what} within {limit_s:g} s")
        time.sleep(0.1)
    return time.monotonic() - began_at
