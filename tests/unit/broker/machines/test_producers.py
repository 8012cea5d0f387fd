"""What a partition knows of its idempotent producers, and what it makes of their batches."""

from __future__ import annotations

import sys

import pytest
from batches import NOON
from produced import header_of, known

from ottla_broker.machines.producers import BATCHES_KEPT, KeptBatch, Original, Producers
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL, BatchHeader

LAST = 2**31 - 1
"""The last sequence; after it comes 0."""


def append(producers: Producers, offset: int, *headers: BatchHeader, now_ms: int = NOON) -> int:
    """As a leader's log does; the offset after them."""
    checked = producers.check(headers, offset, now_ms)
    assert checked.original is None
    producers.apply(checked)
    return offset + sum(header.last_offset_delta + 1 for header in headers)


def refused(producers: Producers, *headers: BatchHeader) -> ErrorCode:
    """The code of the error, which must change nothing."""
    before = producers.entries()
    with pytest.raises(OttlaError) as caught:
        producers.check(headers, 1000, NOON)
    assert producers.entries() == before
    return ErrorCode(caught.value.code)


def repeated(producers: Producers, *headers: BatchHeader) -> Original:
    """Where a request lies that must be a repeat."""
    checked = producers.check(headers, 1000, NOON)
    assert checked.original is not None
    assert not checked.entries
    return checked.original


@pytest.fixture
def six() -> Producers:
    """Six batches of three records each, at offsets 100, 103 and so on."""
    producers = Producers()
    for n in range(6):
        append(producers, 100 + 3 * n, header_of(3 * n, 3, at_ms=NOON + n))
    return producers


@pytest.mark.rule(25)
@pytest.mark.feature(137)
def test_a_repeat_is_answered_with_the_original_offset_and_time(six: Producers) -> None:
    for n in range(1, 6):
        found = repeated(six, header_of(3 * n, 3, at_ms=NOON + n))
        assert found == Original(100 + 3 * n, 102 + 3 * n, NOON + n)
    state = six.get(7)
    assert state is not None
    assert len(state.batches) == BATCHES_KEPT
    assert state.batches[0] == KeptBatch(3, 5, 103, NOON + 1)
    assert state.last_offset == 117


@pytest.mark.rule(25)
def test_what_is_older_than_the_last_five_is_known_to_be_there_and_not_where(six: Producers) -> None:
    assert refused(six, header_of(0, 3)) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert refused(six, header_of(1, 2)) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert refused(six, header_of(0, 3), header_of(3, 3)) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


@pytest.mark.rule(26)
def test_a_batch_is_repeated_only_if_both_its_sequences_and_its_epoch_agree(six: Producers) -> None:
    for other in (header_of(15, 2), header_of(16, 2), header_of(14, 4), header_of(15, 4), header_of(2, 3)):
        assert refused(six, other) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(six, 200, header_of(0, 3, epoch=1))
    assert repeated(six, header_of(0, 3, epoch=1)).first_offset == 200
    assert refused(six, header_of(15, 3, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(six, header_of(15, 3, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.rule(26)
@pytest.mark.feature(139)
def test_a_gap_is_refused_and_filled_later(six: Producers) -> None:
    assert refused(six, header_of(19)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(six, 118, header_of(18), header_of(19))
    with pytest.raises(OttlaError, match="sequence 50, but the expected sequence is 20"):
        six.check([header_of(50)], 200, NOON)


@pytest.mark.rule(26)
def test_sequences_begin_anew_after_the_last_one() -> None:
    producers = Producers()
    append(producers, 0, header_of(LAST - 1, 2))
    append(producers, 2, header_of(0, 2))
    append(producers, 4, header_of(2))
    assert repeated(producers, header_of(LAST - 1, 2)).first_offset == 0
    across = Producers()
    append(across, 0, header_of(LAST - 1, 4))  # LAST - 1, LAST, 0, 1
    state = across.get(7)
    assert state is not None
    assert state.batches == (KeptBatch(LAST - 1, 1, 0, NOON),)
    assert state.batches[0].last_offset == 3
    assert refused(across, header_of(3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(across, 4, header_of(2))
    assert repeated(across, header_of(LAST - 1, 4)) == Original(0, 3, NOON)


@pytest.mark.rule(25, 26)
def test_what_is_older_is_told_across_the_wrap_too() -> None:
    producers = Producers()
    append(producers, 0, header_of(0, 2**30))
    append(producers, 2**30, header_of(2**30, 2**30))  # up to the last sequence
    for n in range(6):
        append(producers, 2**31 + n, header_of(n))
    assert refused(producers, header_of(LAST)) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert refused(producers, header_of(0)) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert refused(producers, header_of(7)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.rule(26)
@pytest.mark.parametrize("sequence", [0, 1, 1000, LAST])
def test_of_an_unknown_producer_any_sequence_is_taken(sequence: int) -> None:
    producers = Producers()
    append(producers, 0, header_of(sequence))
    assert repeated(producers, header_of(sequence)).first_offset == 0


@pytest.mark.rule(25, 26)
def test_what_came_before_the_first_batch_that_was_seen_is_never_said_to_be_there() -> None:
    """It may be a batch that was overtaken: it is missing, not written."""
    producers = Producers()
    for n in range(8):
        append(producers, n, header_of(10 + n))
    for sequence in (3, 9, 10):
        assert refused(producers, header_of(sequence)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    young = Producers()
    append(young, 0, header_of(0))
    assert refused(young, header_of(LAST)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.rule(26, 31)
def test_a_new_epoch_begins_at_zero_and_ends_the_old_one(six: Producers) -> None:
    assert refused(six, header_of(18, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(six, header_of(1, epoch=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(six, 118, header_of(0, epoch=3))
    for late in (header_of(18, epoch=0), header_of(0, epoch=2)):
        assert refused(six, late) == ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(OttlaError, match="producer 7 is at epoch 3, but this batch has epoch 2") as caught:
        six.check([header_of(0, epoch=2)], 119, NOON)
    assert not caught.value.retriable


@pytest.mark.rule(27)
def test_the_batches_of_one_request_are_checked_against_each_other() -> None:
    producers = Producers()
    assert refused(producers, header_of(0, 2), header_of(3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(producers, header_of(5), header_of(5, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(producers, header_of(0, epoch=1), header_of(1)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(producers, header_of(0), header_of(0)) == ErrorCode.INVALID_REQUEST
    end = append(producers, 50, header_of(0, 2), header_of(9, producer_id=8), header_of(2, 2), header_of(0, 1, epoch=1))
    assert end == 56
    state, other = producers.get(7), producers.get(8)
    assert state is not None
    assert other is not None
    assert state.batches == (KeptBatch(0, 0, 55, NOON),)
    assert other.batches == (KeptBatch(9, 9, 52, NOON),)


@pytest.mark.rule(25, 27)
def test_a_request_repeats_as_a_whole_or_not_at_all(six: Producers) -> None:
    both = (header_of(12, 3), header_of(15, 3))
    assert repeated(six, *both) == Original(112, 117, NOON + 5)
    assert refused(six, *both, header_of(18)) == ErrorCode.INVALID_REQUEST
    append(six, 300, header_of(18))  # others wrote in between
    assert refused(six, header_of(15, 3), header_of(18)) == ErrorCode.INVALID_REQUEST
    assert refused(six, header_of(18), header_of(-1, producer_id=NO_PRODUCER_ID)) == ErrorCode.INVALID_REQUEST


def test_batches_of_nobody_are_nobodys() -> None:
    producers = Producers()
    append(producers, 0, *[header_of(-1, producer_id=NO_PRODUCER_ID)] * 3)
    assert len(producers) == 0


@pytest.mark.rule(28)
def test_a_follower_takes_what_the_leader_took() -> None:
    producers = Producers()
    assert producers.on_stored(header_of(0, offset=0), NOON)
    assert producers.on_stored(header_of(40, offset=9), NOON), "compaction took what was between"
    assert producers.on_stored(header_of(3, epoch=2, offset=10), NOON)
    assert not producers.on_stored(header_of(0, epoch=1, offset=11), NOON), "it is told, and taken all the same"
    state = producers.get(7)
    assert state is not None
    assert (state.epoch, state.batches, state.last_offset) == (1, (KeptBatch(0, 0, 11, NOON),), 11)


@pytest.mark.rule(28, 30)
def test_a_control_batch_carries_the_epoch_forward_and_no_sequence(six: Producers) -> None:
    marker = header_of(-1, epoch=0, offset=118)._replace(attributes=CONTROL)
    assert six.on_stored(marker, NOON)
    append(six, 119, header_of(18))
    assert six.on_stored(marker._replace(producer_epoch=1, base_offset=120), NOON)
    state = six.get(7)
    assert state is not None
    assert (state.epoch, state.batches, state.last_offset) == (1, (), 120)
    assert refused(six, header_of(19)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(six, header_of(19, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(six, 121, header_of(0, epoch=1))


@pytest.mark.story("marker-told-where-its-producer-begins")
@pytest.mark.rule(26, 28)
def test_a_producer_of_which_only_markers_are_known_goes_on_anywhere_in_its_epoch() -> None:
    """Its batches before the markers were deleted."""
    producers = Producers()
    for offset in (10, 11):
        assert producers.on_stored(header_of(-1, epoch=2, offset=offset)._replace(attributes=CONTROL), NOON)
    restored = Producers(producers.entries())
    assert refused(restored, header_of(4, epoch=1)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(restored, header_of(4, epoch=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    first = header_of(4, epoch=2)._replace(attributes=TRANSACTIONAL)
    with pytest.raises(OttlaError, match="the first sequence of a transaction is 0"):
        restored.check([first], 12, NOON, begins_at_zero=True)
    restored.expect(first, NOON)
    assert refused(restored, header_of(5, epoch=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "4 is to come again"
    append(restored, 12, header_of(4, epoch=2))
    assert refused(restored, header_of(6, epoch=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.rule(30)
def test_an_idle_producer_is_forgotten_and_a_busy_one_is_not() -> None:
    producers = Producers()
    append(producers, 0, header_of(0, producer_id=1, at_ms=5), now_ms=NOON)
    append(producers, 1, header_of(0, producer_id=2), now_ms=NOON)
    append(producers, 2, header_of(1, producer_id=2), now_ms=NOON + 500)
    assert producers.expire(NOON + 999, 1000) == 0, "by the broker's clock, whatever the records say"
    assert producers.expire(NOON + 1000, 1000) == 1
    assert set(producers.entries()) == {2}
    assert refused(producers, header_of(5, producer_id=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(producers, 3, header_of(77, producer_id=1))


@pytest.mark.rule(29)
def test_entries_outlive_their_object_and_nonsense_is_refused(six: Producers) -> None:
    again = Producers(six.entries())
    assert known(again) == known(six)
    assert repeated(again, header_of(15, 3)).first_offset == 115
    append(again, 118, header_of(18))
    assert repeated(six, header_of(15, 3)).first_offset == 115, "nothing is shared"
    assert refused(six, header_of(19)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    with pytest.raises(ValueError, match="an illegal size"):
        Producers({1: b"x" * 20})
    assert six.reaches(117)
    assert not six.reaches(118)
    assert six.get(8) is None


def test_a_hundred_thousand_producers_are_few_megabytes() -> None:
    producers = Producers()
    for id_ in range(1000):
        for n in range(6):
            append(producers, 6 * id_ + n, header_of(n, producer_id=id_))
    entries = producers.entries()
    size_bytes = sys.getsizeof(entries) + sum(sys.getsizeof(id_) + sys.getsizeof(e) for id_, e in entries.items())
    assert size_bytes / len(entries) < 300
