"""What is said when records that a query wanted are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.errors import ErrorCode, OffsetOutOfRangeError, UnknownTopicError
from ottla_core.model import TopicPartition
from pyspark_ottla.machines.ranges import Range

_NAMED: Final = 20


def data_lost(gone: Sequence[Range]) -> OffsetOutOfRangeError:
    """The error for ranges that can't be read any more: raised, or logged where the user allows it."""
    total = sum(each.size for each in gone)
    named = "; ".join(map(str, gone[:_NAMED])) + ("; …" if len(gone) > _NAMED else "")
    return OffsetOutOfRangeError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{total} offsets that the query wanted are gone: {named}",
        hint="they were deleted, aged out (retention.ms, retention.bytes) or lost; to go on without them, "
        "set failOnDataLoss to false",
    )


def partitions_gone(missing: Sequence[TopicPartition]) -> UnknownTopicError:
    """The error for partitions that a query has read and that are no more: raised, or logged."""
    named = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
    return UnknownTopicError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"{named}: deleted while the query read them",
        hint="to go on without them, set failOnDataLoss to false; to read a topic that was made anew from its "
        "beginning, start with a new checkpoint",
    )
