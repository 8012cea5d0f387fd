"""This copier keeps the source's offsets, so a group resumes in the copy at its own offset, without translation.

A producer can't choose offsets, so a block is imported (ADR 0018): the target's leader appends it only if the copy ends
where the block begins, or has it already. That comparison makes a repeat harmless, so each record is in the copy once,
without a transaction: by compare and append, as with a shard's log. Markers and aborted records are not copied and
leave gaps.

It assumes that nothing else writes to the copy. A copy can have only one source, and a topic that is recreated in the
source can't go on in the same copy, because its offsets begin again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import ottla
from ottla.connect import BatchReader, FetchedBatches
from ottla_core.clock import Clock
from ottla_core.errors import ErrorCode
from ottla_core.model import TopicPartition
from ottla_mirror.clusters.member import Member
from ottla_mirror.clusters.writer import Writer
from ottla_mirror.copying.copier import SETTLE_S, Copier, Starting
from ottla_mirror.copying.importer import Import, Importer, Imports, conflict
from ottla_mirror.machines.copying import KeptBlock, kept
from ottla_mirror.machines.progress import CopiedPartition


class SameOffsetsCopier(Copier):
    """Like Copier, but `target` imports into the copies, and `writer` writes the flow's offset syncs alone."""

    def __init__(
        self,
        reader: BatchReader,
        writer: Writer,
        member: Member,
        syncs: str,
        clock: Clock,
        start: Starting,
        target: ottla.Admin,
    ) -> None:
        super().__init__(reader, writer, member, syncs, clock, start)
        self._imports: Final = Imports(target)
        self._importers: Final[dict[CopiedPartition, Importer]] = {}

    def close(self) -> None:
        """End the importers' threads."""
        for partition in list(self._importers):
            self._forget(partition)
        self._imports.close()

    def give_up(self, sources: Iterable[TopicPartition], *, lost: bool = False) -> None:
        super().give_up(sources, lost=lost)
        held = set(self.partitions.values())
        for partition in [partition for partition in self._importers if partition not in held]:
            self._forget(partition)

    def _fetch(self, timeout: float) -> FetchedBatches | None:
        # What waits to be imported is bounded in bytes, so reading waits for the target (I13).
        return super()._fetch(timeout) if self._imports.wait_for_room(timeout) else None

    def _read(self, partition: CopiedPartition) -> None:
        importer = self._importers.get(partition)
        # The copy was created again. Blocks that wait are about offsets of the former one.
        if importer is not None and importer.generation != partition.generation:
            self._forget(partition)
        super()._read(partition)

    def _send(self, partition: CopiedPartition, fetched: FetchedBatches) -> None:
        former = partition.sent_position
        if former is not None and former.topic_id != fetched.topic_id:
            raise conflict(partition, f"{partition.source.topic} was deleted and recreated in the source")
        batches = tuple(kept(fetched))
        self._under_way[partition] = None
        if batches:
            # The source's log begins within its first batch. The copy gets the whole batch, and the same log start.
            begins_within = former is None and fetched.offset > batches[0].base_offset
            waiting = Import(KeptBlock(batches), fetched.offset if begins_within else None)
            self._importer(partition).add(waiting)
            partition.send(fetched, waiting.block, waiting)
        # Before the first record the copy has no end, so a position behind markers alone could not be resumed from.
        if batches or former is not None:
            partition.end(fetched)

    def _await_target(self) -> None:
        if not self._imports.wait_until_done(SETTLE_S):
            raise ottla.TimeoutError(ErrorCode.REQUEST_TIMED_OUT, f"imports did not finish within {SETTLE_S:g} s")
        super()._await_target()

    def _importer(self, partition: CopiedPartition) -> Importer:
        if partition not in self._importers:
            self._importers[partition] = Importer(partition, self._imports)
        return self._importers[partition]

    def _forget(self, partition: CopiedPartition) -> None:
        importer = self._importers.pop(partition, None)
        if importer is not None:
            importer.clear()
