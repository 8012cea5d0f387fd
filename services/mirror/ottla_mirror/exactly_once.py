"""Copies the same by transactions in the target: records, and where their source's reading goes on, in one.

A round is what was fetched within moments, of whichever partitions. If its transaction is committed, the group has the
positions; if not, neither records nor positions count, and the same is read again. Another mirror that was given a
partition meanwhile is in a later generation of the group, so that the commit of a late one fails (KIP-447).
"""

from __future__ import annotations

import logging
from typing import Final

import ottla
from ottla.connect import FetchedBatches
from ottla_mirror.copier import Copier, to_commit
from ottla_mirror.machines.progress import CopiedPartition

logger = logging.getLogger("ottla.mirror")

_ROUND_S: Final = 0.05
_ROUND_BYTES: Final = 16 * 1024 * 1024


class ExactlyOnceCopier(Copier):
    """Like Copier; its producer has a transactional id."""

    def step(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for something, then copy a round. Raises like Copier, and where it is not known
        whether the round was committed."""
        fetched = self._reader.poll(timeout)
        if fetched is None:
            return
        copied: dict[CopiedPartition, None] = {}
        transaction = self._producer.transaction()
        try:
            with transaction:
                self._copy(fetched, copied)
        except (ottla.TransactionAborted, ottla.CommitFailedError, ottla.RetriableError) as error:
            if not transaction.aborted:
                raise
            logger.warning("a round is copied again: %s", error)
            for partition in copied:
                self._go_back(partition)
            return
        self._settle()
        for partition in copied:
            partition.committed = partition.position

    def _copy(self, fetched: FetchedBatches | None, copied: dict[CopiedPartition, None]) -> None:
        end_at, size_bytes = self._clock.monotonic() + _ROUND_S, 0
        while fetched is not None:
            partition = self.partitions.get(fetched.partition)
            if partition is not None:
                copied[partition] = None
                self._send(partition, fetched)
            size_bytes += len(fetched.records)
            left_s = end_at - self._clock.monotonic()
            fetched = self._reader.poll(left_s) if left_s > 0 and size_bytes < _ROUND_BYTES else None
        offsets = {partition.copy: to_commit(partition, partition.sent[-1].position) for partition in copied}
        self._producer.send_offsets_to_transaction(offsets, self._member)

    def _go_back(self, partition: CopiedPartition) -> None:
        partition.start_over()
        self._under_way.pop(partition, None)
        self._read(partition)

    def _commit(self) -> None:
        """Nothing: each round's transaction has."""
