"""Transactions with offsets in the shard, and a txn-coordinator by script: it says yes for as long as a transaction is
open, decides once, and sends the marker until that is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.simulation.counters import commit_in, mark
from tests.simulation.history import History
from tests.simulation.schedule import Schedule

from ottla_core.coordination.shard import Decide, Marker, TransactionProducer
from ottla_group_coordinator.machines.transactions import Guard

KEYS: Final = (b"x", b"y")


@dataclass(eq=False)
class Step:
    """The token of a request: what is done with its response, and where it is rejected."""

    answered: Callable[[Any], None]
    rejected: Callable[[], None]


@dataclass(eq=False)
class Transaction:
    number: int
    key: bytes
    acknowledged: bool = False
    committed: bool | None = None
    ended: bool = False


class Transactions:
    """`send(decide, step)` brings a request to the owner, or to one that takes itself for it."""

    def __init__(
        self, schedule: Schedule, history: History, send: Callable[[Decide[Any], Step], None], *, guarded: bool
    ) -> None:
        self.all: Final[list[Transaction]] = []
        self._schedule: Final = schedule
        self._history: Final = history
        self._send: Final = send
        self._guarded: Final = guarded

    def begin(self) -> None:
        transaction = Transaction(len(self.all), self._schedule.random.choice(KEYS))
        self.all.append(transaction)
        self._commit(transaction, None)
        self._schedule.after(self._schedule.random.random(), self._decide, transaction)

    def _commit(self, transaction: Transaction, guard: Guard | None) -> None:
        def answered(response: Any) -> None:
            if not isinstance(response, Guard):
                transaction.acknowledged = True
            elif transaction.committed is None:  # the coordinator says yes, which may be long on its way
                delay_s = self._schedule.random.expovariate(4)
                self._schedule.after(delay_s, self._commit, transaction, response)

        def rejected() -> None:
            if transaction.committed is None:
                self._schedule.after(0.2, self._commit, transaction, None)

        producer = TransactionProducer(transaction.number, 0)
        decide = commit_in(producer, transaction.key, transaction.number, guard, guarded=self._guarded)
        self._send(decide, Step(answered, rejected))

    def _decide(self, transaction: Transaction) -> None:
        transaction.committed = transaction.acknowledged and self._schedule.one_in(0.7)
        self._history.on_decided(transaction.number, transaction.key, committed=transaction.committed)
        self._mark(transaction)

    def _mark(self, transaction: Transaction) -> None:
        def answered(response: Any) -> None:
            transaction.ended = True

        if not transaction.ended:
            marker = Marker(TransactionProducer(transaction.number, 1), bool(transaction.committed), 1)
            self._send(mark(marker), Step(answered, lambda: None))
            self._schedule.after(0.5, self._mark, transaction)
