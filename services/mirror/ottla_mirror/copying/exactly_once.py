"""Copies the same by transactions in the target: records, and where their source's reading goes on, in one.

A round is what was fetched within moments, of whichever partitions. Its length follows the backlog: it goes on for as
long as the last round's end took, so that half of the time goes into copying, and for up to half a second while the
reader has more in hand. If its transaction is committed, the group has the positions, and the offset syncs where the
records lie; if not, none of that counts, and the same is read again. Another mirror that was given a partition
meanwhile is in a later generation of the group, so that the commit of a late one fails (KIP-447).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import ottla
from ottla_mirror.clusters.cluster import FetchedBlock
from ottla_mirror.copying.copier import Copier, note_failure, to_commit
from ottla_mirror.machines.progress import CopiedPartition
from ottla_mirror.machines.stages import Event

logger = logging.getLogger("ottla.mirror")

_ROUND_S: Final = 0.5
_ROUND_BYTES: Final = 16 * 1024 * 1024
_FLUSH_S: Final = 10.0


class ExactlyOnceCopier(Copier):
    """Like Copier; its writer has a transactional id."""

    _reading_failed = False
    _end_s = 0.0
    """How long the end of the last round took: until the target had all of it, and its transaction was committed."""
    _end_began_at = 0.0

    def step(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for something, then copy a round. Raises like Copier, and where it is not known
        whether the round was committed."""
        self._try_again()
        fetched = self._reader.poll(timeout)
        if fetched is None:
            return
        copied: dict[CopiedPartition, None] = {}
        transaction = self._writer.transaction()
        try:
            with transaction:
                self._copy(fetched, copied)
        except ottla.OttlaError as error:
            if not transaction.aborted or self._reading_failed:
                raise
            logger.warning("a round is copied again: %s", error)
            self._go_back(copied)
            return
        self._end_s = self._clock.monotonic() - self._end_began_at
        self._under_way.clear()
        for partition in copied:
            partition.complete()
            partition.committed, partition.failures = partition.position, 0

    def _copy(self, fetched: FetchedBlock | None, copied: dict[CopiedPartition, None]) -> None:
        began_at, size_bytes = self._clock.monotonic(), 0
        while fetched is not None:
            partition = self.partitions.get(fetched.partition)
            if partition is not None:
                copied[partition] = None
                partition.error = ""
                with _blaming(partition):
                    self._send(partition, fetched)
            size_bytes += len(fetched.records)
            past_s = self._clock.monotonic() - began_at
            is_full = past_s >= _ROUND_S or size_bytes >= _ROUND_BYTES
            fetched = None if is_full else self._read_on(max(0.0, min(self._end_s, _ROUND_S) - past_s))
        self._end_began_at = self._clock.monotonic()
        self._writer.flush(_FLUSH_S)
        for partition in copied:
            with _blaming(partition):
                partition.prepare()
        self._send_syncs(copied)
        offsets = {p.copy: to_commit(p.prepared.position) for p in copied if p.prepared.position}
        self._writer.send_offsets(offsets, self._member)

    def _read_on(self, timeout: float) -> FetchedBlock | None:
        """What the reader had in hand when it failed is lost to it: all is read again, from what was committed."""
        self._reading_failed = True
        fetched = self._reader.poll(timeout)
        self._reading_failed = False
        return fetched

    def _go_back(self, copied: Iterable[CopiedPartition]) -> None:
        """All of a round is read again; what could not be copied, later than the rest."""
        self._under_way.clear()
        for partition in copied:
            partition.go_back()
            if partition.error:
                self._on(Event.FAILED, partition)
            else:
                self._read(partition)

    def _commit(self) -> None:
        """Nothing: each round's transaction has."""


@contextmanager
def _blaming(partition: CopiedPartition) -> Iterator[None]:
    try:
        yield
    except ottla.OttlaError as error:
        note_failure(partition, error)
        raise
