"""Where copying goes on when a mirror is given a partition, whatever has expired or was created again meanwhile."""

from __future__ import annotations

import pytest

from ottla_core.errors import OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.machines.progress import Position
from ottla_mirror.machines.starts import Begun, Known, Start, start_of

COPY, THIS, FORMER = TopicPartition("east.t", 0), TopicId(b"c" * 16), TopicId(b"f" * 16)
TOPIC_ID = TopicId(b"t" * 16)
COMMITTED, SYNCED = Position(300, TOPIC_ID, 4), Position(290, TOPIC_ID)


def known(
    begun: Begun | None = None, committed: Position | None = None, synced: Position | None = None, end: int = 0
) -> Known:
    return Known(begun, committed, synced, THIS, end)


@pytest.mark.parametrize("compares", [False, True])
def test_what_was_begun_goes_on_where_the_group_is(compares: bool) -> None:
    begun = Begun(3, THIS)
    assert start_of(COPY, known(begun, COMMITTED, SYNCED, 300), compares=compares) == Start(COMMITTED, begun)


@pytest.mark.story("mirror-away-for-a-week-copied-twice")
def test_where_the_group_has_expired_it_goes_on_behind_what_was_synced() -> None:
    begun = Begun(3, THIS)
    assert start_of(COPY, known(begun, None, SYNCED, 300), compares=False) == Start(SYNCED, begun)
    assert start_of(COPY, known(begun, None, None, 0), compares=False) == Start(None, begun)


def test_what_an_older_mirror_has_begun_is_taken_over_with_its_syncs() -> None:
    assert start_of(COPY, known(None, COMMITTED, SYNCED, 300), compares=False) == Start(COMMITTED, Begun(0, THIS))


@pytest.mark.parametrize("committed", [None, COMMITTED])
def test_what_was_begun_and_is_forgotten_is_begun_anew_in_another_generation_than_its_syncs(
    committed: Position | None,
) -> None:
    forgotten = known(None, committed)._replace(generation=3)
    assert start_of(COPY, forgotten, compares=False) == Start(None, Begun(4, THIS))


@pytest.mark.story("late-commit-holds-a-copy-up")
def test_an_empty_copy_is_begun_and_one_that_was_created_again_is_begun_anew() -> None:
    assert start_of(COPY, known(), compares=False) == Start(None, Begun(1, THIS))
    recreated = known(Begun(1, FORMER), COMMITTED, SYNCED)
    assert start_of(COPY, recreated, compares=False) == Start(None, Begun(2, THIS)), "whatever is committed for it"


@pytest.mark.parametrize(
    ("begun", "reason"), [(None, "the mirror has no position for it"), (Begun(1, FORMER), r"east\.t was recreated")]
)
def test_a_copy_with_records_of_which_nothing_is_known_is_named(begun: Begun | None, reason: str) -> None:
    what = known(begun, None if begun is None else COMMITTED, None, 7)
    with pytest.raises(OttlaError, match=rf"east\.t-0 ends at offset 7, but {reason}.*delete east\.t"):
        start_of(COPY, what, compares=False)
    assert start_of(COPY, what, compares=True).position is None
