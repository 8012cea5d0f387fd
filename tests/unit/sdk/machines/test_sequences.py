"""Sequence numbers of one partition: stamps, wrap, epochs, what a failure says about the batches behind it."""

import pytest

from ottla.machines.sequences import NO_STAMP, OwnedSequences, Sequences, Stamp


class Some:
    """A batch, as far as its sequences go."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.stamp = NO_STAMP

    def stamp_with(self, stamp: Stamp) -> None:
        self.stamp = stamp


def begun(*counts: int, acked: bool = True) -> tuple[Sequences, list[Some]]:
    """Sequences with producer id 7, and batches that left; `acked`: after a first one, which was acknowledged."""
    sequences = Sequences()
    assert sequences.resume(7)
    if acked:
        first = Some(1)
        sequences.stamp(first)
        sequences.on_acknowledged(first, now=0.0)
    batches = [Some(count) for count in counts]
    for batch in batches:
        sequences.stamp(batch)
    return sequences, batches


def stamps(batches: list[Some]) -> list[tuple[int, int]]:
    return [(batch.stamp.epoch, batch.stamp.sequence) for batch in batches]


def test_nothing_leaves_before_there_is_a_producer_id() -> None:
    sequences = Sequences()
    assert not sequences.resume(-1)
    assert not sequences.may_leave(Some(1), 0, now=0.0)
    assert sequences.resume(7)
    assert sequences.may_leave(Some(1), 0, now=0.0)


def test_sequences_count_records_and_a_stamp_stays() -> None:
    sequences, batches = begun(3, 2, 1)
    assert stamps(batches) == [(0, 1), (0, 4), (0, 6)]
    sequences.stamp(batches[1])
    assert stamps(batches) == [(0, 1), (0, 4), (0, 6)]
    assert {batch.stamp.producer_id for batch in batches} == {7}


@pytest.mark.rule(26)
def test_after_the_largest_sequence_comes_0() -> None:
    sequences, _ = begun()
    sequences._next = 2**31 - 2
    batches = [Some(2), Some(3), Some(1)]
    for batch in batches:
        sequences.stamp(batch)
    assert [sequence for _, sequence in stamps(batches)] == [2**31 - 2, 0, 3]
    sequences, _ = begun()
    sequences._next = 2**31 - 1
    batches = [Some(3), Some(1)]
    for batch in batches:
        sequences.stamp(batch)
    assert [sequence for _, sequence in stamps(batches)] == [2**31 - 1, 2]


def test_the_first_of_an_epoch_goes_alone_and_so_does_one_after_a_long_pause() -> None:
    sequences, (first,) = begun(1, acked=False)
    assert not sequences.may_leave(Some(1), 1, now=0.0)
    sequences.on_acknowledged(first, now=5.0)
    assert sequences.may_leave(Some(1), 1, now=5.1)
    assert not sequences.may_leave(Some(1), 1, now=700.0)
    assert sequences.may_leave(Some(1), 0, now=700.0)


class Owner:
    producer = (7, 3)


@pytest.mark.rule(25)
def test_the_first_batches_of_a_transaction_go_together() -> None:
    """A broker takes no batch of a transaction's epoch before the one that begins at 0."""
    sequences = OwnedSequences(Owner())
    for in_flight in range(3):
        batch = Some(1)
        assert sequences.may_leave(batch, in_flight, now=5000.0)
        sequences.stamp(batch)
    assert stamps([batch]) == [(3, 2)]


@pytest.mark.rule(25)
def test_no_more_are_stamped_than_the_broker_keeps_from_the_oldest_outstanding_on() -> None:
    sequences, batches = begun(1, 1, 1, 1)
    assert sequences.may_leave(Some(1), 4, now=0.0)
    sequences.on_acknowledged(batches[2], now=0.0)
    fifth = Some(1)
    sequences.stamp(fifth)
    assert len(sequences.outstanding) == 4
    assert not sequences.may_leave(Some(1), 4, now=0.0)
    sequences.on_acknowledged(batches[0], now=0.0)
    assert sequences.may_leave(Some(1), 3, now=0.0)


def test_a_batch_behind_one_that_failed_is_not_out_of_order_by_surprise() -> None:
    sequences, batches = begun(1, 1)
    sequences.on_out_of_order(batches[1])
    assert (sequences.halted, sequences.surprised) == (True, False)
    assert sequences.resume(7)
    assert stamps(batches) == [(0, 1), (0, 2)]


def test_a_gap_that_nothing_explains_begins_an_epoch_and_is_told() -> None:
    sequences, batches = begun(2, 3)
    sequences.on_out_of_order(batches[0])
    assert sequences.surprised
    assert not sequences.may_leave(batches[0], 0, now=0.0)
    assert sequences.resume(7)
    assert stamps(batches) == [(1, 0), (1, 2)]


def test_what_is_behind_a_batch_that_was_given_up_decides_whether_it_was_written() -> None:
    sequences, (lost, kept) = begun(1, 1)
    sequences.on_failed_for_good(lost)
    assert sequences.resume(7)
    assert sequences.may_leave(kept, 0, now=0.0)
    assert not sequences.may_leave(Some(1), 1, now=0.0)  # nothing new before that shows
    sequences.on_acknowledged(kept, now=0.0)  # it was
    assert sequences.may_leave(Some(1), 0, now=0.0)

    sequences, (lost, kept) = begun(1, 1)
    sequences.on_failed_for_good(lost)
    assert sequences.resume(7)
    sequences.on_out_of_order(kept)  # it was not
    assert not sequences.surprised
    assert sequences.resume(7)
    assert stamps([kept]) == [(1, 0)]


def test_where_all_were_given_up_a_new_epoch_begins() -> None:
    sequences, batches = begun(1, 1)
    for batch in batches:
        sequences.on_failed_for_good(batch)
    assert sequences.resume(7)
    following = Some(1)
    sequences.stamp(following)
    assert stamps([following]) == [(1, 0)]


def test_an_acknowledgement_below_the_last_one_given_up_leaves_the_doubt() -> None:
    sequences, (kept, lost) = begun(1, 1)
    sequences.on_failed_for_good(lost)
    assert sequences.resume(7)
    sequences.on_acknowledged(kept, now=0.0)
    assert not sequences.may_leave(Some(1), 0, now=0.0)
    assert sequences.resume(7)
    following = Some(1)
    sequences.stamp(following)
    assert stamps([following]) == [(1, 0)]


def test_after_the_last_epoch_another_producer_id_is_needed() -> None:
    sequences, (batch,) = begun(1)
    sequences._epoch = 2**15 - 1
    sequences.on_out_of_order(batch)
    assert not sequences.resume(7)
    assert not sequences.may_leave(batch, 0, now=0.0)
    assert sequences.resume(8)
    assert batch.stamp == Stamp(8, 0, 0)


@pytest.mark.rule(34)
def test_a_producer_id_that_somebody_else_uses_is_not_used_again() -> None:
    sequences, (fenced, behind) = begun(1, 1)
    sequences.on_failed_for_good(fenced)
    sequences.on_fenced()
    assert sequences.surprised
    assert not sequences.resume(7)
    assert sequences.resume(8)
    assert behind.stamp == Stamp(8, 0, 0)


def test_parts_take_the_place_and_the_sequences_of_their_batch() -> None:
    sequences, (first, second) = begun(6, 2)
    sequences.on_split(first, parts := [Some(2), Some(4)])
    assert sequences.halted
    assert sequences.outstanding == [*parts, second]
    assert stamps([*parts, second]) == [(0, 1), (0, 3), (0, 7)]
    assert [sequences.is_oldest(batch) for batch in (*parts, second)] == [True, False, False]


@pytest.mark.rule(26)
def test_parts_count_on_from_0_after_the_largest_sequence() -> None:
    sequences, _ = begun()
    sequences._next = 2**31 - 2
    sequences.stamp(batch := Some(5))
    sequences.on_split(batch, parts := [Some(2), Some(3)])
    assert stamps(parts) == [(0, 2**31 - 2), (0, 0)]


@pytest.mark.rule(25)
def test_stamped_parts_leave_only_if_a_broker_remembers_all_from_the_oldest_on() -> None:
    sequences, batches = begun(4, 4, 4)
    for batch in batches:
        sequences.on_split(batch, [Some(2), Some(2)])
    assert sequences.resume(7)
    parts = list(sequences.outstanding)
    assert [sequences.may_leave(part, 0, now=0.0) for part in parts] == [True] * 5 + [False]
    sequences.on_acknowledged(parts[1], now=0.0)
    assert not sequences.may_leave(parts[5], 0, now=0.0), "the oldest one has no outcome"
    sequences.on_acknowledged(parts[0], now=0.0)
    assert sequences.may_leave(parts[5], 0, now=0.0)


@pytest.mark.rule(26)
def test_places_are_in_the_order_of_the_stamps_also_after_the_largest_sequence() -> None:
    sequences, _ = begun()
    sequences._next = 2**31 - 3
    batches = [Some(2), Some(3), Some(1)]
    for batch in batches:
        sequences.stamp(batch)
    assert [sequences.place(batch) for batch in batches] == [0, 2, 5]
