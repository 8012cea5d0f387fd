"""What a run writes: its topics, which of their records are special, and the names that every listing has to have."""

from __future__ import annotations

from typing import Final

QUERY_SOURCE, QUERY_TARGET = "query-source", "query-target"
APP_SOURCE, APP_TARGET, APP_COPIES, APP_DEAD = "app-source", "app-target", "app-copies", "app-dead"
"""The App sends each record's value to the target and to the copies, in one transaction."""

OPERATIONS: Final = "operations"
"""The administrator's own transactions write the same value to each of its partitions."""

TOPICS: Final = (QUERY_SOURCE, QUERY_TARGET, APP_SOURCE, APP_TARGET, APP_COPIES, APP_DEAD, OPERATIONS)

KNOWN: Final = frozenset(f"known-{number}" for number in range(40))
"""Groups and transactional ids that are there from the start of a run to its end."""

QUERY_TIMEOUT_S: Final = 60.0
APP_TIMEOUT_S: Final = 20.0
"""The transaction timeouts of the query's tasks and of the App."""

_POISONED_ONE_IN, _SLOW_ONE_IN = 151, 41
"""No multiples of the number of keys, so that each key has some."""


def is_poisoned(number: int) -> bool:
    """Whether the App's handler fails for that record, at each attempt."""
    return number % _POISONED_ONE_IN == _POISONED_ONE_IN - 1


def is_slow(number: int) -> bool:
    """Whether the App's handler takes long for that record."""
    return number % _SLOW_ONE_IN == 0


def number_of(value: bytes) -> int:
    """Return the number of a row in its partition (tests.faults.spark.copy)."""
    return int(value.partition(b".")[2])
