"""`python -m tests.faults.interrupted.program --kind poll …`: reads as a member of a group, and is interrupted.

Most interrupts are aimed at records in hand, the others come at any time. Some it catches, and reads on; with the
others it ends, as programs do, by leaving the `with` block, and begins again as another member. The last line says what
it saw.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any, Final

from tests.faults.interrupted.aim import Failpoint, move_first
from tests.faults.interrupted.member import AIMED, AT_ONCE, FIRST_S, parser, settings
from tests.faults.interrupted.notes import Notes
from tests.faults.interrupted.shooter import INTERRUPTS, Shooter

import ottla

KINDS: Final = ("iteration", "poll", "batches")


_WORK_S: Final = 0.0005
"""What the records of a batch cost the program: else it would read millions between two signals."""

Consumer = ottla.Consumer[Any, Any]


def main(arguments: list[str]) -> int:
    options = parser(__doc__)
    options.add_argument("--kind", required=True, choices=KINDS)
    given = options.parse_args(arguments)
    notes, shooter = Notes(), Shooter(given.seed, __file__)
    while notes.interrupts.total() < given.interrupts and not (given.mutant and notes.skipped):
        try:
            _live(given, notes, shooter)
        except INTERRUPTS as error:
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
        shooter.reader = consumer.reader
        try:
            for _ in range(shooter.random.randrange(4)):
                try:
                    _read(given.kind, consumer, notes, shooter, failpoint)
                except INTERRUPTS as error:
                    _note(notes, shooter, error)
                for partition in consumer.assignment():
                    notes.on_position(partition.partition, consumer.position(partition))
            _read(given.kind, consumer, notes, shooter, failpoint)
        finally:
            shooter.reader = None


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
