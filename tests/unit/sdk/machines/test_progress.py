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
        in_flight.of(partition).begin(5)
    in_flight.of(P).finish(5)
    assert in_flight.to_commit() == {P: 6}
    assert in_flight.to_commit([Q, TopicPartition("u", 0)]) == {}
    in_flight.on_committed({P: 6, TopicPartition("u", 0): 1})
    assert (in_flight.to_commit(), in_flight.count, in_flight.front) == ({}, 1, 0)


def test_what_was_given_up_counts_for_nothing_when_the_partition_comes_back() -> None:
    in_flight = RecordsInFlight()
    before = in_flight.of(P)
    before.begin(0)
    in_flight.give_up([P])
    assert before.released
    in_flight.forget([P])
    again = in_flight.of(P)
    again.begin(0)
    before.finish(0)
    assert not again.released
    assert in_flight.to_commit() == {}


def test_a_topic_that_was_made_anew_begins_anew_and_ignores_the_end_of_the_former_one() -> None:
    records = RecordsInFlight()
    former = records.of(P, TopicId(b"a" * 16))
    former.begin(9)
    new = records.of(P, TopicId(b"b" * 16))
    new.begin(0)
    former.finish(9)
    assert records.to_commit() == {}
    new.finish(0)
    assert (records.to_commit(), records.topic_id(P), former.released) == ({P: 1}, b"b" * 16, False)
