"""A fetch over several partitions: read what is there, and park until there is enough (rules 55 to 57)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla_broker.replica import Replica
from ottla_broker.waiters import Waiters
from ottla_core.errors import OttlaError
from ottla_core.model import PartitionId

Find = Callable[[PartitionId, int | None], Replica]
"""The replica that this broker leads, or OttlaError."""


@dataclass(frozen=True, slots=True)
class FetchWant:
    """What is wanted of one partition; `leader_epoch` None is not checked."""

    id: PartitionId
    leader_epoch: int | None
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of it. `records` may begin below the wanted offset: batches are whole."""

    id: PartitionId
    records: bytes = b""
    high_watermark: int = -1
    log_start_offset: int = -1
    error: OttlaError | None = None


async def fetch(
    wants: Sequence[FetchWant], find: Find, waiters: Waiters, *, max_wait_s: float, min_bytes: int, max_bytes: int
) -> list[Fetched]:
    """Answer once `min_bytes` can be read, one partition fails or changes, or `max_wait_s` is over.

    The first batch of the reply comes whole even where it is larger than `max_bytes` (KIP-74).
    """
    fetched = await _read_all(wants, find, max_bytes)
    missing_bytes = _missing(fetched, min_bytes)
    if missing_bytes <= 0 or max_wait_s <= 0:
        return fetched
    deadline = asyncio.get_running_loop().time() + max_wait_s
    with waiters.parked((want.id for want in wants), missing_bytes) as waiter:
        while True:
            # Parked first, then a second look: what was appended during the first one is not slept over (rule 55).
            fetched = await _read_all(wants, find, max_bytes)
            missing_bytes = _missing(fetched, min_bytes)
            if missing_bytes <= 0:
                return fetched
            if not await waiter.sleep(deadline):
                return await _read_all(wants, find, max_bytes)  # what has come meanwhile, though it is not enough
            waiter.expect(missing_bytes)


def _missing(fetched: Sequence[Fetched], min_bytes: int) -> int:
    """Bytes that are still to come before the fetch is worth an answer; an error is always worth one."""
    if any(part.error is not None for part in fetched):
        return 0
    return min_bytes - sum(len(part.records) for part in fetched)


async def _read_all(wants: Sequence[FetchWant], find: Find, max_bytes: int) -> list[Fetched]:
    fetched: list[Fetched] = []
    left = max_bytes
    for want in wants:
        part = await _read(want, find, min(left, want.max_bytes), first=left == max_bytes)
        left -= len(part.records)
        fetched.append(part)
    return fetched


async def _read(want: FetchWant, find: Find, max_bytes: int, *, first: bool) -> Fetched:
    replica: Replica | None = None
    try:
        replica = find(want.id, want.leader_epoch)
        replica.check_leader(want.leader_epoch)
        records = b"" if max_bytes <= 0 else await replica.read(want.offset, max_bytes, min_one_batch=first)
    except OttlaError as error:
        if replica is None:
            return Fetched(want.id, error=error)
        return Fetched(want.id, b"", replica.high_watermark, replica.log.log_start_offset, error)
    return Fetched(want.id, records, replica.high_watermark, replica.log.log_start_offset)
