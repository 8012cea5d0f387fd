"""Writes records, no two of them equal, until it is told to end, and notes those that are acknowledged."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.faults.history import HistoryWriter

import ottla

BETWEEN_S: Final = 0.2
"""The pause between two rounds of one record for each partition."""
DELIVERY_S: Final = 40.0
"""Longer than a request takes under any harm, and short enough to wait for if the cluster is gone."""
_NAME: Final = "writer"


class RecordWriter:
    """A thread. A record whose outcome is not known counts for nothing, whether or not it is read."""

    def __init__(self, history: Path) -> None:
        self.written = 0
        self._notes: Final = HistoryWriter(history, _NAME)
        self._ending: Final = threading.Event()
        self._pool: Final = ThreadPoolExecutor(1, thread_name_prefix=_NAME)
        self._running: Future[None] | None = None

    def start(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._running = self._pool.submit(self._write, bootstrap, topic, partitions)

    def end(self) -> None:
        """End the thread, and raise what it has raised. If it has ended or never began, do nothing."""
        self._ending.set()
        running, self._running = self._running, None
        if running is not None:
            running.result()
            self._pool.shutdown()
            self._notes.close()

    def _write(self, bootstrap: str, topic: str, partitions: int) -> None:
        with ottla.Producer(bootstrap, topic=topic, delivery_timeout=DELIVERY_S) as producer:
            for number in itertools.count():
                values = [f"{number}.{partition}" for partition in range(partitions)]
                sent = [(value, producer.send(value.encode(), partition=n)) for n, value in enumerate(values)]
                for value, delivery in sent:
                    try:
                        delivery.result()
                    except ottla.OttlaError:
                        continue
                    self.written += 1
                    self._notes.add("ok", "written", group="", member=_NAME, value=value)
                self._notes.flush()
                if self._ending.wait(BETWEEN_S):
                    return
