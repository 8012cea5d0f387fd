"""Ending transactions in the partitions that this broker leads, for a txn-coordinator (rule 36)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla_broker.machines.transactions import TransactionEnd
from ottla_broker.replication.leading import ACKS_ALL, Leading
from ottla_broker.replication.produce import ReplicaAppend, check_client_may_write, without_traces
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import PartitionId

MOST_MARKERS: Final = 10_000
"""The limit for one request, over all its partitions."""

_LARGEST_EPOCH: Final = 2**15 - 1


class MarkersToWrite(NamedTuple):
    end: TransactionEnd
    partitions: Sequence[PartitionId]


def check_markers(requested: Sequence[MarkersToWrite]) -> None:
    """Raise INVALID_REQUEST for more markers than a request may have, and for numbers that no producer has."""
    if sum(len(markers.partitions) for markers in requested) > MOST_MARKERS:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"the request has more than {MOST_MARKERS} markers",
            hint="send the markers in several requests",
        )
    for (producer_id, epoch, marker, _), _ in requested:
        if min(producer_id, epoch, marker.coordinator_epoch) < 0 or epoch > _LARGEST_EPOCH:
            raise OttlaError(
                ErrorCode.INVALID_REQUEST,
                f"a marker has invalid numbers: producer {producer_id}, epoch {epoch}, coordinator epoch "
                f"{marker.coordinator_epoch}",
            )


async def write_markers(
    leading: Callable[[PartitionId], Leading], requested: Sequence[MarkersToWrite], *, timeout_s: float
) -> list[list[OttlaError | None]]:
    """Write markers in their order. Return for each partition None once its marker is below the high watermark, or the
    error.

    With REQUEST_TIMED_OUT and the other errors of `Leading.committed`, the marker may have been written. An internal
    topic gets INVALID_TOPIC_EXCEPTION, because the owner of a shard writes its markers.
    """
    deadline = asyncio.get_running_loop().time() + timeout_s
    slice_ = Slice()
    appended: list[list[ReplicaAppend | OttlaError]] = []
    for end, partitions in requested:
        appended.append([])
        for partition_id in partitions:
            await slice_.rest()
            appended[-1].append(_append(leading, partition_id, end))
    errors: list[list[OttlaError | None]] = []
    for of_marker in appended:  # one after the other: all of them only wait for the same deadline
        errors.append([])
        for each in of_marker:
            await slice_.rest()
            errors[-1].append(await _acknowledged(each, deadline))
    return errors


def _append(
    leading: Callable[[PartitionId], Leading], partition_id: PartitionId, end: TransactionEnd
) -> ReplicaAppend | OttlaError:
    try:
        led = leading(partition_id)
        check_client_may_write(led.disk.topic)
        return ReplicaAppend(led, led.append_marker(end), ACKS_ALL)
    except OttlaError as error:
        return without_traces(error)


async def _acknowledged(append: ReplicaAppend | OttlaError, deadline: float) -> OttlaError | None:
    if isinstance(append, OttlaError):
        return append
    try:
        async with asyncio.timeout_at(deadline):
            await append.acknowledged()
    except TimeoutError:
        return OttlaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{append.leading} has the marker at offset {append.appended.last_offset}, but its high watermark is still "
            f"at {append.leading.offsets.high_watermark}",
            hint="send the marker again",
        )
    except OttlaError as error:
        return without_traces(error)
    return None
