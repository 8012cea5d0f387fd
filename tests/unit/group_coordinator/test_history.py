"""What has happened in groups is kept for explanations, and takes a bounded number of bytes."""

from __future__ import annotations

import tracemalloc

import pytest
from groups import Shard

from ottla_core.coordination.shard import Entry
from ottla_group_coordinator.machines.history import KEPT, Happened, History, HistoryEvent, Kind
from ottla_group_coordinator.machines.membership import CallerIdentity, decide_leave
from ottla_group_coordinator.machines.records import GroupKey, encode_key


def event(n: int, cause: str = "client left") -> HistoryEvent:
    return HistoryEvent(n, Kind.LEFT, cause, n, f"member-{n}", client_id=f"client-{n}", client_host="10.0.0.1")


def test_a_group_has_its_last_events() -> None:
    history = History()
    for n in range(KEPT + 10):
        history.add(Happened("g", (event(n),)))
    assert [each.at_ms for each in history.of("g")] == list(range(10, KEPT + 10))
    history.forget("g")
    assert history.of("g") == ()
    assert history._size_bytes == 0


@pytest.mark.story("group-history-without-a-bound")
def test_the_groups_of_a_shard_share_a_number_of_bytes() -> None:
    history = History()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for n in range(KEPT):
            for group in range(200):
                history.add(Happened(f"group-{group}", (event(n, f"rolled out {group}-{n}"),)))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used <= 1.5 * 2**20
    assert history.of("group-199"), "what happened last is there"
    for n in range(KEPT):
        history.add(Happened("group-0", (event(n, "x" * 10_000),)))
    assert history.of("group-199") == (), "what rests for longest goes first"
    assert len(history.of("group-0")) == KEPT


def test_one_group_that_says_much_keeps_what_it_said_last() -> None:
    history = History()
    history.add(Happened("g", tuple(event(n, "x" * 2**20) for n in range(2))))
    assert len(history.of("g")) == 2


def test_what_clients_say_is_shortened(shard: Shard) -> None:
    _, other = shard.stable(2)
    shard.take(decide_leave(shard.group(), [(CallerIdentity(other), "y" * 10_000)], shard.settings, shard.now))
    assert max(len(each.cause) for each in shard.events()) == 200


def test_a_deleted_group_has_no_history(shard: Shard) -> None:
    shard.stable(1)
    assert shard.events()
    shard.apply(Entry(encode_key(GroupKey("g")), None))
    assert shard.events() == ()


@pytest.fixture
def shard() -> Shard:
    return Shard()
