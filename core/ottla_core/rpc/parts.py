"""Requests about many partitions go to a group-coordinator in parts, each below what it takes at once.

A coordinator refuses a call about more than 10,000 partitions, because its loop serves no other request during that. It
also refuses a decision of more than 1,000,000 bytes, because its records are one batch (docs/design/limits.md). So a
caller sends parts of half of that, one after the other. Each partition has an outcome of its own, so nothing depends on
the split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

PARTITIONS_AT_ONCE: Final = 5_000
MOST_GROUPS: Final = 200
"""The most groups that one call may ask to describe."""
_RECORD_BYTES_AT_ONCE: Final = 500_000
_FIXED_BYTES: Final = 100
"""An upper bound of what a committed offset takes as a record, besides its group and its part of the request."""

_Item = TypeVar("_Item")


def in_parts(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield all items in order, at least one part."""
    for start in range(0, max(1, len(items)), PARTITIONS_AT_ONCE):
        yield items[start : start + PARTITIONS_AT_ONCE]


def commit_in_parts(
    group: str, offsets: Iterable[_Item], size_bytes: Callable[[_Item], int]
) -> Iterator[Sequence[_Item]]:
    """Yield the offsets of a commit in order, in one part or more. `size_bytes` returns the size of one offset in a
    request."""
    group_bytes = len(group.encode())
    part, left = list[_Item](), _RECORD_BYTES_AT_ONCE
    for offset in offsets:
        record_bytes = size_bytes(offset) + group_bytes + _FIXED_BYTES
        if part and (len(part) == PARTITIONS_AT_ONCE or record_bytes > left):
            yield part
            part, left = [], _RECORD_BYTES_AT_ONCE
        part.append(offset)
        left -= record_bytes
    yield part
