"""Partitions that nothing happens in while a row does its harm: those of `--partitions` beside the ones under test.

Each is led and followed, was acknowledged a few records before the first fault, and has to hold exactly those after the
last one, and to take another. Writers don't spread over them: how long a partition was without an acknowledgement shows
in a steady flow alone, and a flow into thousands would measure how busy this machine is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tests.faults.history import Name, key_of, value_of

import ottla

IDLE: Final = "idle"
RECORDS: Final = 3
"""Records in each partition before the faults."""

_LIMIT_S: Final = 60.0
"""For each pass over all partitions."""


class Held(NamedTuple):
    """One record as it was read."""

    offset: int
    key: bytes | None
    value: bytes | None


class IdlePartitions:
    """So many partitions of the topic `IDLE`, which somebody else makes."""

    def __init__(self, bootstrap: str, count: int) -> None:
        self.count: Final = count
        self._bootstrap = bootstrap

    def fill(self) -> None:
        """Raises TimeoutError unless every partition acknowledged its records, from its first offset on."""
        for number in range(RECORDS):
            if taken := [p for p, outcome in self._send(number).items() if outcome != number]:
                raise TimeoutError(f"{len(taken)} idle partitions took no record {number}; {taken[0]} is the first")

    def differences(self) -> list[str]:
        """In words, a partition each. Call once: it appends what each has to take."""
        return differences(self._read(), self._send(RECORDS), self.count)

    def _send(self, number: int) -> dict[int, int | str]:
        """Send that record to each partition; returns its offset, or in words why it has none."""
        keys = [key_of(Name(IDLE, partition, number)) for partition in range(self.count)]
        with ottla.Producer(
            self._bootstrap, topic=IDLE, key="bytes", value="bytes", acks="all", delivery_timeout=_LIMIT_S
        ) as producer:
            sent = [producer.send(value_of(key), key=key, partition=partition) for partition, key in enumerate(keys)]
            errors = [delivery.exception() for delivery in sent]
        outcomes = zip(sent, errors, strict=True)
        return {
            p: delivery.result().offset if error is None else str(error) for p, (delivery, error) in enumerate(outcomes)
        }

    def _read(self) -> dict[int, list[Held]]:
        """All that lies in them, to their ends, as far as the time suffices."""
        held: dict[int, list[Held]] = {}
        give_up_at = time.monotonic() + _LIMIT_S
        with ottla.Consumer(
            IDLE,
            bootstrap=self._bootstrap,
            start="earliest",
            stop="end",
            auto_offset_reset="none",
            key="bytes",
            value="bytes",
        ) as consumer:
            while not consumer.finished and time.monotonic() < give_up_at:
                for record in consumer.poll(0.5, max_records=2000):
                    held.setdefault(record.partition, []).append(Held(record.offset, record.key, record.value))
        return held


def differences(held: Mapping[int, Sequence[Held]], taken: Mapping[int, int | str], count: int) -> list[str]:
    """Return the partitions that contain more or less than the acknowledged records, or accepted no record after them.

    `taken` maps each partition to the offset of the record after them, or to the reason why there is no such offset.
    """
    wrong = []
    for partition in range(count):
        keys = [key_of(Name(IDLE, partition, number)) for number in range(RECORDS)]
        if (there := held.get(partition, [])) != [Held(n, key, value_of(key)) for n, key in enumerate(keys)]:
            wrong.append(f"{IDLE}-{partition} was acknowledged {RECORDS} records and holds {[*there]}")
        elif (offset := taken.get(partition, "unknown")) != RECORDS:
            wrong.append(f"{IDLE}-{partition} had to take a record at {RECORDS}, and the outcome is {offset}")
    return wrong
