"""Some transactions add so many topics that their records reach the largest size that a coordinator writes.

The real limit is 1 MB. After `shrink`, a transaction reaches it with a few topics of one partition each.
"""

from __future__ import annotations

from random import Random
from typing import Final

from tests.faults.put_in_place import put_in_place

import ottla_txn_coordinator.app
from ottla_txn_coordinator.machines import transaction

TOPICS: Final = tuple(f"crowd-of-transactions-{number}" for number in range(6))
_LARGEST_BATCH_BYTES: Final = 324
"""Some transactions come within a few bytes of it. Their records have 143 to 172 bytes, and 30 more for each topic."""
_END_ROOM_BYTES: Final = 60
"""The end of a transaction writes at most this much more than its last addition. Ids and names are short here."""


def shrink() -> None:
    """Have the coordinators refuse a transaction that adds more than a few topics to that of the ledger."""
    put_in_place(ottla_txn_coordinator.app, "LARGEST_BATCH_BYTES", _LARGEST_BATCH_BYTES)
    put_in_place(transaction, "LARGEST_ADDITION_BYTES", _LARGEST_BATCH_BYTES - _END_ROOM_BYTES)


def drawn(random: Random) -> list[str]:
    """Return the topics that a transaction is to add: none, a few, or all in any order."""
    return random.sample(TOPICS, random.choice((0, 0, 2, len(TOPICS))))
