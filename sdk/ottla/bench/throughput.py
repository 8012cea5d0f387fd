"""Sends and reads records as fast as possible, or sends at a rate, up to a number of records and a time.

Both functions call back with every finished window and leave the rest in the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ottla.bench.acknowledgements import Acknowledgements
from ottla.bench.measurement import Measurement, Window
from ottla.bench.pace import SendPace
from ottla.bench.payload import keys, values
from ottla.consumer.consumer import Consumer
from ottla.producer.producer import Producer

OnWindow = Callable[[Window], None]

_RECORDS_A_STEP: Final = 256
"""Records between two checks of the clock and of outcomes."""

_NAP_S: Final = 0.05
_POLL: Final = 5_000


@dataclass(frozen=True, slots=True)
class RunBounds:
    """A run ends after its records or its seconds, whichever comes first."""

    records: int
    seconds: float


def produce(
    producer: Producer[bytes, bytes],
    measured: Measurement,
    bounds: RunBounds,
    on_window: OnWindow,
    *,
    size_bytes: int,
    distinct_keys: int = 0,
    rate: float | None = None,
) -> Acknowledgements:
    """Send at `rate` records a second, or as fast as possible, then wait for every outcome.

    Raises the errors of `send`, and ottla.TimeoutError if outcomes are missing after delivery_timeout.
    """
    rows = zip(values(size_bytes), keys(distinct_keys), strict=False)
    acknowledged = Acknowledgements(size_bytes + len(next(keys(distinct_keys)) or b""))
    began_at, sent = time.monotonic(), 0
    pace = None if rate is None else SendPace(began_at, rate)
    while sent < bounds.records and (now := time.monotonic()) - began_at < bounds.seconds:
        count = min(_RECORDS_A_STEP, bounds.records - sent)
        if pace is not None:
            count = min(count, pace.due(now, sent))
            measured.window.delay.add_all([round((now - pace.due_at(sent + n)) * 1e6) for n in range(count)])
        for value, key in islice(rows, count):
            handed_over_at = time.monotonic_ns()
            acknowledged.expect(producer.send(value, key=key), handed_over_at)
        sent += count
        acknowledged.collect(measured.window)
        if window := measured.roll(time.monotonic()):
            on_window(window)
        if pace is not None:
            time.sleep(min(_NAP_S, max(0.0, pace.due_at(sent) - time.monotonic())))
    producer.flush()
    acknowledged.collect(measured.window)
    measured.finish(time.monotonic())
    return acknowledged


def consume(
    consumer: Consumer[bytes, bytes], measured: Measurement, bounds: RunBounds, on_window: OnWindow, *, existing: int
) -> None:
    """Read until the consumer's stop. `existing` is the number of records in the topic, for the backlog."""
    began_at, read = time.monotonic(), 0
    while read < bounds.records and not consumer.finished:
        left_s = bounds.seconds - (time.monotonic() - began_at)
        if left_s <= 0:
            break
        batch = consumer.poll(left_s, max_records=min(_POLL, bounds.records - read))
        read += len(batch)
        window = measured.window
        window.received += len(batch)
        window.received_bytes += sum(map(len, filter(None, batch.values())))
        window.received_bytes += sum(map(len, filter(None, batch.keys())))
        window.backlog = max(0, existing - read)
        if over := measured.roll(time.monotonic()):
            on_window(over)
    measured.finish(time.monotonic())
