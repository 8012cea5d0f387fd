"""One partition as this broker holds it: its log, who leads it, and what a client may do with it.

The leader appends and answers; anybody else says NOT_LEADER_OR_FOLLOWER and leaves it to the client to look again. A
client that knows another leader epoch is told which side is behind (rule 5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla_broker.storage.log import Appended, Log
from ottla_broker.storage.reading import FoundOffset
from ottla_broker.waiters import Waiters
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId


class Replica:
    def __init__(
        self,
        partition_id: PartitionId,
        topic: str,
        broker_id: int,
        log: Log,
        waiters: Waiters,
        now_ms: Callable[[], int],
        on_disk_failure: Callable[[OttlaError], None],
    ) -> None:
        self.id: Final = partition_id
        self.topic: Final = topic
        self.log: Final = log
        self._broker_id: Final = broker_id
        self._waiters = waiters
        self._now_ms = now_ms
        self._leads = False
        self._leader_epoch = -1
        self._on_disk_failure = on_disk_failure
        self._flushing: asyncio.Task[None] | None = None

    @property
    def leader_epoch(self) -> int:
        return self._leader_epoch

    @property
    def high_watermark(self) -> int:
        """What every in-sync replica has: everything, while there is one replica."""
        return self.log.log_end_offset

    def on_partition(self, partition: Partition) -> None:
        """What the controller decided. A lower leader epoch is an old story, told late (rule C10)."""
        if partition.leader_epoch < self._leader_epoch:
            return
        leads = partition.leader == self._broker_id
        if leads and (not self._leads or partition.leader_epoch > self._leader_epoch):
            self.log.assign_epoch(partition.leader_epoch)  # before anything is appended in it (rule 4)
        if (leads, partition.leader_epoch) != (self._leads, self._leader_epoch):
            self._leads, self._leader_epoch = leads, partition.leader_epoch
            self._waiters.wake(self.id)

    def check_leader(self, known_epoch: int | None) -> None:
        """Raise unless this broker leads in the epoch that the client knows (KIP-320)."""
        if known_epoch is not None and known_epoch > self._leader_epoch:
            raise OttlaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self} is at leader epoch {self._leader_epoch} here, the client knows {known_epoch}",
                hint="this broker's metadata is behind; try again",
            )
        if known_epoch is not None and known_epoch < self._leader_epoch:
            raise OttlaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"{self} is at leader epoch {self._leader_epoch}, the client knows {known_epoch}",
                hint="refresh the metadata",
            )
        if not self._leads:
            raise OttlaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self}", hint="refresh the metadata"
            )

    def append(self, records: bytes) -> Appended:
        """Check, give offsets, write; without a yield (I1). Raises what `Log.append` raises."""
        now_ms = self._now_ms()
        with self._watching_the_disk():
            done = self.log.append(records, self._leader_epoch, now_ms)
        self._waiters.on_append(self.id, done.size_bytes)
        if self.log.is_flush_due(now_ms):
            self.start_flush()
        return done

    @property
    def must_flush(self) -> bool:
        """Whether flush.messages wants what was appended on the platter before it is acknowledged."""
        return self.log.log_end_offset - self.log.recovery_point >= self.log.config.flush_messages

    async def flushed(self) -> None:
        """Return once what is appended now is on the platter. Who asks while a flush runs shares the next one."""
        end = self.log.log_end_offset
        while self.log.recovery_point < end:
            await asyncio.shield(self.start_flush())

    def start_flush(self) -> asyncio.Task[None]:
        """The flush that runs, or a new one."""
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush(), name=f"flush-{self}")
        return self._flushing

    async def _flush(self) -> None:
        with self._watching_the_disk():
            await asyncio.to_thread(self.log.flush, self._now_ms())

    @contextmanager
    def _watching_the_disk(self) -> Iterator[None]:
        """Report a disk that has failed for good; a full one, or a log that was closed meanwhile, ends nothing."""
        try:
            yield
        except OttlaError as error:
            if self.log.is_offline:
                self._on_disk_failure(error)
            raise

    async def read(self, offset: int, max_bytes: int, *, min_one_batch: bool) -> bytes:
        """Whole batches from `offset` on, below the high watermark (I5). A cold read waits in a thread.

        Raises OFFSET_OUT_OF_RANGE outside [log start, high watermark].
        """
        limit = self.high_watermark
        with self._watching_the_disk():
            hot = self.log.read_hot(offset, max_bytes, limit, min_one_batch=min_one_batch)
            if hot is not None:
                return hot
            return await asyncio.to_thread(self.log.read, offset, max_bytes, limit, min_one_batch=min_one_batch)

    async def offset_for_time(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record at or after `timestamp_ms`, or what Kafka's -1, -2, -3 ask for; None where there is none."""
        return await asyncio.to_thread(self.log.offset_for_time, timestamp_ms, self.high_watermark)

    async def delete_records(self, before_offset: int) -> int:
        """Make everything below `before_offset` (-1: the high watermark) unreadable; the new log start offset."""
        self.log.delete_records_before(
            self.high_watermark if before_offset == -1 else before_offset, self.high_watermark
        )
        self._waiters.wake(self.id)
        return self.log.log_start_offset

    def __str__(self) -> str:
        return f"{self.topic}-{self.id.partition}"
