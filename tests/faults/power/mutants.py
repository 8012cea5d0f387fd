"""The rules at the seams of log, cleaner, elections and transactions, broken on purpose in brokers.

Each takes one mend out. Those that a cleaner's worker keeps are in `worker_mutants`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from tests.faults.power.worker_mutants import WORKER_MUTANTS
from tests.faults.put_in_place import put_in_place

from ottla_broker.machines.offsets import HighWatermark, LastStableOffset
from ottla_broker.machines.producers import Producers
from ottla_broker.replication.replica_state import ReplicaState


def _ended_transactions_kept_by_followers() -> None:
    """A leader alone forgets the transactions that every replica knows the end of."""
    forget = ReplicaState._forget_ended_transactions

    def forget_as_leader(self: ReplicaState) -> None:
        if getattr(self, "_leader", None) is not None:
            forget(self)

    put_in_place(ReplicaState, "_forget_ended_transactions", forget_as_leader)


def _last_stable_offset_below_the_log_start() -> None:
    """Where the log begins is not looked at."""
    last_stable_offset = Producers.last_stable_offset

    def of_transactions(self: Producers, log_start_offset: int, high_watermark: HighWatermark) -> LastStableOffset:
        return last_stable_offset(self, 0, high_watermark)

    put_in_place(Producers, "last_stable_offset", of_transactions)


MUTANTS: Final = MappingProxyType[str, Callable[[], None]](
    {
        "none": lambda: None,
        "ended-transactions-kept-by-followers": _ended_transactions_kept_by_followers,
        "last-stable-offset-below-the-log-start": _last_stable_offset_below_the_log_start,
        **dict.fromkeys(WORKER_MUTANTS, lambda: None),
    }
)
