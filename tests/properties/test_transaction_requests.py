"""A transactional id under requests of every kind in any order, with partitions that get markers late, twice or never.

Producers come anew, continue, are fenced, time out and repeat themselves; the coordinator changes. Each transaction has
one outcome and every partition the same, epochs never go back, and no epoch has two producers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transactions import Shard

from ottla_core.coordination.shard import Record
from ottla_core.coordination.shard import TransactionProducer as Producer
from ottla_core.errors import OttlaError
from ottla_core.model import TopicPartition
from ottla_txn_coordinator.machines.records import TransactionRecord
from ottla_txn_coordinator.machines.states import COMMITTED, ENDING, TransactionState
from ottla_txn_coordinator.machines.transaction import LAST_EPOCH, Initialized, TransactionSettings

STEPS = [
    "init", "init_again", "write", "write", "write", "end", "end", "repeat_end", "deliver", "deliver", "deliver",
    "deliver_late", "prepare", "keep", "sleep", "change_coordinator",
]  # fmt: skip
PARTITIONS = [TopicPartition("t", n) for n in range(3)]


@dataclass
class Client:
    """`held` are the producers that it has had, the newest last; `ends` the EndTxn requests that succeeded."""

    number: int
    held: list[Producer] = field(default_factory=list)
    ends: list[tuple[Producer, bool]] = field(default_factory=list)


@dataclass(frozen=True)
class Marker:
    transaction: int
    record: TransactionRecord
    partition: TopicPartition


@dataclass
class Log:
    """A partition: the highest epoch of each producer id, whose transaction is open, and how each one ended."""

    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    ended: dict[int, bool] = field(default_factory=dict)

    def append(self, producer: Producer, transaction: int) -> None:
        if producer.epoch >= self.epochs.get(producer.id, -1):
            assert self.open.setdefault(producer.id, transaction) == transaction, "two transactions as one"
            self.epochs[producer.id] = producer.epoch

    def end(self, marker: Marker) -> bool:
        """As leaders do; whether it counts as written."""
        producer, epoch = marker.record.producer, self.epochs.get(marker.record.producer.id, -1)
        if producer.epoch < epoch or (
            marker.record.version == 2 and producer.id in self.open and producer.epoch == epoch
        ):
            return False
        ended = self.open.pop(producer.id, None)
        assert ended in (None, marker.transaction), "a marker has ended another transaction than its own"
        if ended is not None:
            assert self.ended.setdefault(ended, marker.record.state in COMMITTED) is (marker.record.state in COMMITTED)
        self.epochs[producer.id] = producer.epoch
        return True


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.version = self.chance.choice([0, 2, 2])
        self.clients: list[Client] = []
        self.logs = {partition: Log() for partition in PARTITIONS}
        self.transaction = 0
        self.outcomes: dict[int, bool] = {}
        self.holders: dict[Producer, int] = {}
        self.late: list[Marker] = []
        self.left: list[Marker] = []
        first_epoch = self.chance.choice([0, LAST_EPOCH - 2])
        self.shard = self._watched(Shard(TransactionSettings(two_phase_commit=True, first_epoch=first_epoch)))

    def _watched(self, shard: Shard) -> Shard:
        plain = shard.apply

        def apply(record: Record) -> None:
            before = shard.machine.record("x")
            plain(record)
            after = shard.record()
            if before is not None:
                self._on_change(before, after)

        shard.apply = apply  # type: ignore[method-assign]  # to see every change
        return shard.load()

    def _on_change(self, before: TransactionRecord, after: TransactionRecord) -> None:
        assert after.producer >= before.producer, "an epoch, or an id, goes back"
        if after.state is TransactionState.ONGOING and before.state is not TransactionState.ONGOING:
            self.transaction += 1
        if before.state in ENDING:
            assert after.state.value == before.state.value.replace("Prepare", "Complete"), "a decision is taken back"
        elif after.state in ENDING:
            assert self.outcomes.setdefault(self.transaction, after.state in COMMITTED) is (after.state in COMMITTED)
            assert not before.prepared or after.producer.epoch == before.producer.epoch + (self.version == 2)
            self.left = [Marker(self.transaction, after, partition) for partition in after.partitions]

    def _given(self, client: Client, response: Any) -> None:
        if isinstance(response, Producer):
            assert self.holders.setdefault(response, client.number) == client.number, "an epoch with two producers"
            assert response.epoch <= LAST_EPOCH
            client.held.append(response)

    def _client(self) -> Client:
        """Mostly the last one that came; the others are zombies."""
        return self.clients[-1] if self.chance.random() < 0.7 else self.chance.choice(self.clients)

    # ---- steps ------------------------------------------------------------------------------------------------------

    def init(self, *, keeps: bool = False) -> None:
        client = Client(len(self.clients))
        response = self.shard.init(keeps=keeps)
        if isinstance(response, Initialized):
            assert response.kept == self.shard.record().producer
            response = response.producer
        if isinstance(response, Producer):
            self.clients.append(client)
            self._given(client, response)

    def init_again(self) -> None:
        client = self._client()
        self._given(client, self.shard.init(self.chance.choice(client.held[-2:])))

    def write(self) -> None:
        """A leader asks before the first batch of a transaction, and later ones go in without."""
        client, partition = self._client(), self.chance.choice(PARTITIONS)
        producer, log = client.held[-1], self.logs[partition]
        if producer.id in log.open and log.epochs[producer.id] == producer.epoch:
            return
        if self.version == 0:
            self.shard.add(producer, partition, version=0)
            outcome = self.shard.verify(producer, partition)
            is_in = not isinstance(outcome, OttlaError) and outcome == [None]
        else:
            is_in = self.shard.add(producer, partition) is None
        if is_in:
            log.append(producer, self.transaction)

    def end(self) -> None:
        client = self._client()
        request, before = (client.held[-1], self.chance.random() < 0.5), self.shard.record()
        response = self.shard.end(*request, self.version)
        if before.state is TransactionState.ONGOING and self.shard.record() != before:
            assert request[0] == before.holder, "who has kept it, or come before, ends it"
        if isinstance(response, Producer):
            client.ends.append(request)
        self._given(client, response)

    def repeat_end(self) -> None:
        client = self._client()
        if client.ends:
            before, outcomes = self.transaction, dict(self.outcomes)
            self._given(client, self.shard.end(*self.chance.choice(client.ends[-3:]), self.version))
            if self.version == 2:
                assert (before, outcomes) == (self.transaction, self.outcomes), "a repeat has ended another transaction"

    def keep(self) -> None:
        self.init(keeps=True)

    def prepare(self) -> None:
        if self.chance.random() < 0.3:
            self.shard.prepare(self._client().held[-1])

    def deliver(self) -> None:
        if self.left:
            marker = self.left.pop(self.chance.randrange(len(self.left)))
            assert self.logs[marker.partition].end(marker), "a marker of the transaction that ends is refused"
            if self.version == 2:
                self.late.append(marker)
            if not self.left:
                self.shard.complete()

    def deliver_late(self) -> None:
        if self.late:
            self.logs[(marker := self.chance.choice(self.late)).partition].end(marker)

    def sleep(self) -> None:
        self.shard.sleep(self.chance.choice([1, 30, 61]))

    def change_coordinator(self) -> None:
        former = self.shard
        self.shard = Shard(former.settings, former.log)
        self.shard.at, self.shard.ids = former.at + self.chance.choice([0, 10, 100]), former.ids
        before = former.machine.record("x")
        self._watched(self.shard)
        assert self.shard.machine.record("x") == before
        if self.shard.to_end:
            record = self.shard.record()
            self.left = [Marker(self.transaction, record, partition) for partition in record.partitions]

    def play(self, steps: int) -> None:
        self.init()
        for _ in range(steps):
            getattr(self, self.chance.choice(STEPS))()
        while self.left:
            self.deliver()
        for log in self.logs.values():
            for transaction, committed in log.ended.items():
                assert self.outcomes[transaction] is committed, "a transaction is torn"
            open_now = [self.transaction] if self.shard.record().state is TransactionState.ONGOING else []
            assert all(transaction in open_now for transaction in log.open.values()), "a transaction hangs"


@pytest.mark.rule(33)
@pytest.mark.rule(35)
@pytest.mark.rule(40)
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_each_transaction_has_one_outcome_everywhere(seed: int) -> None:
    World(seed).play(120)
