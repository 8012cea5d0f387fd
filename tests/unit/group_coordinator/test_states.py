"""The table of a group's states is what its procedures do: no more, and no less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from groups import WAITS, Shard

from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.offsets import decide_delete_group
from ottla_group_coordinator.machines.states import INITIAL, NEXT, GroupState, GroupStateEvent


class Watched:
    """Every change of any group's state, with the event that it is said to come from."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rows: set[tuple[GroupState, GroupStateEvent, GroupState]] = set()
        self.unannounced: set[tuple[GroupState, GroupState]] = set()
        self._announced = False
        plain_set, plain_move = Group.__setattr__, Group.move

        def set_attribute(group: Group, name: str, value: Any) -> None:
            if name == "state" and hasattr(group, "state") and not self._announced:
                self.unannounced.add((group.state, value))
            plain_set(group, name, value)

        def move(group: Group, event: GroupStateEvent) -> None:
            before, self._announced = group.state, True
            plain_move(group, event)
            self._announced = False
            self.rows.add((before, event, group.state))

        patch.setattr(Group, "__setattr__", set_attribute)
        patch.setattr(Group, "move", move)


def requests() -> Iterator[tuple[str, Callable[[Shard], object]]]:
    """What may happen to a group of at most two members, one of which is static."""
    yield "new", lambda shard: len(shard.group().members) < 2 and shard.join()
    yield (
        "static",
        lambda shard: len(shard.group().members) < 2 and shard.join(instance_id="i", member_id_required=True),
    )
    yield "given an id", lambda shard: not shard.group().pending and shard.join(member_id_required=True)
    for n in range(2):
        yield f"{n} again", lambda shard, n=n: of(shard, n, lambda m, i: shard.join(m, instance_id=i))
        yield f"{n} syncs", lambda shard, n=n: of(shard, n, lambda m, i: sync(shard, m, i))
        yield f"{n} leaves", lambda shard, n=n: of(shard, n, lambda m, i: shard.leave(m))
        yield f"{n} falls silent", lambda shard, n=n: of(shard, n, lambda m, i: silence(shard, m))
    yield "time", lambda shard: shard.sleep(61)
    yield "delete", delete


def of(shard: Shard, n: int, act: Callable[[str, str | None], object]) -> object:
    members = list(shard.group().members.values())
    return act(members[n].member_id, members[n].instance_id) if n < len(members) else None


def sync(shard: Shard, member_id: str, instance_id: str | None) -> object:
    group = shard.group()
    assignments = dict.fromkeys(group.members, b"x") if member_id == group.leader else None
    key = f"sync-{len(shard.answers)}-{shard.at}-{member_id}-{object()}"
    return shard.sync(member_id, group.generation, assignments, instance_id=instance_id, key=key)


def silence(shard: Shard, member_id: str) -> object:
    """The others send heartbeats for as long as it is silent."""
    for _ in range(3):
        for other in list(shard.group().members.values()):
            if other.member_id != member_id:
                shard.heartbeat(other.member_id, shard.group().generation, other.instance_id)
        shard.sleep(4)
    return None


def delete(shard: Shard) -> object:
    return shard._try(lambda: decide_delete_group(shard.machine.group("g"), ()))


def situation(shard: Shard) -> tuple[Any, ...]:
    group = shard.group()
    members = [
        (m.instance_id, m.joining is not None, m.syncing is not None, m.member_id in group.unsynced, bool(m.assignment))
        for m in group.members.values()
    ]
    leads = [group.leader == member_id for member_id in group.members]
    waits = group.initial_delay_until is not None
    return group.state, tuple(members), tuple(leads), len(group.pending), waits, group.generation > 0


def played(path: tuple[Callable[[Shard], object], ...], delay_ms: int) -> Shard:
    shard = Shard(GroupSettings(initial_rebalance_delay_ms=delay_ms))
    for request in path:
        request(shard)
    return shard


@pytest.mark.parametrize("delay_ms", [0, 3_000])
def test_each_change_of_state_is_a_row_and_each_row_is_taken(delay_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    happens = [request for _, request in requests()]
    seen = {situation(played((), delay_ms))}
    paths: list[tuple[Callable[[Shard], object], ...]] = [()]
    while paths:
        paths, former = [], paths
        for path in former:
            for request in happens:
                shard = played((*path, request), delay_ms)
                if (now := situation(shard)) not in seen:
                    seen.add(now)
                    paths.append((*path, request))
    assert {state for state, *_ in seen} == set(GroupState) - {GroupState.DEAD}
    assert not watched.unannounced, "a state is changed by the table alone"
    removed = {(GroupState.EMPTY, GroupStateEvent.REMOVED, GroupState.DEAD)}  # then there is no group that could move
    assert watched.rows | removed == {(state, event, after) for (state, event), after in NEXT.items()}


@pytest.mark.parametrize("state", GroupState)
def test_a_group_is_removed_where_the_table_says_so(state: GroupState) -> None:
    shard = Shard(GroupSettings(initial_rebalance_delay_ms=0))
    shard.join()
    if state is GroupState.PREPARING_REBALANCE:
        shard.sync("m1", 1, {"m1": b""})
        shard.join()
    elif state is GroupState.STABLE:
        shard.sync("m1", 1, {"m1": b""})
    elif state in (GroupState.EMPTY, GroupState.DEAD):
        shard.leave("m1")
    if state is GroupState.DEAD:
        delete(shard)
        assert not list(shard.machine.groups())
        assert delete(shard).code == 69, "GROUP_ID_NOT_FOUND"  # type: ignore[attr-defined]  # either response has it
        return
    assert shard.group().state is state
    delete(shard)
    assert bool(list(shard.machine.groups())) is ((state, GroupStateEvent.REMOVED) not in NEXT)


def test_a_load_gives_one_of_the_initial_states() -> None:
    shard = Shard(GroupSettings(initial_rebalance_delay_ms=0))
    found = {shard.group().state}
    assert shard.join() is WAITS
    found.add(shard.reloaded().group().state)
    shard.sync("m1", 1, {"m1": b""})
    found.add(shard.reloaded().group().state)
    shard.join()
    found.add(shard.reloaded().group().state)
    assert found == set(INITIAL.values())
