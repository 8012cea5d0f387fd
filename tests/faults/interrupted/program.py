"""`python -m tests.faults.interrupted.program --kind poll …`: reads as a member of a group, and is interrupted.

By SIGINT, SIGTERM, whose handler exits, and SIGALRM, whose handler raises what is no Exception, as gevent.Timeout is
none: in the midst of the library. Most are aimed at records in hand, the others come at any time. Some it catches, and
reads on; with the others it ends, as programs do, by leaving the `with` block, and begins again as another member. The
last line says what it saw.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, Final

from tests.faults.interrupted.aim import Failpoint, is_in_hand, move_first
from tests.faults.interrupted.member import AIMED, AT_ONCE, FIRST_S, MOST_S, parser, settings
from tests.faults.interrupted.notes import Notes

import ottla

KINDS: Final = ("iteration", "poll", "batches")


class Timeout(BaseException):
    """The time is over."""


_SIGNALS: Final[dict[int, type[BaseException]]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: SystemExit,
    signal.SIGALRM: Timeout,
}
_INTERRUPTS: Final = tuple(_SIGNALS.values())
_WORK_S: Final = 0.0005
"""What the records of a batch cost the program: else it would read millions between two signals."""
_LOST_S: Final = 0.2
"""What a finalizer raises is reported and dropped, as Python does."""
_LIBRARY: Final = ottla.__path__[0]

Consumer = ottla.Consumer[Any, Any]


class Shooter:
    """Sends the main thread a signal, until the handler has raised in the library."""

    def __init__(self, seed: int) -> None:
        self.random: Final = random.Random(seed)
        self.consumer: Consumer | None = None
        self.signal: int = signal.SIGINT
        self.was_in_hand = False
        self._due = False
        self._pause_s = 0.0
        self._wanted: Final = threading.Semaphore(0)
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        threading.Thread(target=self._run, daemon=True).start()

    def shoot(self, *, aimed: bool) -> None:
        """Signals from now on, until it is `over`; an aimed one comes of itself, others where it was lost."""
        self.signal = self.random.choice(list(_SIGNALS))
        self._pause_s = _LOST_S if aimed else 0.0
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
        if not self._due or self.consumer is None:
            return
        while frame is not None and not frame.f_code.co_filename.startswith(_LIBRARY):
            if frame.f_code.co_filename == __file__:
                return  # between two calls of the library; another signal comes
            frame = frame.f_back
        if frame is not None:
            self.was_in_hand = self.was_in_hand or is_in_hand(self.consumer.reader)
            raise _SIGNALS[number]()


def main(arguments: list[str]) -> int:
    options = parser(__doc__)
    options.add_argument("--kind", required=True, choices=KINDS)
    given = options.parse_args(arguments)
    notes, shooter = Notes(), Shooter(given.seed)
    while notes.interrupts.total() < given.interrupts and not (given.mutant and notes.skipped):
        try:
            _live(given, notes, shooter)
        except _INTERRUPTS as error:
            _note(notes, shooter, error)
    print(json.dumps(notes.told()), flush=True)
    return 0


def _live(given: argparse.Namespace, notes: Notes, shooter: Shooter) -> None:
    """One member of the group, until an interrupt ends it."""
    consumer: Consumer
    with ottla.Consumer(given.topic, **settings(given)) as consumer:
        if given.mutant:
            move_first(consumer.reader)
        failpoint = Failpoint(consumer.reader, shooter.random)
        if not (batch := consumer.poll(FIRST_S)):
            raise RuntimeError("nothing came: is all of it read?")
        notes.on_batch(batch)
        shooter.consumer = consumer
        try:
            for _ in range(shooter.random.randrange(4)):
                try:
                    _read(given.kind, consumer, notes, shooter, failpoint)
                except _INTERRUPTS as error:
                    _note(notes, shooter, error)
                for partition in consumer.assignment():
                    notes.on_position(partition.partition, consumer.position(partition))
            _read(given.kind, consumer, notes, shooter, failpoint)
        finally:
            shooter.consumer = None


def _read(kind: str, consumer: Consumer, notes: Notes, shooter: Shooter, failpoint: Failpoint) -> None:
    """Until it is interrupted."""
    aimed = shooter.random.random() < AIMED
    shooter.shoot(aimed=aimed)
    if aimed:
        failpoint.arm(shooter.signal)
    try:
        while True:
            if kind == "poll":
                notes.on_batch(consumer.poll(1.0))
                time.sleep(_WORK_S)
            elif kind == "batches":
                for batch in consumer.batches(AT_ONCE, 0.0):
                    notes.on_batch(batch)
                    time.sleep(_WORK_S)
            else:
                for record in consumer:
                    notes.on_record(record.partition, record.offset)
                    if not record.offset % AT_ONCE:
                        time.sleep(_WORK_S)
    finally:
        shooter.over()
        failpoint.disarm()


def _note(notes: Notes, shooter: Shooter, error: BaseException) -> None:
    notes.interrupts[type(error).__name__] += 1
    notes.in_hand += shooter.was_in_hand
    shooter.was_in_hand = False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
