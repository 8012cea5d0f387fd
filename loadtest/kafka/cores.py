"""What a second broker on the same machine gives: docs/adr/0007-more-than-one-core.md rests on these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from loadtest.kafka.comparison import Figure
from loadtest.kafka.rows import Row
from loadtest.kafka.sides import Side, side_of
from ottla_stack.running import RunningStack

_MANY: Final = ("--producers", "8")

ROWS: Final = (
    Row("kafka.produce", (Figure("two_brokers", "8 producers, 100 B"),), _MANY),
    Row(
        "kafka.produce",
        (Figure("two_brokers_small", "… ten records a request"),),
        (*_MANY, "--small-batches"),
        share=0.1,
    ),
)


@contextmanager
def both_sides(directory: Path) -> Iterator[tuple[Side, Side]]:
    with RunningStack(directory / "two", brokers=2) as two, RunningStack(directory / "one", brokers=1) as one:
        yield side_of(two, "two brokers"), side_of(one, "one broker")
