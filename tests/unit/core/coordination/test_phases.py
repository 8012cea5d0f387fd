"""The table of an owner's phases is what the owner does: no more, and no less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from batches import NOON
from owners import Book, Hand, get, put, stored

from ottla_core.coordination.batches import seal_records
from ottla_core.coordination.owner import Owner
from ottla_core.coordination.phases import NEEDS_EPOCH, NEXT_PHASE, OwnerEvent, Phase
from ottla_core.coordination.shard import Entry
from ottla_core.coordination.shard_log import Appended, Batches, Confirmed, Fenced, Mismatch, Rejected, Result, Unknown
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import seal_fence

pytestmark = [pytest.mark.rule(53), pytest.mark.rule(54)]

FINAL = OttlaError(ErrorCode.MESSAGE_TOO_LARGE, "never")
LATER = OttlaError(ErrorCode.NOT_ENOUGH_REPLICAS, "not now")

FENCE = stored(seal_fence(Hand().owner.fence, NOON), 0)
OTHER = stored(seal_records([Entry(b"k", b"v")], NOON), 0)

RESULTS: list[Result] = [
    Appended(0, 0), Appended(0, 1), Appended(1, 2), Appended(7, 8), Mismatch(0), Mismatch(5), Fenced(), Confirmed(),
    Unknown(LATER), Unknown(FINAL), Rejected(LATER), Rejected(FINAL), Batches(FENCE, 1), Batches(OTHER, 1),
    Batches(b"", 0),
]  # fmt: skip


def fitting(hand: Hand, result: Result) -> bool:
    """Batches answer a read and nothing else does; an append is not confirmed."""
    kind, phase = type(result), hand.owner.phase
    if phase is Phase.LOADING:
        return kind in (Batches, Unknown, Rejected)
    return kind is not Batches and not (kind is Confirmed and phase is Phase.FENCING)


EVENTS: list[Callable[[Hand], object]] = [
    *(lambda hand, result=result: fitting(hand, result) and hand.result(result) for result in RESULTS),
    lambda hand: hand.tick(3.0),
    lambda hand: hand.ask(f"w{len(hand.effects)}", put(b"k")),
    lambda hand: hand.ask(f"r{len(hand.effects)}", get(b"k")),
    lambda hand: hand.hear_of_a_leader(),
    lambda hand: hand.leave(),
    lambda hand: hand.owner.leave("a bug", OwnerEvent.FAILED),
]


def test_each_change_of_phase_is_a_row_and_each_row_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: set[tuple[Phase, OwnerEvent, Phase]] = set()
    unannounced: set[tuple[Phase, Phase]] = set()
    moving: list[OwnerEvent] = []
    plain_move, plain_set = Owner._move, object.__setattr__

    def set_attribute(owner: Owner[Book], name: str, value: Any) -> None:
        if name == "phase" and hasattr(owner, "phase"):
            if moving:
                rows.add((owner.phase, moving[-1], value))
            else:
                unannounced.add((owner.phase, value))
        plain_set(owner, name, value)

    def move(owner: Owner[Book], event: OwnerEvent) -> None:
        moving.append(event)
        plain_move(owner, event)
        moving.pop()

    monkeypatch.setattr(Owner, "__setattr__", set_attribute)
    monkeypatch.setattr(Owner, "_move", move)

    seen: set[tuple[Any, ...]] = set()
    paths: list[tuple[Callable[[Hand], object], ...]] = [()]
    for _ in range(6):
        paths, former = [], paths
        for path in former:
            for event in EVENTS:
                hand = Hand()
                hand.start()
                for step in (*path, event):
                    step(hand)
                owner = hand.owner
                now = (
                    owner.phase,
                    min(owner.next_offset, 8),
                    owner.is_stuck,
                    owner.is_busy,
                    type(hand.call),
                    len(hand.sent) > 1,
                )
                if now not in seen:
                    seen.add(now)
                    paths.append((*path, event))
    assert not unannounced, "a phase is changed by the table alone"
    assert rows == {(phase, event, after) for (phase, event), after in NEXT_PHASE.items()}


@pytest.mark.parametrize("event", [OwnerEvent.RELEASED, OwnerEvent.FAILED])
def test_a_shard_needs_an_epoch_where_no_other_owner_is_known(event: OwnerEvent) -> None:
    hand = Hand()
    hand.start()
    hand._take(hand.owner.leave("it", event))
    assert hand.left is not None
    assert hand.left.needs_epoch is (event in NEEDS_EPOCH)
