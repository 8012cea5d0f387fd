"""A transaction that is decided, and the partitions that have no marker of it yet."""

from __future__ import annotations

import asyncio
from typing import Final

from ottla_core.model import TopicPartition
from ottla_core.rpc.retry import Backoff
from ottla_txn_coordinator.machines.records import TransactionRecord

_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0


class Ending:
    """A decided transaction. `shard` was owned under `epoch` when it was decided. Once it is not, the ending `is_over`,
    and the next owner sends the markers."""

    __slots__ = (
        "backoff",
        "began_at",
        "completing",
        "epoch",
        "is_over",
        "left",
        "paused",
        "record",
        "shard",
        "transactional_id",
    )

    def __init__(self, shard: int, epoch: int, transactional_id: str, record: TransactionRecord) -> None:
        self.shard: Final = shard
        self.epoch: Final = epoch
        self.transactional_id: Final = transactional_id
        self.record: Final = record
        self.left: Final = set(record.partitions)
        self.began_at: Final = asyncio.get_running_loop().time()
        self.paused: list[TopicPartition] = []
        """These partitions are tried again after a pause."""
        self.backoff: Final = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        self.is_over = False
        self.completing: Final = asyncio.Event()
        """It is set once later decisions find the transaction complete, or once it `is_over` for another reason."""

    def give_up(self) -> None:
        self.is_over = True
        self.completing.set()
