"""Owners of shards in tests: their fences, and batches that say who they are."""

from __future__ import annotations

from batches import NOON, sealed

from ottla_broker.storage.log import AppendResult, Log
from ottla_broker.storage.owned import append_owned, check_owned, find_repeated
from ottla_core.records.fence import ShardFence, seal_fence

FIRST = ShardFence(1, 501)
SECOND = ShardFence(2, 502)


def keyed(*values: bytes, at_ms: int = NOON) -> bytes:
    """One batch with a record for each value, which is its key too."""
    return sealed((n, at_ms, value, value, []) for n, value in enumerate(values))


def fence_batch(owner: ShardFence) -> bytes:
    return seal_fence(owner, NOON)


def append_as(
    log: Log, owner: ShardFence, records: bytes, expected_offset: int, *, leader_epoch: int = 1
) -> AppendResult:
    """What a leader does with an owner's batch."""
    batch = check_owned(owner, expected_offset, records, log.config)
    return find_repeated(log, batch) or append_owned(log, batch, leader_epoch, NOON)


def take(log: Log, owner: ShardFence) -> int:
    """The owner takes the shard; the offset that comes next."""
    return append_as(log, owner, fence_batch(owner), log.log_end_offset).last_offset + 1
