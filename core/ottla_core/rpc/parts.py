"""Requests about many partitions go to a group-coordinator in parts, each below what it takes at once.

A coordinator refuses a call about more than 10,000 partitions, because its loop serves no other request during that. It
also refuses a decision of more than 1,000,000 bytes, because its records are one batch (docs/design/limits.md). So a
caller sends parts of half of that, one after the other. Each partition has an outcome of its own, so nothing depends on
the split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ottla_proto.group_pb2 import CommitOffsetsRequest, OffsetToCommit

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


def commit_in_parts(whole: CommitOffsetsRequest, offsets: Iterable[OffsetToCommit]) -> Iterator[CommitOffsetsRequest]:
    """Yield requests like `whole`, which has no offsets itself, that commit all offsets in order; at least one."""
    group_bytes = len(whole.group.encode())
    part, left = list[OffsetToCommit](), _RECORD_BYTES_AT_ONCE
    for offset in offsets:
        size_bytes = offset.ByteSize() + group_bytes + _FIXED_BYTES
        if part and (len(part) == PARTITIONS_AT_ONCE or size_bytes > left):
            yield _with(whole, part)
            part, left = [], _RECORD_BYTES_AT_ONCE
        part.append(offset)
        left -= size_bytes
    yield _with(whole, part)


def _with(whole: CommitOffsetsRequest, offsets: Iterable[OffsetToCommit]) -> CommitOffsetsRequest:
    part = CommitOffsetsRequest()
    part.CopyFrom(whole)
    part.offsets.extend(offsets)
    return part
