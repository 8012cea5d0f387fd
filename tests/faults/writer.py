"""`python -m tests.faults.writer`: sends unique values at a steady rate and notes what became of them.

Every tick sends a few consecutive numbers to each partition, as far as that partition has room: a partition whose
leader is gone holds up nobody else. It ends on SIGTERM, once everything that it sent has an outcome.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from tests.faults import librdkafka
from tests.faults.history import HistoryWriter, Name, client_parser, key_of, value_of

import ottla

OUTSTANDING: Final = 400
"""Values of one partition without an outcome: what a stall leaves to be sent in a burst."""

_RUN_NS: Final = 10_000_000
"""Acknowledgements further apart than this are noted apart, so that gaps show."""

_ONE_RECORD_BYTES: Final = 200

_DEFINITE: Final = (ottla.SerializationError, ottla.RecordTooLargeError)


class Outcome(NamedTuple):
    """The outcome of one value: its offset, or an error. The error is definite if the value was not written."""

    partition: int
    number: int
    offset: int
    mono_ns: int
    error: str = ""
    definite: bool = False


@dataclass(slots=True)
class Lane:
    """One partition as this writer sees it."""

    partition: int
    next_number: int = 0
    outstanding: int = 0
    due: float = 0.0


class Writer:
    def __init__(self, producer: Any, partitions: int, rate: float, tick_s: float, history: HistoryWriter) -> None:
        self._producer = producer
        self._lanes = [Lane(partition) for partition in range(partitions)]
        self._tick_s = tick_s
        self._per_tick = rate * tick_s / partitions
        self._history = history
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.stopping = False

    def run(self) -> None:
        """Until `stopping`, and until all has an outcome."""
        tick_at = time.monotonic()
        while not self.stopping:
            for lane in self._lanes:
                self._send(lane)
            tick_at = max(tick_at + self._tick_s, time.monotonic())
            time.sleep(max(0.0, tick_at - time.monotonic()))
            self._note_outcomes()
        with contextlib.suppress(ottla.OttlaError):
            self._producer.flush()
        while any(lane.outstanding for lane in self._lanes):  # callbacks run a little later
            time.sleep(self._tick_s)
            self._note_outcomes()

    def _send(self, lane: Lane) -> None:
        lane.due = min(lane.due + self._per_tick, OUTSTANDING - lane.outstanding)
        count, first = int(lane.due), lane.next_number
        if count <= 0:
            return
        self._history.add("invoke", "send", partition=lane.partition, first=first, count=count)
        self._history.flush()
        lane.due -= count
        lane.next_number += count
        lane.outstanding += count
        for number in range(first, first + count):
            self._send_one(lane.partition, number)

    def _send_one(self, partition: int, number: int) -> None:
        try:
            delivery = self._deliver(Name(self._history.process, partition, number))
        except ottla.OttlaError as error:  # nothing was sent then
            self._outcomes.put(Outcome(partition, number, -1, time.monotonic_ns(), str(error), definite=True))
        else:
            delivery.add_done_callback(partial(self._on_done, partition, number))

    def _deliver(self, name: Name) -> Any:
        key = key_of(name)
        return self._producer.send(value_of(key), key=key, partition=name.partition)

    def _on_done(self, partition: int, number: int, delivery: Any) -> None:
        error, now = delivery.exception(), time.monotonic_ns()
        if error is None:
            self._outcomes.put(Outcome(partition, number, delivery.result().offset, now))
        else:
            self._outcomes.put(Outcome(partition, number, -1, now, str(error), isinstance(error, _DEFINITE)))

    def _note_outcomes(self) -> None:
        run: list[Outcome] = []
        with contextlib.suppress(Empty):
            while True:
                outcome = self._outcomes.get_nowait()
                self._lanes[outcome.partition].outstanding -= 1
                if run and not _goes_on(run[-1], outcome):
                    self._note(run)
                    run = []
                run.append(outcome)
        if run:
            self._note(run)
        self._history.flush()

    def _note(self, run: list[Outcome]) -> None:
        first = run[0]
        fields: dict[str, object] = {"partition": first.partition, "first": first.number, "count": len(run)}
        if first.error:
            type_, fields["error"] = "fail" if first.definite else "info", first.error
        else:
            type_, fields["offset"] = "ok", first.offset
        self._history.add(type_, "send", mono_ns=first.mono_ns, **fields)


def _goes_on(last: Outcome, outcome: Outcome) -> bool:
    """Whether both fit on one line."""
    return (
        outcome.partition == last.partition
        and outcome.number == last.number + 1
        and outcome.offset == (last.offset + 1 if last.offset >= 0 else -1)
        and (outcome.error, outcome.definite) == (last.error, last.definite)
        and outcome.mono_ns - last.mono_ns < _RUN_NS
    )


def main(arguments: list[str], kind: type[Writer] = Writer) -> int:
    parser = client_parser("writer", __doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="values a second over all partitions")
    parser.add_argument("--tick", type=float, default=0.05, help="seconds between two sends to a partition")
    parser.add_argument("--batch-bytes", type=int, default=1024, help="of a batch; 1: every record has its own")
    parser.add_argument("--delivery-timeout", type=float, default=120.0, help="seconds from a send to its outcome")
    parser.add_argument("--librdkafka", action="store_true", help="in place of the SDK; bootstrap is Kafka's then")
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)
    with _producer(given) as producer:
        writer = kind(producer, given.partitions, given.rate, given.tick, history)
        signal.signal(signal.SIGTERM, lambda *_: setattr(writer, "stopping", True))
        writer.run()
    history.close()
    return 0


def _producer(given: argparse.Namespace) -> Any:
    if given.librdkafka:
        return librdkafka.Producer(given.bootstrap, given.topic, given.process)
    return ottla.Producer(
        given.bootstrap,
        topic=given.topic,
        key="bytes",
        value="bytes",
        acks="all",
        batch_size=given.batch_bytes,
        delivery_timeout=given.delivery_timeout,
        request_timeout=min(30.0, given.delivery_timeout / 2),
        # Batches that wait would grow to this size.
        max_request_size=_ONE_RECORD_BYTES if given.batch_bytes == 1 else "1 MB",
        client_id=given.process,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
