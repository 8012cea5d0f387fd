"""One partition's sequence numbers, and what the fate of one batch says about the others (KIP-98, KIP-360).

The broker takes a batch of a producer only where its first sequence follows the last one that it has, in the same
epoch, or is 0 in a higher epoch. From that follow the rules which this file owns:

* A batch is stamped when it leaves for the first time and keeps its stamp: a retry is recognized by it.
* Of the last BATCHES_REMEMBERED batches a broker knows where they lie. So that it can answer for each outstanding one
  (stamped, and its fate not known), no more are stamped from the oldest of those on, settled ones among them included.
* After a failure nothing more leaves until everything in flight has come back; then all of it leaves again, in order.
  So OUT_OF_ORDER_SEQUENCE_NUMBER is explained as long as an older batch is outstanding.
* A batch that fails for good may lie in the log or not, and nothing new is stamped until that shows. The youngest batch
  is acknowledged: then all before it are there. The oldest outstanding one is out of order: then there is a gap, and
  none of those that are outstanding is in the log. All have failed: then it is not known.
* Behind a gap a new epoch begins: what is outstanding is stamped anew, from 0. No stamp is ever used for two batches.
* A transactional producer's epochs are not begun here: its transactions own them (machines/transaction.py).
* A broker that knows nothing of a producer takes any sequence, even the second batch before the first. So the first
  batch of an epoch goes alone, and so does one after a pause that the broker may have used to forget. A transaction's
  batches need not: its epoch is new, and a broker takes nothing of it in a partition before the sequence 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from ottla_core.records.batch import NO_PRODUCER_ID

BATCHES_REMEMBERED: Final = 5
"""Rule 25; in Kafka's producer MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION_FOR_IDEMPOTENCE."""

_SEQUENCES: Final = 1 << 31  # after the last of them comes 0 (rule 26)
_LAST_EPOCH: Final = 2**15 - 1
_REMEMBERED_S: Final = 600.0
"""Far less than a broker's producer.id.expiration.ms, a day by default."""


class Stamp(NamedTuple):
    """What makes a batch unique in its partition; `sequence` is of its first record."""

    producer_id: int
    epoch: int
    sequence: int


NO_STAMP: Final = Stamp(NO_PRODUCER_ID, -1, -1)


class Stamped(Protocol):
    """What there is to know of a batch here."""

    count: int
    stamp: Stamp

    def stamp_with(self, stamp: Stamp) -> None: ...


class EpochOwner(Protocol):
    """Who a producer is in all partitions now: its id and epoch."""

    @property
    def producer(self) -> tuple[int, int]: ...


class Sequences:
    """One partition of one producer. `now` is monotonic seconds.

    `outstanding` has what is stamped and not settled, in order. `halted`: nothing leaves before `resume`, which is
    called once nothing is in flight. `surprised`: the broker's memory is not what it should be; to be reported once.
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
        """Whether the next batch begins at 0 in any case, so that these numbers need not be remembered."""
        return False

    @property
    def in_transaction(self) -> bool:
        """Whether the transaction that is open has sent anything here."""
        return False

    def resume(self, producer_id: int) -> bool:
        """Go on, nothing being in flight; False where another `producer_id` than the last known one is needed."""
        if self._doubt and not self.outstanding:
            self._gap = True
        if self._gap and not self._begin_epoch(producer_id):
            return False
        if self._producer_id == NO_PRODUCER_ID and not self._begin(producer_id):
            return False
        self.halted = False
        return True

    def may_leave(self, batch: Stamped, in_flight: int, now: float) -> bool:
        """Whether `batch`, the oldest that is not among the `in_flight` ones, may follow them."""
        if self.halted or (in_flight and self._may_be_forgotten(now)):
            return False
        return batch.stamp is not NO_STAMP or (len(self._recent) < BATCHES_REMEMBERED and not self._doubt)

    def _may_be_forgotten(self, now: float) -> bool:
        """Return whether the broker may have forgotten this producer, and would accept any sequence."""
        return now - self._acked_at >= _REMEMBERED_S

    def stamp(self, batch: Stamped) -> None:
        """`batch` leaves, for the first time or again."""
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
        """A batch came back and is to leave again."""
        self.halted = True

    def on_out_of_order(self, batch: Stamped) -> None:
        """The broker rejected it for its sequence, or does not know the producer."""
        self.halted = True
        if batch is self.outstanding[0] and not self._gap:
            self._gap = True
            self.surprised = not self._doubt

    def on_new_log(self) -> None:
        """The partition is another one from now on, whose broker does not know this producer."""
        self._acked_at = float("-inf")

    def on_failed_for_good(self, batch: Stamped) -> None:
        """The batch failed for good."""
        self._settle(batch)
        self.halted = self._doubt = True

    def on_fenced(self) -> None:
        """The broker knows a higher epoch of this producer id: another producer has it, so another id is needed."""
        self.halted = self._gap = self.surprised = True
        self._epoch = _LAST_EPOCH

    def _settle(self, batch: Stamped) -> None:
        self.outstanding.remove(batch)
        oldest = self.outstanding[0] if self.outstanding else None
        while self._recent and self._recent[0] is not oldest:
            del self._recent[0]


class OwnedSequences(Sequences):
    """The same within the epochs of an owner: each begins at 0, and what was outstanding in the last one is settled.

    Behind a gap (`broken`) nothing leaves before the next epoch.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: EpochOwner) -> None:
        super().__init__()
        self._owner: Final = owner

    @property
    def broken(self) -> bool:
        """Whether the log lacks what would come before those that are outstanding."""
        return self._gap and self._owner.producer == (self._producer_id, self._epoch)

    @property
    def spent(self) -> bool:
        """Whether the owner has begun another epoch since, in which sequences begin at 0 again."""
        return self._owner.producer != (self._producer_id, self._epoch)

    @property
    def in_transaction(self) -> bool:
        """Whether the open transaction has sent anything here: each transaction has an epoch of its own."""
        return not self.spent

    def resume(self, producer_id: int) -> bool:
        """Go on, nothing being in flight; it needs no other id, whatever there is."""
        self.halted = self._gap
        return True

    def may_leave(self, batch: Stamped, in_flight: int, now: float) -> bool:
        """As before, in the owner's epoch."""
        if self._owner.producer != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = self._owner.producer
            self.outstanding, self._recent, self._next = [], [], 0
            self._gap = self._doubt = self.halted = False
        return super().may_leave(batch, in_flight, now)

    def _may_be_forgotten(self, now: float) -> bool:
        """Return False: even a broker that has forgotten the producer accepts only 0 first in a transaction's epoch."""
        return False

    def on_out_of_order(self, batch: Stamped) -> None:
        """As before; the owner reports it."""
        super().on_out_of_order(batch)
        self.surprised = False

    def on_fenced(self) -> None:
        """The epoch is over."""
        self.halted = self._gap = True
