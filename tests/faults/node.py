"""One process of the cluster under test: started, signalled by its pid, and watched for an end that nobody ordered."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

STOP_LIMIT_S: Final = 20.0


def python_path(*first: Path) -> str:
    """Return a PYTHONPATH with these directories before those of this process."""
    return os.pathsep.join([*map(str, first), *filter(None, [os.environ.get("PYTHONPATH")])])


class Node:
    """`log` collects what the process prints, over all its lives."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name: Final = name
        self._command: Final = list(command)
        self._log: Final = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._ordered_to_end = False

    @property
    def pid(self) -> int | None:
        """None unless it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def ended_by_itself(self) -> int | None:
        """Its exit code, where it ended and nobody had told it to."""
        return None if self._process is None or self._ordered_to_end else self._process.poll()

    def start(self) -> None:
        self._ordered_to_end = False
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=self._environment,
            )

    def kill(self) -> None:
        """SIGKILL; returns once it is gone."""
        self._ordered_to_end = True
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def terminate(self) -> None:
        """SIGTERM; `wait` returns once it is gone."""
        self._ordered_to_end = True
        self.send(signal.SIGTERM)

    def wait(self, limit_s: float = STOP_LIMIT_S) -> int:
        """Its exit code. Raises RuntimeError where it still runs after `limit_s`, and kills it then."""
        assert self._process is not None, "it was started"
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"{self.name} did not stop within {limit_s:g} s; its log is {self._log}") from None

    def pause(self) -> None:
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
