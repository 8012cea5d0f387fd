"""Ends a run in which a case does not end at all, since nothing else could end it."""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final

from tests.fuzz_client.case import Case

LIMIT_S: Final = 90.0
"""More than any case may take, with all its timeouts and the closing of a client."""
_LOOKS_EACH_S: Final = 1.0


class Watchdog:
    """Looks at the cases that are being played."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show: Final = show
        self._begun: Final[dict[Case, float]] = {}

    def start(self) -> None:
        Thread(target=self._watch, name="watchdog", daemon=True).start()

    @contextmanager
    def watching(self, case: Case) -> Iterator[None]:
        """Watch a case while it is played."""
        self._begun[case] = time.monotonic()
        try:
            yield
        finally:
            del self._begun[case]

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOKS_EACH_S)
            now = time.monotonic()
            for case, begun in list(self._begun.items()):
                if now - begun > LIMIT_S:
                    self._show(f"hang: {case.as_json()}: it has not ended in {LIMIT_S:g} s")
                    faulthandler.dump_traceback(sys.stdout)
                    sys.stdout.flush()
                    os._exit(1)
