"""Which leader wrote which offsets."""

from __future__ import annotations

import pytest

from ottla_broker.machines.epochs import NO_EPOCH, NO_OFFSET, LeaderEpochs
from ottla_core.records.leader_epochs import EpochStart


def known(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochStart(*entry) for entry in entries)


def test_an_epoch_is_noted_once_at_its_first_offset() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest == NO_EPOCH
    assert epochs.assign(3, 0)
    assert not epochs.assign(3, 10)
    assert epochs.assign(5, 20)
    assert epochs.entries == ((3, 0), (5, 20))


def test_what_contradicts_a_newer_word_is_dropped() -> None:
    epochs = known((1, 0), (2, 10), (4, 20))
    assert epochs.assign(3, 15)
    assert epochs.entries == ((1, 0), (2, 10), (3, 15))
    assert epochs.assign(5, 10)
    assert tuple(epochs.entries) == ((1, 0), (5, 10))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (4, (4, 30)),  # the newest ends where the log does
        (2, (2, 20)),
        (3, (2, 20)),  # never heard of: the largest below it
        (0, (0, 5)),  # older than all: it ended where the first begins
        (5, (NO_EPOCH, NO_OFFSET)),
        (NO_EPOCH, (NO_EPOCH, NO_OFFSET)),
    ],
)
def test_where_an_epoch_ended(asked: int, answer: tuple[int, int]) -> None:
    assert known((1, 5), (2, 10), (4, 20)).end_offset_for(asked, 30) == answer


def test_without_any_epoch_nothing_is_known() -> None:
    assert LeaderEpochs().end_offset_for(0, 10) == (NO_EPOCH, NO_OFFSET)
    assert LeaderEpochs().end_offset_for(NO_EPOCH, 10) == (NO_EPOCH, NO_OFFSET)
    assert LeaderEpochs().epoch_of(0) == NO_EPOCH


def test_a_cut_at_the_end_forgets_what_began_after_it() -> None:
    epochs = known((1, 0), (2, 10), (3, 20))
    assert not epochs.truncate_from_end(21)
    assert epochs.truncate_from_end(20)
    assert epochs.entries == ((1, 0), (2, 10))
    assert epochs.epoch_of(15) == 2


def test_a_cut_at_the_start_keeps_the_epoch_that_holds_it() -> None:
    epochs = known((1, 0), (2, 10), (3, 20))
    assert epochs.truncate_from_start(15)
    assert epochs.entries == ((2, 15), (3, 20))
    assert not epochs.truncate_from_start(15)
    assert not epochs.truncate_from_start(3)
    assert epochs.epoch_of(14) == NO_EPOCH
    assert epochs.epoch_of(20) == 3


def test_epochs_before_a_start_that_is_not_on_disk_yet_are_stored() -> None:
    epochs = known((1, 0), (2, 10), (3, 20))
    epochs.move_start(15, 0)
    assert [*epochs.entries] == [(2, 15), (3, 20)]
    assert epochs.stored(15, 30) == ((1, 0), (2, 10), (3, 20))
    assert [epochs.epoch_before(offset) for offset in (0, 10, 15, 20, 30)] == [NO_EPOCH, 1, 2, 2, 3]
    epochs.move_start(25, 15)
    assert [*epochs.entries] == [(3, 25)]
    assert epochs.stored(25, 30) == ((2, 15), (3, 20)), "from the log start on disk on"
    epochs.move_start(25, 25)
    assert epochs.stored(25, 30) == ((3, 25),)


def test_an_emptied_log_stores_the_epochs_before_its_end() -> None:
    epochs = known((2, 0))
    epochs.move_start(30, 0)
    epochs.assign(4, 30)
    assert epochs.stored(30, 30) == ((2, 0), (4, 30))
    assert epochs.epoch_before(30) == 2


def test_a_cut_at_the_end_forgets_what_began_before_the_start_and_after_the_cut() -> None:
    epochs = known((1, 0), (2, 10))
    epochs.move_start(20, 0)
    assert epochs.copy().truncate_from_end(10)
    assert epochs.truncate_from_end(0)
    assert epochs.stored(0, 5) == ()
