"""What may be committed while records are finished in any order."""

from __future__ import annotations

import pytest

from ottla.machines.progress import PartitionProgress, RecordsInFlight
from ottla_core.model import TopicId, TopicPartition

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


def begun(*offsets: int) -> PartitionProgress:
    progress = PartitionProgress()
    for offset in offsets:
        progress.begin(offset)
    return progress


@pytest.mark.feature(78)
def test_the_lowest_unfinished_record_is_where_a_commit_ends() -> None:
    progress = begun(10, 11, 12, 13)
    progress.finish(12)
    progress.finish(10)
    assert (progress.committable, progress.front) == (11, 1)
    progress.finish(11)
    assert (progress.committable, progress.front) == (13, 3)
    progress.finish(13)
    assert (progress.committable, progress.front) == (14, 4)


def test_offsets_that_are_not_in_the_log_are_passed_over() -> None:
    progress = begun(3, 7, 20)
    progress.finish(3)
    assert progress.committable == 7
    progress.finish(20)
    progress.finish(7)
    assert progress.committable == 21


def test_what_is_committed_is_no_longer_in_flight() -> None:
    progress = begun(0, 1, 2)
    progress.finish(0)
    progress.finish(1)
    assert progress.count == 3
    progress.on_committed(1)
    assert (progress.count, progress.front) == (2, 1)
    progress.on_committed(2)
    assert (progress.count, progress.front) == (1, 0)


def test_only_partitions_with_something_new_are_committed() -> None:
    in_flight = RecordsInFlight()
    for partition in (P, Q):
        in_flight.of(partition, 5).begin(5)
    in_flight.of(P, 6).finish(5)
    assert in_flight.to_commit() == {P: 6}
    assert in_flight.to_commit([Q, TopicPartition("u", 0)]) == {}
    in_flight.on_committed({P: 6, TopicPartition("u", 0): 1})
    assert (in_flight.to_commit(), in_flight.count, in_flight.front) == ({}, 1, 0)


def test_what_was_given_up_counts_for_nothing_when_the_partition_comes_back() -> None:
    in_flight = RecordsInFlight()
    before = in_flight.of(P, 0)
    before.begin(0)
    in_flight.give_up([P])
    assert before.released
    in_flight.forget([P])
    again = in_flight.of(P, 0)
    again.begin(0)
    before.finish(0)
    assert not again.released
    assert in_flight.to_commit() == {}


def test_a_topic_that_was_made_anew_begins_anew_and_ignores_the_end_of_the_former_one() -> None:
    records = RecordsInFlight()
    former = records.of(P, 9, TopicId(b"a" * 16))
    former.begin(9)
    new = records.of(P, 0, TopicId(b"b" * 16))
    new.begin(0)
    former.finish(9)
    assert records.to_commit() == {}
    new.finish(0)
    assert (records.to_commit(), records.topic_id(P), former.released) == ({P: 1}, b"b" * 16, False)


def test_offsets_of_one_progress_ascend() -> None:
    with pytest.raises(AssertionError):
        begun(4, 4)


def reading(records: RecordsInFlight, first: int, last: int) -> PartitionProgress:
    progress = records.of(P, first)
    for offset in range(first, last + 1):
        progress.begin(offset)
    return progress


@pytest.mark.story("app-stands-still-after-a-truncation")
def test_finished_records_of_a_lost_end_are_no_longer_in_flight() -> None:
    records = RecordsInFlight()
    former = reading(records, 0, 9)
    for offset in range(10):
        former.finish(offset)
    new = reading(records, 3, 5)
    assert (records.count, records.front, records.to_commit()) == (6, 3, {P: 3})
    records.on_committed({P: 3})
    assert (records.count, records.front) == (3, 0)
    for offset in (3, 4, 5):
        new.finish(offset)
    assert (records.count, records.to_commit()) == (3, {P: 6})
    records.on_committed({P: 6})
    assert records.count == 0


def test_a_record_of_the_lost_end_does_not_finish_the_one_that_has_its_offset_now() -> None:
    records = RecordsInFlight()
    former = reading(records, 0, 9)
    new = reading(records, 0, 9)
    for offset in range(10):
        former.finish(offset)
    assert (records.count, records.to_commit()) == (10, {})
    new.finish(0)
    assert records.to_commit() == {P: 1}


def test_unfinished_records_before_the_lost_end_hold_the_commit_back() -> None:
    records = RecordsInFlight()
    first = reading(records, 0, 9)
    second = reading(records, 5, 9)
    third = reading(records, 8, 9)
    for offset in (8, 9):
        third.finish(offset)
    for offset in (5, 6, 7):
        second.finish(offset)
    assert (records.count, records.front, records.to_commit()) == (10, 0, {})
    for offset in (0, 1, 2):
        first.finish(offset)
    assert (records.front, records.to_commit()) == (3, {P: 3})
    first.finish(3)
    first.finish(4)
    assert (records.front, records.to_commit()) == (10, {P: 10})
    records.on_committed({P: 10})
    assert records.count == 0


def test_a_partition_that_is_given_up_is_so_for_records_from_before_a_truncation_too() -> None:
    records = RecordsInFlight()
    former, new = reading(records, 0, 9), reading(records, 5, 9)
    records.give_up([P])
    assert former.released
    assert new.released


def test_a_partition_that_is_given_up_after_a_commit_is_so_for_records_of_a_lost_end() -> None:
    in_flight = RecordsInFlight()
    before = in_flight.of(P, 0)
    before.begin(0)
    before.begin(1)  # still handled when its offset is lost
    before.finish(0)
    after = in_flight.of(P, 1)
    after.begin(1)
    in_flight.on_committed(in_flight.to_commit())
    in_flight.give_up([P])
    assert (before.released, after.released) == (True, True)
