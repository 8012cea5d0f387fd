"""The producers whose transactions have offsets in a shard: their epochs, which of them are open, and their guards.

The first commit of a transaction is known to belong to it only once the txn-coordinator has said so. That is another
process, so before the response comes, the transaction may end, and its marker may come first. Offsets that are written
after that would be pending for ever, or end up in the next transaction. So the question goes out under a *guard*, which
any marker of the producer destroys. Without the guard the response counts for nothing, and the coordinator is asked
again (KIP-890, rule 39). A commit into a transaction that is open here needs no question.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from weakref import WeakValueDictionary

from ottla_core.coordination.shard import Entry, Marker, ShardDecision, TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.transactions import ProducerEpochs, is_repeated_marker
from ottla_group_coordinator.machines.ended_producers import EndedProducers

_MOST_EPOCH: Final = 2**15 - 1
_MOST_COORDINATOR_EPOCH: Final = 2**31 - 1


class Guard:
    """A txn-coordinator is asked under a guard, which lasts for as long as a request holds it. `coordinator_epoch` is
    the highest of the producer's markers, or -1 without any. An owner with a lower epoch has been replaced."""

    __slots__ = ("__weakref__", "coordinator_epoch", "producer_id")

    def __init__(self, producer_id: int, coordinator_epoch: int) -> None:
        self.producer_id: Final = producer_id
        self.coordinator_epoch: Final = coordinator_epoch


class OffsetTransactions:
    """The open transactions of one shard. The shard's log has everything except the guards."""

    def __init__(self) -> None:
        self._open: Final[dict[int, ProducerEpochs]] = {}
        self._ended: Final = EndedProducers()
        self._guards: Final[WeakValueDictionary[int, Guard]] = WeakValueDictionary()

    def on_entry(self, producer: TransactionProducer) -> None:
        """Note an entry of the producer in the log, which shows that its transaction is open."""
        known = self._open.get(producer.id) or self._ended.pop(producer.id)
        self._open[producer.id] = known._replace(producer=max(known.producer, producer.epoch))

    def on_marker(self, marker: Marker) -> None:
        """Note a marker in the log."""
        producer = marker.producer
        self._guards.pop(producer.id, None)
        known = self._open.pop(producer.id, None) or self._ended.pop(producer.id)
        epochs = max(known.producer, producer.epoch), max(known.coordinator, marker.coordinator_epoch)
        self._ended.add(producer.id, ProducerEpochs(*epochs))

    def expire(self, now: float, expiration_s: float) -> None:
        """Forget the producers that have ended their last transaction long ago."""
        self._ended.expire(now, expiration_s)

    def keep(self, guard: Guard) -> None:
        self._guards[guard.producer_id] = guard

    def decide_commit(
        self, producer: TransactionProducer, commit: ShardDecision[Any], guard: Guard | None
    ) -> ShardDecision[Any]:
        """Return the offsets of `commit` as the producer's, pending from now on. If the txn-coordinator has to be asked
        first, the response is the guard for that. Raises INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS."""
        epochs = self._open.get(producer.id)
        if epochs is not None and epochs.producer < producer.epoch:
            raise OttlaError(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"a transaction of producer {producer.id}, epoch {epochs.producer}, has not ended in this shard yet",
                hint="try again",
            )
        self._check_epoch(producer)
        if not commit.records:
            return commit
        kept = self._guards.get(producer.id)
        if epochs is None and (guard is None or guard is not kept):
            kept = kept or Guard(producer.id, self._epochs(producer.id).coordinator)
            # The commit itself comes later, and is proved by its append.
            return ShardDecision(kept, memory=(kept,), timers=commit.timers, by_last_proof=True)
        records = tuple(record._replace(producer=producer) for record in commit.records if isinstance(record, Entry))
        return replace(commit, records=records)

    def decide_marker(self, marker: Marker, *, raises_epochs: bool) -> ShardDecision[None]:
        """Write a marker. `raises_epochs` says that it is of transactions v2. Raises TRANSACTION_COORDINATOR_FENCED,
        INVALID_PRODUCER_EPOCH."""
        producer = marker.producer
        is_repeat = is_repeated_marker(
            self._epochs(producer.id),
            ProducerEpochs(producer.epoch, marker.coordinator_epoch),
            producer.id,
            is_open=producer.id in self._open,
            raises_epochs=raises_epochs,
        )
        return ShardDecision(None, records=() if is_repeat else (marker,))

    def _check_epoch(self, producer: TransactionProducer) -> None:
        epoch = self._epochs(producer.id).producer
        if producer.epoch < epoch:
            raise OttlaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer.id} is at epoch {epoch}, but the request has epoch {producer.epoch}",
                hint="a newer instance of the producer has taken over, or its transaction has ended",
            )

    def _epochs(self, producer_id: int) -> ProducerEpochs:
        return self._open.get(producer_id) or self._ended.get(producer_id)


def check_producer(producer: TransactionProducer, coordinator_epoch: int = 0) -> None:
    """Raise INVALID_REQUEST for numbers that no record can hold."""
    if (
        producer.id < 0
        or not 0 <= producer.epoch <= _MOST_EPOCH
        or not 0 <= coordinator_epoch <= _MOST_COORDINATOR_EPOCH
    ):
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"producer {producer.id}, epoch {producer.epoch} and coordinator epoch {coordinator_epoch} are not all "
            "valid",
            hint="use the producer id and the epoch that InitProducer returned",
        )
