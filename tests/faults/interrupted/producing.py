"""`python -m tests.faults.interrupted.producing …`: sends numbers, and is interrupted in `send` and `flush`.

Some interrupts it catches, and sends on; with the others it leaves the `with` block, and begins again with another
producer. Each record whose delivery it saw must be in the topic once, after those that it sent before to the partition.
A record whose `send` was interrupted may be there or not. The last line says what it found.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

from tests.faults.interrupted.member import parser
from tests.faults.interrupted.notes import Notes
from tests.faults.interrupted.shooter import INTERRUPTS, Shooter

import ottla

_A_FLUSH = 50
"""Records between two flushes."""
_WITHIN_S = 0.02
_INTERRUPTS_EACH = 4
"""The most interrupts that a producer lives through."""


class Program:
    """Sends, and remembers which numbers were delivered where."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.notes = Notes()
        self._given = given
        self._shooter = Shooter(given.seed, __file__)
        self._next = 0
        self._open: list[tuple[int, ottla.Delivery]] = []
        self.delivered: dict[int, tuple[int, int]] = {}

    def run(self) -> None:
        """Until it was interrupted often enough."""
        while self.notes.interrupts.total() < self._given.interrupts:
            try:
                self._live()
            except INTERRUPTS as error:
                self._note(error)
            self._collect()

    def _live(self) -> None:
        producer: ottla.Producer[Any, Any]
        with ottla.Producer(self._given.bootstrap, topic=self._given.topic, value="int", linger=0.002) as producer:
            self._send_some(producer)
            for _ in range(self._shooter.random.randrange(1, _INTERRUPTS_EACH)):
                try:
                    self._send(producer)
                except INTERRUPTS as error:
                    self._note(error)
            self._send(producer)

    def _send(self, producer: ottla.Producer[Any, Any]) -> None:
        """Until it is interrupted."""
        self._shooter.shoot(within_s=_WITHIN_S)
        try:
            while True:
                self._send_some(producer)
        finally:
            self._shooter.over()

    def _send_some(self, producer: ottla.Producer[Any, Any]) -> None:
        for _ in range(_A_FLUSH):
            number, self._next = self._next, self._next + 1
            self._open.append((number, producer.send(number)))
        producer.flush()

    def _note(self, error: BaseException) -> None:
        self.notes.interrupts[type(error).__name__] += 1

    def _collect(self) -> None:
        """The producer is closed, so each delivery has an outcome."""
        for number, delivery in self._open:
            with suppress(ottla.OttlaError):
                metadata = delivery.result(0)
                self.delivered[number] = (metadata.partition, metadata.offset)
        self._open.clear()

    def judge(self) -> None:
        """Read the topic, and count what is missing, there twice, or elsewhere than it was acknowledged."""
        found: dict[int, list[tuple[int, int]]] = {}
        settings: dict[str, Any] = {"bootstrap": self._given.bootstrap, "start": "earliest", "stop": "end"}
        try:
            with ottla.Consumer[Any, int](self._given.topic, value="int", **settings) as consumer:
                for record in consumer:
                    found.setdefault(record.value, []).append((record.partition, record.offset))
        except ottla.OttlaError as error:
            print(f"the topic can't be read: {error}", file=sys.stderr)
        self.notes.seen = len(self.delivered)
        self.notes.skipped = sum(number not in found for number in self.delivered)
        self.notes.repeated = sum(len(places) > 1 for places in found.values())
        self.notes.misplaced = self.notes.repeated + sum(
            number in found and place not in found[number] for number, place in self.delivered.items()
        )
        ends: Counter[int] = Counter()
        for number in sorted(self.delivered):
            partition, offset = self.delivered[number]
            self.notes.misplaced += offset < ends[partition]
            ends[partition] = offset + 1


def main(arguments: list[str]) -> int:
    program = Program(parser(__doc__).parse_args(arguments))
    program.run()
    program.judge()
    print(json.dumps(program.notes.told()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
