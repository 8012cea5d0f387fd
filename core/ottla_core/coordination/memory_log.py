"""The shards' log in memory, for tests and for coordinators without brokers.

It has one leader that is never deposed, and no followers. Appends count at once, or after `hold` when `commit` is
called. The comparisons are the broker's (docs/design/shards.md). One suite of tests runs over this log and over real
brokers.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from ottla_core.coordination.shard_log import (
    Append,
    Appended,
    Batches,
    Call,
    Check,
    Confirmed,
    Fenced,
    Mismatch,
    Read,
    Result,
    Unknown,
)
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import BatchHeader, headers_at, placed_prefix, read_header
from ottla_core.records.fence import ShardFence, fence_of

_READ_BYTES: Final = 1 << 16


@dataclass(slots=True)
class _Partition:
    batches: dict[int, bytes] = field(default_factory=dict)  # by their base offsets, which only grow
    end: int = 0
    high_watermark: int = 0
    fence: ShardFence | None = None
    fence_offset: int = -1
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class MemoryShardLog:
    """`calls` are all that were carried out. `script` are results that the next calls get, in their order, instead of
    being carried out. None in it means that the call is carried out, and its answer is lost."""

    def __init__(self) -> None:
        self.calls: Final[list[Call]] = []
        self.script: Final[list[Result | None]] = []
        self._partitions: defaultdict[int, _Partition] = defaultdict(_Partition)
        self._held = False

    async def call(self, shard: int, owner: ShardFence, call: Call, *, timeout_s: float) -> Result:
        scripted = self.script.pop(0) if self.script else call
        if not isinstance(scripted, Call | None):
            return scripted
        self.calls.append(call)
        result = self.carry_out(shard, owner, call)
        if isinstance(result, Appended):
            assert isinstance(call, Append)
            end = headers_at(call.batches, result.base_offset)[-1].next_offset
            result = await self._committed(self._partitions[shard], result, end, timeout_s)
        return result if scripted is call else Unknown(_timed_out())

    def hold(self) -> None:
        """Hold back all appends from now on, until `commit`."""
        self._held = True

    def commit(self) -> None:
        self._held = False
        for partition in self._partitions.values():
            partition.high_watermark = partition.end
            partition.changed.set()
            partition.changed = asyncio.Event()

    def stored(self, shard: int) -> bytes:
        """Return all that was appended, committed or not."""
        return b"".join(self._partitions[shard].batches.values())

    def carry_out(self, shard: int, owner: ShardFence, call: Call) -> Result:
        """Carry out a call at once, even while appends are held back."""
        partition = self._partitions[shard]
        match call:
            case Append(expected_offset, batches):
                return self._append(partition, owner, expected_offset, batches)
            case Check(next_offset):
                if partition.fence != owner:
                    return Fenced()
                return Confirmed() if next_offset <= partition.end else Mismatch(partition.end)
            case Read(offset):
                return self._read(partition, offset)

    def _append(self, partition: _Partition, owner: ShardFence, expected_offset: int, batches: bytes) -> Result:
        headers = headers_at(batches, expected_offset)
        fence = fence_of(batches) if len(headers) == 1 else None
        if fence is not None and partition.fence == owner:
            return Appended(partition.fence_offset, partition.high_watermark)
        if partition.fence != owner and (fence is None or (partition.fence and owner.epoch <= partition.fence.epoch)):
            return Fenced()
        if expected_offset != partition.end:
            behind_fence = fence is None and expected_offset > partition.fence_offset
            if behind_fence and all(_is_stored(partition, header) for header in headers):
                return Appended(expected_offset, partition.high_watermark)
            return Mismatch(partition.end)
        at = 0
        for header in headers:
            batch = batches[at + 16 : at + header.size_bytes]
            partition.batches[header.base_offset] = placed_prefix(header, header.base_offset, 0) + batch
            at += header.size_bytes
        partition.end = headers[-1].next_offset
        if fence is not None:
            partition.fence, partition.fence_offset = fence, expected_offset
        if not self._held:
            partition.high_watermark = partition.end
        return Appended(expected_offset, partition.high_watermark)

    async def _committed(self, partition: _Partition, appended: Appended, end: int, timeout_s: float) -> Result:
        try:
            async with asyncio.timeout(timeout_s):
                while partition.high_watermark < end:
                    await partition.changed.wait()
        except TimeoutError:
            return Unknown(_timed_out())
        return Appended(appended.base_offset, partition.high_watermark)

    def _read(self, partition: _Partition, offset: int) -> Batches:
        data = bytearray()
        for batch in partition.batches.values():
            next_offset = read_header(batch).next_offset
            if offset < next_offset <= partition.high_watermark and len(data) < _READ_BYTES:
                data += batch
        return Batches(bytes(data), partition.high_watermark)


def _is_stored(partition: _Partition, header: BatchHeader) -> bool:
    found = partition.batches.get(header.base_offset)
    return found is not None and read_header(found).crc == header.crc


def _timed_out() -> OttlaError:
    return OttlaError(ErrorCode.REQUEST_TIMED_OUT, "the log did not respond in time")
