"""Errors for records that a query was to read and that are deleted, and the rule whether the query fails because of
it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from ottla.errors import ConfigError, ErrorCode, OffsetOutOfRangeError, OttlaError, UnknownTopicError
from ottla_core.model import TopicPartition
from ottla_core.plural import counted
from pyspark_ottla.machines.ranges import Range
from pyspark_ottla.options import ReadOptions

logger = logging.getLogger("ottla.spark")

_NAMED: Final = 20


class PartitionsGoneError(UnknownTopicError):
    """Partitions that a query has read no longer exist."""


def raise_or_warn(error: OttlaError, options: ReadOptions) -> None:
    """Apply failOnDataLoss: raise, or log a warning and let the query continue."""
    if options.fail_on_data_loss:
        raise error
    logger.warning("%s", error)


def data_lost(gone: Sequence[Range]) -> OffsetOutOfRangeError:
    """Return the error for ranges that can't be read any more. It is raised, or logged if the user allows it."""
    total = sum(lost.size for lost in gone)
    named = "; ".join(map(str, gone[:_NAMED])) + ("; …" if len(gone) > _NAMED else "")
    return OffsetOutOfRangeError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{counted(total, 'offset')} that the query has not read yet {'is' if total == 1 else 'are'} gone: {named}",
        hint="the records were deleted, expired (retention.ms, retention.bytes) or lost; to continue without them, "
        "set failOnDataLoss to false",
    )


def beyond_end(missing: Sequence[Range]) -> OffsetOutOfRangeError:
    """Return the error for offsets that the logs have not reached. Each range begins where its log ends."""
    named = "; ".join(f"{p} ends at {end}, and the query is at {at}" for p, end, at in missing[:_NAMED])
    return OffsetOutOfRangeError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"offsets beyond the end of the log: {named}" + ("; …" if len(missing) > _NAMED else ""),
        hint="either the offset is wrong, the topic was recreated, or the end of its log was lost; to continue "
        "from the end of the log, set failOnDataLoss to false",
    )


def truncated(missing: Sequence[Range]) -> OffsetOutOfRangeError:
    """Return the error for logs that were truncated, and may have other records now. Each range begins there."""
    named = "; ".join(
        f"{p} was truncated to {end}, and the query had read up to {at}" for p, end, at in missing[:_NAMED]
    )
    return OffsetOutOfRangeError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"logs have lost records that the query has read or planned: {named}"
        + ("; …" if len(missing) > _NAMED else ""),
        hint="after an unclean election, other records may have these offsets, which the query would leave out; to "
        "continue without them, set failOnDataLoss to false, or use a new checkpointLocation",
    )


def foreign_checkpoint(held: str, read: str) -> ConfigError:
    """Return the error for a checkpoint that holds other partitions than the query reads, or no offsets at all."""
    return ConfigError(
        ErrorCode.INVALID_CONFIG,
        f"the checkpoint belongs to another query: it holds {held}, but this query reads {read}",
        hint="give each query its own checkpointLocation; to drop topics that the query no longer subscribes to, "
        "set failOnDataLoss to false",
    )


def topics_recreated(names: Collection[str]) -> UnknownTopicError:
    """Return the error for topics whose names other topics have now. It is raised, or logged."""
    named = ", ".join(sorted(names)[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return UnknownTopicError(
        ErrorCode.UNKNOWN_TOPIC_ID,
        f"{named}: deleted and recreated since the query last read; records that the query had not read are gone",
        hint="to read the new topic from its beginning, set failOnDataLoss to false, or use a new checkpointLocation",
    )


def partitions_gone(missing: Sequence[TopicPartition]) -> PartitionsGoneError:
    """Return the error for partitions that a query has read and that no longer exist. It is raised, or logged."""
    named = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
    return PartitionsGoneError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"{named}: deleted while the query was reading",
        hint="to continue without the deleted partitions, set failOnDataLoss to false; the query then reads "
        "recreated topics from the beginning",
    )
