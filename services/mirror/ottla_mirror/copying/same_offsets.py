"""Copies at the offsets that records have in the source: a group goes on in the copy where it is, without translation.

A block is imported (ADR 0018): the target's leader appends it if the copy ends where it is to go on, or has it already.
So a repeat changes nothing, and each record is there once, without a transaction; and only one source can be in a copy.
Markers and aborted records leave gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import ottla
from ottla_core.clock import Clock
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_mirror.clusters.cluster import FetchedBlock, Member, Reader, Writer
from ottla_mirror.copying.copier import Copier
from ottla_mirror.machines.copying import KeptBatch, kept
from ottla_mirror.machines.progress import CopiedPartition, Placed

_MOST_BATCHES: Final = 1000
"""Of one import."""

_IMPORT_S: Final = 5.0


class SameOffsetsCopier(Copier):
    """Like Copier; `target` imports into the copies, and `writer` writes the flow's offset syncs alone."""

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        member: Member,
        syncs: str,
        clock: Clock,
        target: ottla.Admin,
    ) -> None:
        super().__init__(reader, writer, member, syncs, clock)
        self._target: Final = target
        self._ends: dict[CopiedPartition, int] = {}
        """Where copies end that this mirror has written to."""

    def give_up(self, sources: Iterable[TopicPartition], *, lost: bool = False) -> None:
        super().give_up(sources, lost=lost)
        self._ends = {
            partition: self._ends[partition] for partition in self.partitions.values() if partition in self._ends
        }

    def _read(self, partition: CopiedPartition) -> None:
        """After a conflict the copy may have been deleted and made anew: it is begun anew, whatever is committed."""
        if partition.error and self._is_empty(partition):
            partition.begin_anew()
            self._ends.pop(partition, None)
        super()._read(partition)

    def _is_empty(self, partition: CopiedPartition) -> bool:
        """Whether nothing has ever been written to its copy, as far as known."""
        try:
            return self._end_of_copy(partition) == 0
        except (OttlaError, KeyError):  # it has gone, or the target is away: it is tried again
            return False

    def _send(self, partition: CopiedPartition, fetched: FetchedBlock) -> None:
        former = partition.position
        if former is not None and former.topic_id != fetched.topic_id:
            raise _conflict(partition, f"{partition.source.topic} was made anew in the source")
        batches = list(kept(fetched))
        for first in range(0, len(batches), _MOST_BATCHES):
            self._import(partition, batches[first : first + _MOST_BATCHES])
        if batches and former is None and fetched.offset > batches[0].base_offset:  # the source's log begins within it
            self._target.topics.delete_records(partition.copy.topic, {partition.copy.partition: fetched.offset})
        self._under_way[partition] = None
        for batch in batches:
            partition.send(fetched, batch, Placed(*batch.runs))
        partition.end(fetched)

    def _import(self, partition: CopiedPartition, batches: Sequence[KeptBatch]) -> None:
        """All of them, in as many requests as it takes. What is there already is compared."""
        end, left = self._ends.get(partition), list(batches)
        if end is None:  # a predecessor has got that far, but for a gap
            end = 0 if partition.position is None else partition.position.offset
        while left:
            try:
                end = self._import_at(partition, min(end, left[0].base_offset), left)
            except OttlaError as error:
                if error.code != ErrorCode.OFFSET_MISMATCH:
                    raise
                end = self._end_after_mismatch(partition, end, left)
            left = [batch for batch in left if batch.next_offset > end]
        self._ends[partition] = end

    def _end_after_mismatch(self, partition: CopiedPartition, end: int, left: Sequence[KeptBatch]) -> int:
        """Where the copy ends in truth, if it can go on from there with what is left. Raises OFFSET_MISMATCH."""
        found, base_offset = self._end_of_copy(partition), left[0].base_offset
        is_resumed = partition not in self._ends and partition.position is not None
        between = not any(batch.base_offset < found < batch.next_offset for batch in left)
        goes_on = 0 < found <= base_offset or (between and self._is_compacted(partition.copy.topic))
        if found == min(end, base_offset) or not (is_resumed and goes_on):
            reason = f"other records end there at offset {found}" if found else "it was emptied"
            raise _conflict(partition, reason)
        return found

    def _end_of_copy(self, partition: CopiedPartition) -> int:
        return self._target.topics.offsets(partition.copy.topic)[partition.copy.partition] or 0

    def _is_compacted(self, copy: str) -> bool:
        """What a predecessor has imported and not committed may have been cleaned in the source since, and differ."""
        return "compact" in str(self._target.configs.get(topic=copy)["cleanup.policy"].value)

    def _import_at(self, partition: CopiedPartition, end: int, batches: Sequence[KeptBatch]) -> int:
        return self._target.partitions.import_records(
            *partition.copy,
            b"".join(batch.data for batch in batches),
            expected_offset=end,
            log_start_offset=0 if end else batches[0].base_offset,
            timeout=_IMPORT_S,
        )


def _conflict(partition: CopiedPartition, reason: str) -> OttlaError:
    return OttlaError(
        ErrorCode.OFFSET_MISMATCH,
        f"{partition.copy} can't have the offsets of {partition.source}: {reason}",
        hint=f"delete {partition.copy.topic}, and all of it is copied again",
    )
