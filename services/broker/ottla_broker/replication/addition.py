"""An AddPartitionsToTxn on its way through this broker, as far as it names partitions that this broker leads.

The leader of a partition verifies the first batch of a transaction by a call to the txn-coordinator (KIP-890). If the
addition itself passes through the leader, its response tells the same, and the call is saved (`machines.guards`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla_broker.machines.guards import AddedBy, VerificationGuards
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_core.errors import ErrorCode
from ottla_core.model import PartitionId, TopicPartition


class PassingAddition:
    """It begins before the coordinator is asked, and ends with the coordinator's response."""

    def __init__(self, table: ReplicaTable, added_by: AddedBy) -> None:
        self._table: Final = table
        self._added_by: Final = added_by
        self._guards: Final[dict[TopicPartition, tuple[VerificationGuards, object]]] = {}

    def begin(self, partition: TopicPartition, partition_id: PartitionId | None) -> None:
        """Begin for one partition, whose id is None if the topic is unknown."""
        replica = None if partition_id is None else self._table.get(partition_id)
        if replica is not None and replica.leads:
            guard = replica.guards.begin_addition(self._added_by.producer_id)
            if guard is not None:
                self._guards[partition] = replica.guards, guard

    def end(self, codes: Mapping[TopicPartition, int]) -> None:
        """Take in the coordinator's error codes. A partition without one was not added."""
        for partition, (guards, guard) in self._guards.items():
            guards.end_addition(self._added_by, guard, succeeded=codes.get(partition) == ErrorCode.NONE)
