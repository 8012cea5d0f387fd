"""This copier writes records to the target in transactions, together with their positions in the source.

Records and their position must become visible together, or a mirror that dies in between copies records twice. A
transaction of the target does that: it covers the copied records, the offset syncs and the group's positions. If it
commits, all of them count. If not, none does, and the records are read again. If another mirror has been assigned a
partition in the meantime, the group has a later generation, so a late commit fails (KIP-447).

Transactions cost a fixed time each, so a round is what was fetched within moments, of any partitions. Its length
follows the backlog: it lasts as long as the last round's end took, so that half of the time goes into copying, and up
to half a second while the reader has more in hand.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import ottla
from ottla.connect import FetchedBatches
from ottla_mirror.copying.copier import Copier, note_failure
from ottla_mirror.copying.position_commits import to_commit
from ottla_mirror.machines.progress import CopiedPartition
from ottla_mirror.machines.stages import Event

logger = logging.getLogger("ottla.mirror")

_ROUND_S: Final = 0.5
_ROUND_BYTES: Final = 16 * 1024 * 1024
# Together less than TRANSACTION_S, so that a slow flush ends before the target aborts the transaction.
_FLUSH_S: Final = 10.0
_SYNCS_S: Final = 1.0


class ExactlyOnceCopier(Copier):
    """Like Copier, but its writer has a transactional id."""

    _reading_failed = False
    _not_read: tuple[CopiedPartition, ottla.OttlaError] | None = None
    """The partition that the reader could not read during the round, and why."""
    _end_s = 0.0
    """The end of the last round took this long: until the target had all of it and its transaction was committed."""
    _end_began_at = 0.0

    def step(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for something, then copy a round. Raises like Copier, and if it is not known
        whether the round was committed."""
        self._try_again()
        fetched = self._fetch(timeout)
        # The transaction begins with the first block, so that an idle flow has none open that blocks readers.
        if fetched is None:
            return
        copied: dict[CopiedPartition, None] = {}
        transaction = self._writer.transaction()
        try:
            with transaction:
                self._copy(fetched, copied)
        except ottla.OttlaError as error:
            # Without an abort it is not known whether the round counts, and after a failed reader it is not known which
            # blocks were lost. In both cases the flow starts over from the committed positions.
            if not transaction.aborted or self._reading_failed:
                raise
            logger.warning("the transaction was aborted; copying its records again: %s", error)
            self._go_back(copied)
        else:
            self._end_s = self._clock.monotonic() - self._end_began_at
            self._under_way.clear()
            for partition in copied:
                partition.complete()
                partition.committed, partition.failures = partition.position, 0
        if self._not_read is not None:
            self._on_unreadable(*self._not_read)
            self._not_read = None

    def _copy(self, fetched: FetchedBatches | None, copied: dict[CopiedPartition, None]) -> None:
        began_at, size_bytes = self._clock.monotonic(), 0
        while fetched is not None:
            partition = self.partitions.get(fetched.partition)
            if partition is not None:
                copied[partition] = None
                partition.error = ""
                try:
                    self._send(partition, fetched)
                except ottla.TransactionAborted:
                    _prepare(copied)  # it raises the cause, which may be in another partition
                    raise
                except ottla.OttlaError as error:
                    note_failure(partition, error)
                    raise
            size_bytes += len(fetched.records)
            past_s = self._clock.monotonic() - began_at
            is_full = past_s >= _ROUND_S or size_bytes >= _ROUND_BYTES
            fetched = None if is_full else self._read_on(max(0.0, min(self._end_s, _ROUND_S) - past_s))
        self._end_began_at = self._clock.monotonic()
        # The positions are computed from acknowledged batches only, so everything is flushed before.
        try:
            self._writer.flush(_FLUSH_S)
        except ottla.TimeoutError as error:
            for partition in copied:
                if partition.is_waiting:
                    note_failure(partition, error)
            raise
        _prepare(copied)
        # The commit itself would wait for them as long as the producer tries to deliver, which is a day.
        left_s = self._end_began_at + _FLUSH_S - self._clock.monotonic()
        self._commits.write_syncs(copied, max(_SYNCS_S, left_s))
        offsets = {p.copy: to_commit(p.prepared.position) for p in copied if p.prepared.position}
        self._writer.send_offsets(offsets, self._member)

    def _read_on(self, timeout: float) -> FetchedBatches | None:
        """Poll the reader. If it fails, the blocks in its hands are lost, and everything is read again from the
        committed positions. If it can't read one partition, the round ends here."""
        self._reading_failed = True
        fetched = None
        try:
            fetched = self._reader.poll(timeout)
        except ottla.OttlaError as error:
            if (partition := self._unreadable(error)) is None:
                raise
            self._not_read = partition, error
        self._reading_failed = False
        return fetched

    def _go_back(self, copied: Iterable[CopiedPartition]) -> None:
        """Read all of a round again. Partitions that could not be copied wait longer than the rest."""
        self._under_way.clear()
        for partition in copied:
            partition.go_back()
            if partition.error:
                self._on(Event.FAILED, partition)
            else:
                self._read(partition)


def _prepare(copied: Iterable[CopiedPartition]) -> None:
    """Count what the target has acknowledged. Raises the failure, which is noted for the partitions that caused it, not
    for those that only failed with the transaction."""
    failed = dict[CopiedPartition, ottla.OttlaError]()
    for partition in copied:
        try:
            partition.prepare()
        except ottla.OttlaError as error:
            failed[partition] = error
    causes = {p: cause for p, cause in failed.items() if not isinstance(cause, ottla.TransactionAborted)}
    for partition, cause in causes.items():
        note_failure(partition, cause)
    for cause in (causes or failed).values():
        raise cause
