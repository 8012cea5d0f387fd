"""Appending to a shard of an internal topic, up to its acknowledgement. There is no other way to write to a shard.

Everything that a zombie owner, a delayed call or a lost response could do is decided at the append (machines.shard).
"""

from __future__ import annotations

import asyncio

from ottla_broker.replication.leading import ACKS_ALL, Leading
from ottla_broker.replication.produce import ReplicaAppend
from ottla_broker.storage.owned import check_owned
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import SHARD_TOPICS
from ottla_core.records.batch import Buffer
from ottla_core.records.fence import ShardFence


def check_shard(topic: str, kind: str) -> None:
    """Raise INVALID_REQUEST unless the topic holds the shards of that kind of coordinator."""
    if SHARD_TOPICS.get(kind) != topic:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"{topic} does not hold the shards of {kind[:40]!r} coordinators",
            hint=f"the kinds are {', '.join(SHARD_TOPICS)}, each with its own topic",
        )


async def append_to_shard(
    leading: Leading,
    kind: str,
    owner: ShardFence,
    expected_offset: int,
    records: Buffer,
    *,
    timeout_s: float,
) -> int:
    """Append, before the first await, and return the offset of the owner's first batch once all are below the high
    watermark.

    Raises what `check_owned` and `Leading.append_owned` raise. Then nothing was appended here. Raises what
    `Leading.committed` raises, and REQUEST_TIMED_OUT. Then the batches, or the first of them, may survive.
    """
    check_shard(leading.disk.topic, kind)
    batches = check_owned(owner, expected_offset, records, leading.log.config)
    append = ReplicaAppend(leading, leading.append_owned(batches), ACKS_ALL)
    try:
        async with asyncio.timeout(timeout_s):
            await append.acknowledged()
    except TimeoutError:
        raise OttlaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{leading} has the batches at offset {append.appended.base_offset}, but its high watermark is still at "
            f"{leading.offsets.high_watermark}",
            hint="send the same batches again",
        ) from None
    return append.appended.base_offset
