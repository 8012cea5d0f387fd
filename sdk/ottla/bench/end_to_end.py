"""Sends records on schedule and reads them with a consumer that began at the end of the topic.

Each record carries the run's name and its own number in a header, so the run ignores records of other writers and
notices lost records. Its latency counts from the moment when the record was due, on this process's clock.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final

from ottla.bench.acknowledgements import Acknowledgements
from ottla.bench.measurement import Measurement
from ottla.bench.pace import SendPace
from ottla.bench.payload import values
from ottla.bench.throughput import RunBounds
from ottla.consumer.consumer import Consumer
from ottla.producer.producer import Producer

_HEADER: Final = "ottla-bench"
_NAME_BYTES: Final = 8
_NAP_S: Final = 0.05


class EndToEnd:
    """One run; `acknowledged` also counts the records that were not delivered."""

    def __init__(
        self,
        producer: Producer[bytes, bytes],
        consumer: Consumer[bytes, bytes],
        measured: Measurement,
        bounds: RunBounds,
        *,
        size_bytes: int,
        rate: float,
    ) -> None:
        self._producer: Final = producer
        self._consumer: Final = consumer
        self._measured: Final = measured
        self._bounds: Final = bounds
        self._rate: Final = rate
        self._values: Final = values(size_bytes)
        self._name: Final = secrets.token_bytes(_NAME_BYTES)
        self._due_ns: dict[int, int] = {}
        self._sent = 0
        self.acknowledged: Final = Acknowledgements(size_bytes)

    def run(self, on_record: Callable[[int, int], None], *, patience_s: float) -> int:
        """Run, and call `on_record` with each record's number and its latency in µs.

        Returns the number of records that were not read within `patience_s` after the last send.
        """
        for partition in sorted(self._consumer.assignment()):
            self._consumer.position(partition)  # looked up now: what is sent from here on is what it reads
        pace = SendPace(time.monotonic(), self._rate)
        while self._sent < self._bounds.records and time.monotonic() - pace.began_at < self._bounds.seconds:
            self._send_due(pace)
            self._receive(min(_NAP_S, max(0.0, pace.due_at(self._sent) - time.monotonic())), on_record)
        give_up_at = time.monotonic() + patience_s
        while self._due_ns and time.monotonic() < give_up_at:
            self._receive(_NAP_S, on_record)
        self._producer.flush()
        self.acknowledged.collect(self._measured.window)
        self._measured.finish(time.monotonic())
        return len(self._due_ns)

    def _send_due(self, pace: SendPace) -> None:
        for _ in range(min(self._bounds.records - self._sent, pace.due(time.monotonic(), self._sent))):
            due_ns, handed_over_ns = round(pace.due_at(self._sent) * 1e9), time.monotonic_ns()
            self._due_ns[self._sent] = due_ns
            self._measured.window.delay.add(max(0, handed_over_ns - due_ns) // 1000)
            mark = self._name + self._sent.to_bytes(8, "big")
            delivery = self._producer.send(next(self._values), headers=[(_HEADER, mark)])
            self.acknowledged.expect(delivery, handed_over_ns)
            self._sent += 1

    def _receive(self, wait_s: float, on_record: Callable[[int, int], None]) -> None:
        batch = self._consumer.poll(wait_s)
        at_ns, window = time.monotonic_ns(), self._measured.window
        for record in batch:
            mark = record.header(_HEADER) or b""
            number = int.from_bytes(mark[_NAME_BYTES:], "big")
            due_ns = self._due_ns.pop(number, None) if mark.startswith(self._name) else None
            if due_ns is None:
                continue  # of another producer, or a second copy of one of ours
            latency_us = max(0, at_ns - due_ns) // 1000
            window.received += 1
            window.received_bytes += len(record.value)
            window.end_to_end.add(latency_us)
            on_record(number, latency_us)
        self.acknowledged.collect(window)
        window.backlog = len(self._due_ns)
        self._measured.roll(time.monotonic())
