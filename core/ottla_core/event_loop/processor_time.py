"""Measures how much processor time a thread got. So it tells whether a gap in its work was starvation, or the process
was stopped.

Linux counts for every thread how long it ran, and how long it was ready to run and had to wait. A thread that is
stopped (SIGSTOP, a suspended machine) does neither. It is for diagnosing a slow process, and nothing is decided by it
(docs/adr/0012).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")


class ProcessorTime:
    """How long the calling thread ran, or waited for the processor."""

    def __init__(self, monotonic: float, schedstat: Path = _SCHEDSTAT) -> None:
        self._schedstat: Final = schedstat
        self._looked_at = monotonic
        self._runnable_s = self._read()

    def look(self, monotonic: float) -> tuple[float, float]:
        """Return the seconds since the last look, and how many of them the thread ran or waited for a processor. That
        is 0 if the system does not tell."""
        runnable_s = self._read()
        passed_s, runnable_since_s = monotonic - self._looked_at, runnable_s - self._runnable_s
        self._looked_at, self._runnable_s = monotonic, runnable_s
        return passed_s, runnable_since_s

    def _read(self) -> float:
        try:
            ran_ns, waited_ns, _ = self._schedstat.read_text(encoding="ascii").split()
            return (int(ran_ns) + int(waited_ns)) / 1e9
        except (OSError, ValueError):
            return 0.0
