"""Transactions in a partition: what is kept of them, how far readers come, the order of their first batches."""

from __future__ import annotations

from typing import Any

from tests.regressions.injection import instead_of
from tests.regressions.story import Story


def _forgets_while_it_leads(original: Any, self: Any) -> None:
    if self.leads:
        original(self)


def _from_the_first_offset(original: Any, self: Any, log_start_offset: int, high_watermark: int) -> Any:
    return original(self, 0, high_watermark)


STORIES = (
    Story(
        "followers-kept-every-transaction",
        "A follower kept every transaction that had ended in its partition, in memory and in each of its snapshots",
        instead_of(
            "ottla_broker.replication.replica_state:ReplicaState._forget_ended_transactions", _forgets_while_it_leads
        ),
    ),
    Story(
        "last-stable-offset-before-the-log",
        "Records were deleted beyond the start of an open transaction: readers of committed records skipped records",
        instead_of("ottla_broker.machines.producers:Producers.last_stable_offset", _from_the_first_offset),
    ),
)
