"""The keys and values that benchmarks send; values are random capital letters, as in Kafka's tool."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Final

_LETTERS: Final = bytes(65 + number % 26 for number in range(256))
_POOL_BYTES: Final = 4 << 20
_MOST: Final = 10_000


def values(size_bytes: int) -> Iterator[bytes]:
    """Yield values without end. So many of them differ that a batch compresses as if all values were different."""
    chance = random.Random(0)  # noqa: S311 - the same bytes in every run
    count = max(1, min(_MOST, _POOL_BYTES // max(1, size_bytes)))
    return itertools.cycle([chance.randbytes(size_bytes).translate(_LETTERS) for _ in range(count)])


def keys(count: int) -> Iterator[bytes | None]:
    """Cycle through `count` different keys without end; yield only None if `count` is 0."""
    return itertools.cycle([b"key-%08d" % number for number in range(count)] or [None])
