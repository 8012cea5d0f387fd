"""Which leader wrote which offsets."""

from __future__ import annotations

import pytest

from ottla_broker.machines.epochs import NO_EPOCH, NO_OFFSET, EpochStart, LeaderEpochs


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
