"""One partition's sequence numbers, and what the outcome of one batch implies for the others (KIP-98, KIP-360).

A broker accepts a batch of a producer only if its first sequence follows the broker's last one in the same epoch, or is
0 in a higher epoch. This leads to the rules that this file owns:

* A batch is stamped when it leaves for the first time and keeps its stamp, by which the broker recognizes a retry. The
  parts of a batch that is split share its sequences.
* A broker remembers the offsets of the last BATCHES_REMEMBERED batches. So that it remembers every outstanding batch
  (stamped, with an unknown outcome), no more than this number leave from the oldest outstanding one on, including
  settled ones in between.
* After a failure no batch leaves until all batches in flight have come back; then all of them leave again, in order.
  OUT_OF_ORDER_SEQUENCE_NUMBER is therefore expected while an older batch is outstanding.
* A batch that finally fails may be in the log or not, and no new batch is stamped until that is known. If the youngest
  batch is acknowledged, all before it are in the log. If the oldest outstanding batch is out of order, the log has a
  gap, and no outstanding batch is in the log. If all have failed, the state remains unknown.
* After a gap a new epoch begins, in which outstanding batches are stamped again from 0. No stamp is ever used for two
  batches.
* The epochs of a transactional producer belong to its transactions (machines/transaction.py), not to this file.
* A broker that does not know a producer accepts any sequence, even the second batch before the first. The first batch
  of an epoch is therefore sent alone, and so is the first batch after a pause in which the broker may have forgotten
  the producer. This does not apply to transactions: each has a new epoch, in which a broker accepts only sequence 0
  first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ottla_core.records.batch import NO_PRODUCER_ID

BATCHES_REMEMBERED: Final = 5
"""Rule 25; in Kafka's producer MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION_FOR_IDEMPOTENCE."""

_SEQUENCES: Final = 1 << 31  # after the last of them comes 0 (rule 26)
_LAST_EPOCH: Final = 2**15 - 1
_REMEMBERED_S: Final = 600.0
"""Far less than a broker's producer.id.expiration.ms, a day by default."""


class Stamp(NamedTuple):
    """The stamp that makes a batch unique in its partition; `sequence` is the sequence of its first record."""

    producer_id: int
    epoch: int
    sequence: int


NO_STAMP: Final = Stamp(NO_PRODUCER_ID, -1, -1)


class Stamped(Protocol):
    """The view of a batch that this file needs."""

    count: int
    stamp: Stamp

    def stamp_with(self, stamp: Stamp) -> None: ...


class EpochOwner(Protocol):
    """The current identity of a producer in all partitions: its id and epoch."""

    @property
    def producer(self) -> tuple[int, int]: ...


class Sequences:
    """The sequences of one producer in one partition. `now` is in monotonic seconds.

    `outstanding` has the batches that are stamped and not settled, in order. While `halted`, no batch leaves before
    `resume`, which is called once no batch is in flight. `surprised` means that the broker unexpectedly does not know
    the producer or its sequence, which is reported once.
    """

    __slots__ = (
        "_acked_at",
        "_doubt",
        "_epoch",
        "_gap",
        "_next",
        "_producer_id",
        "_recent",
        "halted",
        "outstanding",
        "surprised",
    )

    def __init__(self) -> None:
        self.outstanding: list[Stamped] = []
        self.halted = True
        self.surprised = False
        self._producer_id = NO_PRODUCER_ID
        self._epoch = -1
        self._next = 0
        self._recent: list[Stamped] = []  # what was stamped from the oldest outstanding batch on
        self._acked_at = float("-inf")
        self._doubt = False  # a batch failed for good, and may be in the log
        self._gap = False  # the log lacks what would come before those that are outstanding

    # ---- out ---------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> bool:
        """Whether the next batch begins at 0 in any case, so these numbers can be forgotten."""
        return False

    @property
    def in_transaction(self) -> bool:
        """Whether the open transaction has sent a batch to this partition."""
        return False

    def resume(self, producer_id: int) -> bool:
        """Resume while no batch is in flight; return False if a producer id other than the given one is needed."""
        if self._doubt and not self.outstanding:
            self._gap = True
        if self._gap and not self._begin_epoch(producer_id):
            return False
        if self._producer_id == NO_PRODUCER_ID and not self._begin(producer_id):
            return False
        self.halted = False
        return True

    def may_leave(self, batch: Stamped, in_flight: int, now: float) -> bool:
        """Return whether `batch`, the oldest that is not in flight, may follow the `in_flight` ones."""
        if self.halted or (in_flight and self._may_be_forgotten(now)):
            return False
        if batch.stamp is NO_STAMP:
            return len(self._recent) < BATCHES_REMEMBERED and not self._doubt
        return self._recent.index(batch) < BATCHES_REMEMBERED

    def _may_be_forgotten(self, now: float) -> bool:
        """Return whether the broker may have forgotten this producer, and would accept any sequence."""
        return now - self._acked_at >= _REMEMBERED_S

    def stamp(self, batch: Stamped) -> None:
        """Stamp `batch`, which leaves for the first time or again."""
        if batch.stamp is NO_STAMP:
            self._stamp_next(batch)
            self.outstanding.append(batch)
            self._recent.append(batch)

    def _stamp_next(self, batch: Stamped) -> None:
        batch.stamp_with(Stamp(self._producer_id, self._epoch, self._next))
        self._next = (self._next + batch.count) % _SEQUENCES

    def _begin(self, producer_id: int) -> bool:
        if producer_id in (NO_PRODUCER_ID, self._producer_id):
            return False
        self._producer_id, self._epoch, self._next = producer_id, 0, 0
        return True

    def _begin_epoch(self, producer_id: int) -> bool:
        if self._epoch < _LAST_EPOCH:
            self._epoch, self._next = self._epoch + 1, 0
        elif not self._begin(producer_id):
            return False
        self._gap = self._doubt = False
        self._acked_at = float("-inf")
        for batch in self.outstanding:
            self._stamp_next(batch)
        self._recent = list(self.outstanding)
        return True

    # ---- back --------------------------------------------------------------------------------------------------

    def on_acknowledged(self, batch: Stamped, now: float) -> None:
        """The batch is in the log."""
        self._settle(batch)
        self._acked_at = now
        if (batch.stamp.sequence + batch.count) % _SEQUENCES == self._next:
            self._doubt = False  # it is the youngest of all
        self.halted = self.halted or (self._doubt and not self.outstanding)

    def on_failure(self) -> None:
        """Note that a batch came back and has to leave again."""
        self.halted = True

    def on_out_of_order(self, batch: Stamped) -> None:
        """Handle a batch that the broker rejected for its sequence, or because it does not know the producer."""
        self.halted = True
        if self.is_oldest(batch) and not self._gap:
            self._gap = True
            self.surprised = not self._doubt

    def on_split(self, batch: Stamped, parts: Sequence[Stamped]) -> None:
        """Handle a batch whose parts leave in its place and share its sequences."""
        self.halted = True
        sequence = batch.stamp.sequence
        for part in parts:
            part.stamp_with(batch.stamp._replace(sequence=sequence))
            sequence = (sequence + part.count) % _SEQUENCES
        for batches in (self.outstanding, self._recent):
            at = batches.index(batch)
            batches[at : at + 1] = parts

    def place(self, batch: Stamped) -> int:
        """Return a number that is larger for a batch that was stamped later. Both have no outcome yet."""
        return (batch.stamp.sequence - self.outstanding[0].stamp.sequence) % _SEQUENCES

    def is_oldest(self, batch: Stamped) -> bool:
        """Return whether every batch before this one is settled."""
        return self.outstanding[0] is batch

    def on_new_log(self) -> None:
        """Note that the topic was recreated: the broker does not know this producer in the new partition."""
        self._acked_at = float("-inf")

    def on_failed_for_good(self, batch: Stamped) -> None:
        """The batch failed for good."""
        self._settle(batch)
        self.halted = self._doubt = True

    def on_fenced(self) -> None:
        """Handle a higher epoch on the broker: another producer has this producer id, so a new id is needed."""
        self.halted = self._gap = self.surprised = True
        self._epoch = _LAST_EPOCH

    def _settle(self, batch: Stamped) -> None:
        self.outstanding.remove(batch)
        oldest = self.outstanding[0] if self.outstanding else None
        while self._recent and self._recent[0] is not oldest:
            del self._recent[0]


class OwnedSequences(Sequences):
    """Sequences within the epochs of an owner. Each epoch begins at 0, with no outstanding batch of the last epoch.

    After a gap (`broken`), no batch leaves before the next epoch.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: EpochOwner) -> None:
        super().__init__()
        self._owner: Final = owner

    @property
    def broken(self) -> bool:
        """Whether the log lacks batches that would come before the outstanding ones."""
        return self._gap and self._owner.producer == (self._producer_id, self._epoch)

    @property
    def spent(self) -> bool:
        """Whether sequences begin at 0, as in each new epoch of the owner."""
        return self._producer_id == NO_PRODUCER_ID or self._owner.producer != (self._producer_id, self._epoch)

    @property
    def in_transaction(self) -> bool:
        """Whether the open transaction has sent a batch here; each transaction has its own epoch."""
        return not self.spent

    def resume(self, producer_id: int) -> bool:
        """Resume while no batch is in flight; no other producer id is ever needed."""
        self.halted = self._gap
        return True

    def may_leave(self, batch: Stamped, in_flight: int, now: float) -> bool:
        """Like `Sequences.may_leave`, in the owner's epoch."""
        if self._owner.producer != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = self._owner.producer
            self.outstanding, self._recent, self._next = [], [], 0
            self._gap = self._doubt = self.halted = False
        return super().may_leave(batch, in_flight, now)

    def _may_be_forgotten(self, now: float) -> bool:
        """Return False: even a broker that has forgotten the producer accepts only 0 first in a transaction's epoch."""
        return False

    def on_out_of_order(self, batch: Stamped) -> None:
        """Like `Sequences.on_out_of_order`, but the owner reports it."""
        super().on_out_of_order(batch)
        self.surprised = False

    def on_fenced(self) -> None:
        """The epoch is over."""
        self.halted = self._gap = True
