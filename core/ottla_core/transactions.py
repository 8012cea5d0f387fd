"""The rules of transactions that partitions and groups' shards share: their versions, and which markers they take.

    a marker                                            is
      of a lower coordinator epoch than one before      TRANSACTION_COORDINATOR_FENCED
      of a lower epoch than the producer's              INVALID_PRODUCER_EPOCH
      of the same epoch, a transaction is open          written; INVALID_PRODUCER_EPOCH where markers raise epochs (v2)
      of the same epoch, none is open                   a repeat; before v2 in the same coordinator epoch only
      any other                                         written: its epoch fences what is still on its way

Rule 36; KIP-890, KAFKA-19446, KAFKA-19999.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError

TRANSACTIONS_V1: Final = 1
"""Brokers verify that clients have added a partition to the transaction."""
TRANSACTIONS_V2: Final = 2
"""Brokers and group-coordinators add it themselves, and each end raises the producer's epoch (KIP-890)."""


class ProducerEpochs(NamedTuple):
    """The epoch of a producer, and the highest epoch of the coordinators that sent its markers. They are -1 before the
    first."""

    producer: int
    coordinator: int = -1


def is_repeated_marker(
    known: ProducerEpochs, marker: ProducerEpochs, producer_id: int, *, is_open: bool, raises_epochs: bool
) -> bool:
    """Return whether the marker is there already, by what is `known` of its producer. If not, it has to be written.

    `raises_epochs` says that it is of transactions v2. Raises TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH.
    """
    if marker.coordinator < known.coordinator:
        raise OttlaError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"a marker for producer {producer_id} has coordinator epoch {marker.coordinator}, but an earlier marker "
            f"had coordinator epoch {known.coordinator}",
            hint="another txn-coordinator now owns the shard; step down",
        )
    is_same = marker.producer == known.producer
    if marker.producer < known.producer or (is_same and is_open and raises_epochs):
        raise OttlaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"a marker for producer {producer_id} has epoch {marker.producer}, but the producer's known epoch is "
            f"{known.producer}",
            hint="the marker belongs to a transaction that has ended",
        )
    return is_same and not is_open and (raises_epochs or marker.coordinator == known.coordinator)
