"""What the processes of a local Spark use: its JVM, and the Python workers, which are the JVM's descendants."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla_stack.view import resident_mb

_POLL_S: Final = 0.1
_CARRIES_ROWS: Final = "pyspark.worker"
"""The last word of a worker's command line; those of the processes that plan say what they plan."""


def cpu_seconds(pid: int) -> float:
    """So far, of a process and all its descendants, those that have ended included. Of two readings: one that ends
    between the look at its parent and that at itself counts in neither."""
    readings = (sum(_own_and_ended(each) for each in (pid, *descendants(pid))) for _ in range(2))
    return max(readings) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> Iterator[int]:
    """All that run now."""
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in listed.read_text().split()]
        except OSError:  # the thread has ended meanwhile
            continue
        for child in children:
            yield child
            yield from descendants(child)


def _own_and_ended(pid: int) -> int:
    """Ticks of the process, and of its children that it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


class WorkerMemory:
    """`with WorkerMemory(jvm) as memory:` watches the JVM's descendants; afterwards it has the most there was.

    A page that several processes share counts once, in equal parts.
    """

    def __init__(self, jvm: int) -> None:
        self.workers_mb = 0.0
        """The memory of all workers that carry rows, at one moment."""
        self.all_mb = 0.0
        """The same with those that plan, of which Spark keeps two for each of a few questions."""
        self.largest_mb = 0.0
        """The memory of one process, including all of its shared memory."""
        self._jvm: Final = jvm
        self._ended: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_S):
            pids = list(descendants(self._jvm))
            share_mb = {pid: _share_mb(pid) for pid in pids}
            self.workers_mb = max(self.workers_mb, sum(share_mb[pid] for pid in pids if _carries_rows(pid)))
            self.all_mb = max(self.all_mb, sum(share_mb.values()))
            self.largest_mb = max(self.largest_mb, *map(resident_mb, pids), 0.0)


def _share_mb(pid: int) -> float:
    """Resident memory in units of 10^6 bytes, shared pages in equal parts; 0 where the process is gone."""
    try:
        found = re.search(r"^Pss: +([0-9]+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) * 1024 / 1e6 if found else 0.0


def _carries_rows(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return False
    return _CARRIES_ROWS in words
