"""Features: what protocols may do beyond the versions of single APIs, at a level that all brokers have (KIP-584).

`eligible.leader.replicas.version` 1: the controller remembers, for each partition, the replicas that left the ISR and
still have every committed record (KIP-966), and DescribeTopicPartitions names them. Here it always does so.

`group.version` 1: groups may speak the consumer protocol (KIP-848). Java's clients look for it before they do.

`transaction.version` 2: brokers add partitions to transactions, and each end raises the producer's epoch (KIP-890).
Clients of this version look for it here. Without it they would use Produce 12, TxnOffsetCommit 5 and EndTxn 5 as
before.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Feature(NamedTuple):
    name: str
    least: int
    most: int
    finalized: int


FEATURES: Final = (
    Feature("eligible.leader.replicas.version", 0, 1, finalized=1),
    Feature("group.version", 0, 1, finalized=1),
    Feature("transaction.version", 0, 2, finalized=2),
)
"""Every release serves one level of each feature, so levels change only when brokers are replaced."""
