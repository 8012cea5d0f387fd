"""A shard of transactional ids without a log: what is decided holds at once, and time is a number."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ottla_core.coordination.shard import Record, ShardDecision, TransactionProducer
from ottla_core.coordination.timers import Moment, Timers
from ottla_core.errors import OttlaError
from ottla_core.model import TopicPartition
from ottla_txn_coordinator.machines.history import Caller
from ottla_txn_coordinator.machines.records import TransactionRecord
from ottla_txn_coordinator.machines.shard import TransactionShard
from ottla_txn_coordinator.machines.transaction import (
    NEEDS_ID,
    Caught,
    End,
    Init,
    Initialized,
    SendMarkers,
    TransactionSettings,
    decide_add,
    decide_complete,
    decide_end,
    decide_forget,
    decide_init,
    decide_prepare,
    decide_verify,
)

WALL_MS = 1_700_000_000_000
TWO_PHASES = TransactionSettings(two_phase_commit=True)
A, B = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST_ID = 1_000
Producer = TransactionProducer


class Shard:
    """Calls give the response, or the error that it is. `to_end` are the transactions whose markers are to be sent."""

    def __init__(self, settings: TransactionSettings | None = None, log: list[Record] | None = None) -> None:
        self.settings = settings or TWO_PHASES
        self.log: list[Record] = []
        self.at = 1_000.0
        self.to_end: dict[str, TransactionRecord] = {}
        self.effects: list[Any] = []
        self.machine = TransactionShard(self.settings)
        self.ids = itertools.count(FIRST_ID)
        self.timers = Timers()
        for record in log or []:
            self.apply(record)

    def load(self) -> Shard:
        self.take(self.machine.on_loaded(self.now))
        return self

    @property
    def now(self) -> Moment:
        return Moment(self.at, WALL_MS + round(self.at * 1000))

    def reloaded(self, after_s: float = 0.0) -> Shard:
        """What another owner makes of the log, so much later."""
        other = Shard(self.settings, self.log)
        other.ids, other.at = self.ids, self.at + after_s
        return other.load()

    def apply(self, record: Record) -> None:
        self.machine.apply(record)
        self.log.append(record)

    def take(self, decided: ShardDecision[Any]) -> Any:
        for entry in decided.records:
            self.apply(entry)
        for change in decided.memory:
            self.machine.remember(change)
        for key, at in decided.timers.items():
            self.timers.set(key, at)
        for effect in decided.effects:
            self.effects.append(effect)
            if isinstance(effect, SendMarkers):
                self.to_end[effect.transactional_id] = effect.record
        return decided.response

    def sleep(self, seconds: float) -> None:
        until = self.at + seconds
        while self.timers.next_at <= until:
            self.at = max(self.at, self.timers.next_at)
            self.take(self.machine.on_timer(self.timers.pop_due(self.at), self.now))
        self.at = until

    def record(self, name: str = "x") -> TransactionRecord:
        record = self.machine.record(name)
        assert record is not None
        return record

    def init(self, producer: Producer | None = None, name: str = "x", client: str = "app", **more: Any) -> Any:
        """The producer; Initialized where it keeps a transaction."""
        request = Init(more.pop("timeout_ms", 60_000), producer, **more)
        response = self._with_id(
            lambda id_: decide_init(self.caught(name, client), request, self.settings, self.now, id_),
        )
        return response.producer if isinstance(response, Initialized) and response.kept is None else response

    def add(self, producer: Producer, *partitions: TopicPartition, version: int = 2, name: str = "x") -> Any:
        return self._try(lambda: decide_add(self.caught(name), producer, partitions or (A,), version, self.now))

    def verify(self, producer: Producer, *partitions: TopicPartition, name: str = "x") -> Any:
        return self._try(lambda: decide_verify(self.caught(name), producer, partitions or (A,), by_last_proof=False))

    def end(self, producer: Producer, committed: bool = True, version: int = 2, name: str = "x") -> Any:
        request = End(producer, committed, version)
        return self._with_id(lambda id_: decide_end(self.caught(name), request, self.now, id_))

    def prepare(self, producer: Producer, name: str = "x") -> Any:
        return self._try(lambda: decide_prepare(self.caught(name), producer, self.settings, self.now))

    def forget(self, producer: Producer, name: str = "x") -> Any:
        return self._try(lambda: decide_forget(self.caught(name), producer, self.settings))

    def complete(self, name: str = "x") -> None:
        """All markers are written."""
        self.take(decide_complete(self.caught(name), self.to_end.pop(name), self.now))

    def caught(self, name: str = "x", client: str = "app") -> Caught:
        return self.machine.caught(name, Caller(client, "host"))

    def _with_id(self, decide: Callable[[int | None], ShardDecision[Any]]) -> Any:
        response = self._try(lambda: decide(None))
        return self._try(lambda: decide(next(self.ids))) if response is NEEDS_ID else response

    def _try(self, decide: Callable[[], ShardDecision[Any]]) -> Any:
        try:
            return self.take(decide())
        except OttlaError as error:
            return error

    def ended(self, producer: Producer, committed: bool = True, version: int = 2) -> Any:
        """A whole transaction; the producer of the next."""
        assert self.add(producer, version=version) is None
        after = self.end(producer, committed, version)
        self.complete()
        return after


def name_of(response: Any) -> str:
    assert isinstance(response, OttlaError), response
    return response.name
