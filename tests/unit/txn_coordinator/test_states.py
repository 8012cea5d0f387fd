"""The table of a transactional id's states is what its decisions do: no more, and no less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from transactions import A, B, Shard

from ottla_txn_coordinator.machines import transaction
from ottla_txn_coordinator.machines.records import TransactionRecord
from ottla_txn_coordinator.machines.shard import TransactionShard
from ottla_txn_coordinator.machines.states import NEXT, TransactionEvent, TransactionState
from ottla_txn_coordinator.machines.transaction import TransactionSettings

pytestmark = [pytest.mark.rule(35)]

SETTINGS = TransactionSettings(two_phase_commit=True, id_expiration_ms=120_000, expiry_check_s=10)
Request = Callable[[Shard], Any]


class Watched(dict[Any, Any]):
    """The table, and which of its rows were taken."""

    def __init__(self) -> None:
        super().__init__(NEXT)
        self.taken: set[tuple[TransactionState, TransactionEvent]] = set()

    def __getitem__(self, row: tuple[TransactionState, TransactionEvent]) -> TransactionState:
        self.taken.add(row)
        return NEXT[row]


def requests() -> Iterator[Request]:
    yield lambda shard: shard.init()
    yield lambda shard: shard.init(keeps=True)
    for version in (0, 2):
        for committed in (True, False):
            yield lambda shard, v=version, c=committed: of(shard, lambda p: shard.end(p, c, v))
        yield lambda shard, v=version: of(shard, lambda p: shard.add(p, version=v))
    yield lambda shard: of(shard, lambda p: shard.init(p))
    yield lambda shard: of(shard, lambda p: shard.add(p, B))
    yield lambda shard: of(shard, shard.verify)
    yield lambda shard: of(shard, shard.prepare)
    yield lambda shard: of(shard, shard.forget)
    yield lambda shard: shard.to_end and shard.complete()
    yield lambda shard: shard.sleep(61)
    yield lambda shard: shard.sleep(300)


def of(shard: Shard, act: Callable[[Any], Any]) -> Any:
    record = shard.machine.record("x")
    return None if record is None else act(record.holder)


def situation(shard: Shard) -> tuple[Any, ...]:
    record = shard.machine.record("x")
    if record is None:
        return (None,)
    return (
        record.state,
        record.partitions,
        record.prepared,
        record.version,
        record.former_epoch >= 0,
        record.next is None,
    )


def played(path: tuple[Request, ...]) -> Shard:
    shard = Shard(SETTINGS).load()
    for request in path:
        request(shard)
    return shard


def test_each_change_of_state_is_a_row_and_each_row_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    monkeypatch.setattr(transaction, "NEXT", watched)
    changes: set[tuple[TransactionState, TransactionState]] = set()
    put = TransactionShard._put

    def watched_put(shard: TransactionShard, transactional_id: str, record: TransactionRecord) -> None:
        if (before := shard.record(transactional_id)) is not None:
            changes.add((before.state, record.state))
        put(shard, transactional_id, record)

    monkeypatch.setattr(TransactionShard, "_put", watched_put)
    seen = {situation(played(()))}
    paths: list[tuple[Request, ...]] = [()]
    while paths:
        paths, former = [], paths
        for path in former:
            for request in requests():
                shard = played((*path, request))
                if (now := situation(shard)) not in seen:
                    seen.add(now)
                    paths.append((*path, request))
    assert {state for state, *_ in seen} == {None, *TransactionState} - {TransactionState.DEAD}
    assert changes == {(state, after) for (state, _), after in NEXT.items()} - {
        (state, TransactionState.DEAD) for state in TransactionState
    }
    removed = {row for row in NEXT if row[1] is TransactionEvent.REMOVED}  # then there is nothing that could move
    assert watched.taken | removed == set(NEXT)


def reached(state: TransactionState) -> Shard:
    shard = Shard(SETTINGS).load()
    producer = shard.init()
    if state is TransactionState.EMPTY:
        return shard
    shard.add(producer, A)
    if state is not TransactionState.ONGOING:
        shard.end(producer, state.value.endswith("Commit"))
    if state.value.startswith("Complete"):
        shard.complete()
    return shard


@pytest.mark.parametrize("state", [state for state in TransactionState if state is not TransactionState.DEAD])
def test_an_id_is_removed_where_the_table_says_so(state: TransactionState) -> None:
    removals: list[Request] = [lambda shard: of(shard, shard.forget), lambda shard: shard.sleep(45)]
    for remove in removals:
        shard = reached(state)
        shard.settings = shard.machine.settings = TransactionSettings(
            two_phase_commit=True, id_expiration_ms=30_000, expiry_check_s=10
        )
        assert shard.record().state is state
        remove(shard)
        assert (shard.machine.record("x") is None) is ((state, TransactionEvent.REMOVED) in NEXT)
