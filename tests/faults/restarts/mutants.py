"""Each mutant breaks one rule of a service or a client on purpose, and the row must find it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tests.faults.put_in_place import put_in_place

import ottla_broker.kafka.forwarding.coordinator_calls
import ottla_broker.kafka.handlers.list_groups
import ottla_txn_coordinator.machines.shard
from ottla.admin.transactions import Transactions
from ottla.app.attempts import Attempts
from ottla.client.coordinators import Coordinators
from ottla.machines.round_pace import RoundPace
from ottla_core.coordination.shard import ShardDecision
from ottla_core.errors import OttlaError
from ottla_group_coordinator.service import GroupService

_CLIENTS: Final = "tests.faults.restarts"
_PAUSE_S: Final = 0.2
"""Between two brokers, so that a shard may move after one was asked and before the other is."""


class Mutant(NamedTuple):
    """A mutant is what breaks a rule, and the modules whose processes it breaks."""

    modules: Sequence[str]
    plant: Callable[[], None]


def _union_not_demanded(pause_s: float = _PAUSE_S) -> None:
    """The SDK lists what the brokers name, one after another, and doesn't check that every shard is among them."""

    def listed(self: Any, asked: Any, *, timeout: float) -> Any:
        def ask(address: str, left_s: float) -> Any:
            time.sleep(pause_s)
            return self._cluster.exchange(address, asked, timeout=left_s)

        def once(left_s: float) -> Any:
            return [ask(address, left_s) for address in self.all(timeout=left_s)]

        return self.retrying(once, timeout=timeout)

    put_in_place(Coordinators, "listed", listed)


def _shards_named_while_they_load() -> None:
    """A coordinator names a shard that it is still reading, as if nothing were in it."""
    of_shard = GroupService._listed

    async def as_if_empty(self: Any, shard: int) -> Any:
        found = await of_shard(self, shard)
        return [] if isinstance(found, OttlaError) else found

    put_in_place(GroupService, "_listed", as_if_empty)


def _kafka_lists_what_answers() -> None:
    """A broker lists the groups of those coordinators that answer, whatever they name."""

    async def list_all(backend: Any, kind: str, method: Any, request: Any) -> Any:
        _, responses = await ottla_broker.kafka.forwarding.coordinator_calls._list_once(backend, kind, method, request)
        return 0, responses

    put_in_place(ottla_broker.kafka.handlers.list_groups, "list_all", list_all)


def _hanging_if_not_listed() -> None:
    """A transaction that no coordinator lists is called hanging at once, without a second look."""
    _union_not_demanded(pause_s=0.0)

    def open_in(self: Any, topic: str, partition: int | None = None, *, timeout: Any = None) -> Any:
        numbers = None if partition is None else [partition]
        opened = self._opened(topic, numbers, self._channel.deadline(timeout))
        return tuple(opened[number] for number in sorted(opened))

    put_in_place(Transactions, "open_in", open_in)


def _failed_attempts_count() -> None:
    """What a failed attempt has sent stays in its round."""
    on_failed = Attempts._on_failed

    async def stay(self: Any, job: Any, error: Any, has_sent: bool) -> Any:
        return await on_failed(self, job, error, False)

    put_in_place(Attempts, "_on_failed", stay)


def _attempts_forgotten() -> None:
    """The attempts of an aborted round's records are forgotten, so no attempt is ever the last one."""
    end_round = Attempts.end_round

    def forget(self: Any, committed: Any) -> None:
        end_round(self, committed)
        self.failed.clear()

    put_in_place(Attempts, "end_round", forget)


def _rounds_without_end() -> None:
    """A round reads without a limit, however long its handlers take."""
    put_in_place(RoundPace, "room", lambda self, now, unfinished: 1_000_000)
    put_in_place(RoundPace, "is_over", lambda self, now: False)
    put_in_place(RoundPace, "end", lambda self, now, *, committed: False)


def _transactions_without_timeout() -> None:
    """A transaction stays open for as long as its producer is away."""
    put_in_place(ottla_txn_coordinator.machines.shard, "decide_timeout", lambda caught, now: ShardDecision(None))


TRUSTING: Final = "number-is-enough"
"""The query breaks this rule itself (--trusting), because a mutant of `launch` would not reach Spark's workers."""

_APP: Final = (f"{_CLIENTS}.application",)
MUTANTS: Final[Mapping[str, Mutant]] = MappingProxyType(
    {
        "union-not-demanded": Mutant([f"{_CLIENTS}.listings"], _union_not_demanded),
        "shards-named-while-they-load": Mutant(["ottla_group_coordinator"], _shards_named_while_they_load),
        "kafka-lists-what-answers": Mutant(["ottla_broker"], _kafka_lists_what_answers),
        "hanging-if-not-listed": Mutant([f"{_CLIENTS}.administrator"], _hanging_if_not_listed),
        TRUSTING: Mutant([], lambda: None),
        "failed-attempts-count": Mutant(_APP, _failed_attempts_count),
        "attempts-forgotten": Mutant(_APP, _attempts_forgotten),
        "rounds-without-end": Mutant(_APP, _rounds_without_end),
        "transactions-without-timeout": Mutant(["ottla_txn_coordinator"], _transactions_without_timeout),
    }
)
