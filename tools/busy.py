"""`python -m tools.busy -- make test`: a command beside processes that want all of the processor, time after time.

Ends with the first time that the command fails, and with its exit code. The last line is one JSON object; `busy_share`
is what the busy processes got of all cores, each time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from loadtest.rows.footprint import cpu_seconds


@contextmanager
def busy(processes: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many, for as long as the block runs."""
    hogs: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(processes):
            hogs.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))  # noqa: PERF401  # all are ended
        yield hogs
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def run(command: Sequence[str]) -> int:
    """Its exit code. It has a session of its own: Linux shares the processor among sessions first, and in one with the
    busy processes next to nothing would be left to it while its services, which have theirs, are at work."""
    with subprocess.Popen(command, start_new_session=True) as running:
        try:
            return running.wait()
        except BaseException:
            os.killpg(running.pid, signal.SIGINT)  # a terminal's Ctrl-C does not reach it
            raise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    seconds: list[int] = []
    shares: list[float] = []
    code, cores = 0, os.cpu_count() or 1
    with busy(given.processes) as hogs:
        while code == 0 and len(seconds) < given.times:
            began, used_s = time.monotonic(), sum(cpu_seconds(hog.pid) for hog in hogs)
            code = run(given.command)
            took_s = time.monotonic() - began
            seconds.append(round(took_s))
            used_s = sum(cpu_seconds(hog.pid) for hog in hogs) - used_s
            shares.append(round(used_s / took_s / cores, 2))
            if any(hog.poll() is not None for hog in hogs):
                print("a busy process has ended: this was no test beside all of them")
                code = code or 1
    print(
        json.dumps(
            {"processes": given.processes, "cores": cores, "seconds": seconds, "busy_share": shares, "exit": code}
        )
    )
    return code


if __name__ == "__main__":
    sys.exit(main())
