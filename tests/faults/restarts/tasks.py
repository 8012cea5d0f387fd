"""A client does several things at once, each on a thread of its own, until it is stopped by SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.faults.history import HistoryWriter

_LOOK_S: Final = 0.1


def run_all(tasks: Sequence[Callable[[threading.Event], None]], history: HistoryWriter) -> int:
    """Run the tasks until each has ended, which it does when its event is set. Return 1 if one has raised."""
    stopping, codes = threading.Event(), list[int]()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())

    def run(task: Callable[[threading.Event], None]) -> None:
        try:
            task(stopping)
        except Exception as error:
            codes.append(1)
            history.add("info", "failure", error=f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=[task]) for task in tasks]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(_LOOK_S)  # Python runs signal handlers between two of these
    history.close()
    return max(codes, default=0)
