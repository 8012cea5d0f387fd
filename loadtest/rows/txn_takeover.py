"""For how long no transaction ends when its coordinator is killed: there are two, and each takes over the shards of the
other, again and again. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import signal
import statistics
import tempfile
import time
from pathlib import Path
from threading import Event, Thread
from typing import Final

import ottla
from ottla_stack.running import RunningStack

NAME: Final = "takeover"
LIMIT_S: Final = 60.0
_MOST_PAUSE_S: Final = 0.5
"""Before a kill, by chance: it meets every step of a transaction."""


class Ends:
    """When a producer's transactions ended, one right after the other; from any thread."""

    def __init__(self, bootstrap: str) -> None:
        self.at: Final[list[float]] = []
        self._stopping: Final = Event()
        self._producer: Final = ottla.Producer[bytes, bytes](bootstrap, topic=NAME, transactional_id=NAME)
        self._thread: Final = Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(LIMIT_S)
        self._producer.close()

    def wait(self, after: float) -> float:
        """The gap about `after`, in seconds, once a transaction has ended since; raises TimeoutError."""
        give_up_at = time.monotonic() + LIMIT_S
        while not self.at or self.at[-1] <= after:
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"no transaction has ended for {LIMIT_S:g} s")
            time.sleep(0.01)
        ends = list(self.at)
        return max((ended - before for before, ended in itertools.pairwise(ends) if ended > after), default=0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._producer.transaction():
                    self._producer.send(b"value")
            except ottla.OttlaError:  # aborted by its coordinator: there is another one
                continue
            self.at.append(time.monotonic())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    given = parser.parse_args()
    directory, gaps_s = Path(tempfile.mkdtemp(prefix="ottla-takeover-")), list[float]()
    try:
        with RunningStack(directory / "stack", txn_coordinators=2) as stack, ottla.Admin(stack.bootstrap) as admin:
            admin.topics.create(NAME, partitions=1, replicas=3)
            ends = Ends(stack.bootstrap)
            ends.wait(time.monotonic())
            for _ in range(given.kills):
                owner = admin.transactions.describe(NAME, timeout=LIMIT_S).coordinator
                time.sleep(random.random() * _MOST_PAUSE_S)
                killed_at = time.monotonic()
                stack.restart(f"txn-coordinator-{owner}", number=signal.SIGKILL)
                gaps_s.append(ends.wait(killed_at))
            ends.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps({"kills": len(gaps_s), "p50_s": statistics.median(gaps_s), "worst_s": max(gaps_s)}))


if __name__ == "__main__":
    main()
