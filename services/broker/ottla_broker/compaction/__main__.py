"""`python -m ottla_broker.compaction` reads a job from the first line of stdin, and writes its results to stdout.

It writes a line for each cleaned group of segments, and then waits for a line from the broker, which has put the group
in its place by then. The last line is the result, or {"error": {"message", "hint"}}. The broker keeps stdin open. If
stdin ends first, the broker is gone and the files would never take the place of the segments, so the worker ends.
"""

from __future__ import annotations

import json
import os
import sys
from queue import SimpleQueue
from threading import Thread
from typing import Final

from ottla_broker.compaction.cleaning import clean
from ottla_broker.compaction.job import CleanedGroup, CleaningJob
from ottla_core.errors import OttlaError

_STDIN = 0
_NO_PARENT = 1


class _Broker:
    """The other end of stdin and stdout."""

    def __init__(self) -> None:
        self._taken: Final = SimpleQueue[None]()
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Read without a buffer, because a process can't end while a thread waits in a buffered reader."""
        while data := os.read(_STDIN, 1 << 10):
            for _ in range(data.count(b"\n")):
                self._taken.put(None)
        os._exit(_NO_PARENT)

    def take(self, group: CleanedGroup) -> None:
        print(group.to_json(), flush=True)
        self._taken.get()


def main() -> int:
    job = CleaningJob.from_json(sys.stdin.buffer.readline())
    broker = _Broker()
    try:
        print(clean(job, broker.take).to_json(), flush=True)
    except (OttlaError, OSError) as error:
        print(json.dumps({"error": _described(error)}), flush=True)
        return 1
    return 0


def _described(error: OttlaError | OSError) -> dict[str, str]:
    if isinstance(error, OttlaError):
        return {"message": error.message, "hint": error.hint}
    return {
        "message": f"cleaning failed: {error}",
        "hint": "check the free space and the permissions of the data directory; compaction is tried again",
    }


if __name__ == "__main__":
    sys.exit(main())
