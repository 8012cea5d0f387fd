"""Cutting ranges of offsets, and what is taken off them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla_core.model import TopicPartition
from pyspark_ottla.machines.ranges import Range, cut, lost, ranges_between, without

RANGES = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 10**12), st.integers(1, 10**9)), unique_by=lambda each: each[0]
).map(lambda found: [Range(TopicPartition("t", n), start, start + size) for n, start, size in sorted(found)])


def wanted(*ranges: tuple[int, int, int]) -> list[Range]:
    return [Range(TopicPartition("t", n), start, end) for n, start, end in ranges]


def joined(ranges: list[Range]) -> list[Range]:
    """Neighbours of one partition put together again."""
    found: list[Range] = []
    for each in ranges:
        if found and found[-1].partition == each.partition and found[-1].end == each.start:
            found[-1] = found[-1]._replace(end=each.end)
        else:
            found.append(each)
    return found


@given(RANGES, st.none() | st.integers(1, 500), st.none() | st.integers(10**7, 10**12))
def test_what_is_cut_is_the_same_together(
    ranges: list[Range], min_partitions: int | None, max_records: int | None
) -> None:
    tasks = cut(ranges, min_partitions=min_partitions, max_records=max_records)
    assert joined(tasks) == ranges
    assert all(each.size > 0 for each in tasks)
    if max_records is not None:
        assert all(each.size <= max_records for each in tasks)
    if min_partitions is None and max_records is None:
        assert tasks == ranges


@given(RANGES.filter(bool), st.integers(1, 200))
def test_the_number_of_tasks_is_about_what_was_asked_for(ranges: list[Range], min_partitions: int) -> None:
    tasks = cut(ranges, min_partitions=min_partitions, max_records=None)
    assert len(tasks) >= len(ranges)
    assert len(tasks) <= max(len(ranges), min_partitions + len(ranges))
    if sum(each.size for each in ranges) >= 2 * min_partitions:
        assert len(tasks) >= min_partitions - len(ranges)


def test_a_long_range_is_cut_and_a_short_one_is_not() -> None:
    tasks = cut(wanted((0, 0, 90), (1, 0, 10)), min_partitions=5, max_records=None)
    assert [(each.partition.partition, each.size) for each in tasks] == [(0, 22), (0, 23), (0, 22), (0, 23), (1, 10)]


def test_more_tasks_than_offsets_there_are_not() -> None:
    assert [each.size for each in cut(wanted((0, 5, 7)), min_partitions=9, max_records=None)] == [1, 1]


def test_no_task_has_more_than_it_may_and_there_are_no_more_tasks_than_that_takes() -> None:
    tasks = cut(wanted((0, 0, 8), (1, 0, 9), (2, 0, 3)), min_partitions=None, max_records=4)
    assert [each.size for each in tasks] == [4, 4, 3, 3, 3, 3]


def test_nothing_is_cut_into_nothing() -> None:
    assert cut([], min_partitions=9, max_records=9) == []


def test_ranges_are_between_two_places_and_only_where_both_are_known() -> None:
    p = [TopicPartition("t", n) for n in range(4)]
    start = {p[0]: 0, p[1]: 5, p[2]: 7}
    end = {p[2]: 6, p[1]: 8, p[0]: 0, p[3]: 9}
    assert ranges_between(start, end) == wanted((1, 5, 8))


@given(RANGES, st.data())
def test_what_is_lost_and_what_is_left_are_the_whole(ranges: list[Range], data: st.DataObject) -> None:
    first = {each.partition: data.draw(st.integers(each.start - 5, each.end + 5)) for each in ranges}
    gone = lost(ranges, first)
    left = without(ranges, gone)
    assert sum(each.size for each in gone) + sum(each.size for each in left) == sum(each.size for each in ranges)
    assert all(each.end <= first[each.partition] for each in gone)
    assert all(each.start >= first[each.partition] for each in left)


def test_a_range_says_which_offsets_it_has() -> None:
    assert str(wanted((3, 7, 9))[0]) == "t-3 7..8 (2 offsets)"
