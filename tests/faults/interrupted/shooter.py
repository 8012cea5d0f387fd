"""Interrupts a program by signals whose handlers raise in the midst of the library.

By SIGINT, by SIGTERM, whose handler exits, and by SIGALRM, whose handler raises what is no Exception, as gevent.Timeout
is none.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from types import FrameType
from typing import Any, Final

from tests.faults.interrupted.aim import is_in_hand
from tests.faults.interrupted.member import MOST_S

import ottla
from ottla.consumer.reader import RecordReader


class Timeout(BaseException):
    """The time is over."""


_SIGNALS: Final[dict[int, type[BaseException]]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: SystemExit,
    signal.SIGALRM: Timeout,
}
INTERRUPTS: Final = tuple(_SIGNALS.values())
_LOST_S: Final = 0.2
"""What a finalizer raises is reported and dropped, as Python does."""
_LIBRARY: Final = ottla.__path__[0]


class Shooter:
    """Sends the main thread a signal, until the handler has raised in the library, in a call of the file `program`."""

    def __init__(self, seed: int, program: str) -> None:
        self._program: Final = program
        self.random: Final = random.Random(seed)
        self.reader: RecordReader[Any, Any] | None = None
        self.signal: int = signal.SIGINT
        self.was_in_hand = False
        self._due = False
        self._pause_s = 0.0
        self._wanted: Final = threading.Semaphore(0)
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        threading.Thread(target=self._run, daemon=True).start()

    def shoot(self, *, aimed: bool = False, within_s: float = 0.0) -> None:
        """Send signals from some time `within_s` seconds on, until it is `over`.

        An aimed one comes of itself, and others only where it was lost.
        """
        self.signal = self.random.choice(list(_SIGNALS))
        self._pause_s = _LOST_S if aimed else self.random.uniform(0, within_s)
        self._due = True
        self._wanted.release()

    def over(self) -> None:
        """It hit."""
        self._due = False

    def _run(self) -> None:
        while True:
            self._wanted.acquire()
            time.sleep(self._pause_s)
            while self._due:
                time.sleep(self.random.uniform(0, MOST_S))
                signal.pthread_kill(threading.main_thread().ident or 0, self.signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._due:
            return
        while frame is not None and not frame.f_code.co_filename.startswith(_LIBRARY):
            if frame.f_code.co_filename == self._program:
                return  # between two calls of the library; another signal comes
            frame = frame.f_back
        if frame is not None:
            self.was_in_hand = self.was_in_hand or (self.reader is not None and is_in_hand(self.reader))
            raise _SIGNALS[number]()
