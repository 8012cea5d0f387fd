"""The rows that a run copies, and what became of them.

A row is named by its partition and its number in it. Its key is one of a few of its partition, so that rows of one key
have an order; the copy is laid out by key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import ottla

PARTITIONS: Final = 3
_KEYS: Final = 5
_EXAMPLES: Final = 10


@dataclass(slots=True)
class Findings:
    """`repeated` rows are there more than once, which at-least-once allows; the others may not be."""

    rows: int = 0
    repeated: int = 0
    missing: int = 0
    reordered: int = 0
    foreign: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.missing or self.reordered or self.foreign)


def key_of(partition: int, number: int) -> bytes:
    return b"%d.%d" % (partition, number % _KEYS)


def write_rows(bootstrap: str, topic: str, first: int, count: int) -> None:
    """`count` more rows in each partition of the source."""
    with ottla.Producer(bootstrap, topic=topic) as producer:
        for partition in range(PARTITIONS):
            for number in range(first, first + count):
                value = b"%d.%d" % (partition, number)
                producer.send(value, key=key_of(partition, number), partition=partition)


def read_rows(bootstrap: str, topic: str) -> Iterable[tuple[bytes | None, bytes | None]]:
    """Key and value of all there is, in the order of each partition."""
    consumer = ottla.Consumer(topic, bootstrap=bootstrap, start="earliest", stop="end", key="bytes", value="bytes")
    with consumer:
        for record in consumer:
            yield record.key, record.value


def check(copied: Iterable[tuple[bytes | None, bytes | None]], written: int) -> Findings:
    """Every one of the `written` rows of each partition has to be there, and the first of each in its key's order."""
    found = Findings(rows=PARTITIONS * written)
    seen: dict[int, set[int]] = defaultdict(set)
    last: dict[bytes, int] = {}
    for key, value in copied:
        row = _row(value)
        if row is None or row[1] >= written or key != key_of(*row):
            found.foreign += 1
            found.examples.append(f"nobody wrote {key!r}: {value!r}")
            continue
        partition, number = row
        if number in seen[partition]:
            found.repeated += 1
            continue
        seen[partition].add(number)
        if number < last.get(key, -1):
            found.reordered += 1
            found.examples.append(f"{partition}.{number} came after {partition}.{last[key]}")
        last[key] = number
    for partition in range(PARTITIONS):
        missing = sorted(set(range(written)) - seen[partition])
        found.missing += len(missing)
        found.examples += [f"{partition}.{number} is missing" for number in missing]
    del found.examples[_EXAMPLES:]
    return found


def _row(value: bytes | None) -> tuple[int, int] | None:
    partition, _, number = (value or b"").partition(b".")
    if not (partition.isdigit() and number.isdigit() and int(partition) < PARTITIONS):
        return None
    return int(partition), int(number)
