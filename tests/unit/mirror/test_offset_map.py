"""Offsets in a copy: exact where both are known, never ahead, against brute force over whole histories."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla_core.model import TopicPartition
from ottla_mirror.machines.offset_map import OffsetMap, OffsetMaps, Stretch, SyncedStretch

COPY, OWN_MARKER, RESTART = "copy", "own marker", "restart"


def test_what_goes_in_step_is_one_stretch_however_much_it_is() -> None:
    offsets = OffsetMap()
    for base in range(0, 1000, 10):
        offsets.add(base, base + 5, 10)
    assert list(offsets) == [Stretch(0, 5, 1000)]
    assert [offsets.translate(offset) for offset in (0, 500, 1000, 2000)] == [5, 505, 1005, 1005]


def test_nothing_is_known_of_what_lies_before_the_first_copy() -> None:
    offsets = OffsetMap()
    assert offsets.translate(0) is None
    offsets.add(100, 0, 10)
    assert (offsets.translate(99), offsets.translate(100)) == (None, 0)


def test_a_reader_in_a_gap_has_all_before_it_and_nothing_behind() -> None:
    offsets = OffsetMap()
    offsets.add(0, 0, 100)
    offsets.add(101, 100, 40)
    assert [offsets.translate(offset) for offset in (99, 100, 101, 140)] == [99, 100, 100, 139]


def test_what_is_copied_twice_is_where_the_later_copy_is_once_that_is_complete() -> None:
    offsets = OffsetMap()
    offsets.add(0, 0, 100)
    offsets.add(60, 100, 20)
    assert [offsets.translate(offset) for offset in (60, 79, 99)] == [60, 79, 99], "80 to 99 are there alone"
    offsets.add(80, 120, 20)
    assert list(offsets) == [Stretch(0, 0, 60), Stretch(60, 100, 40)]
    assert [offsets.translate(offset) for offset in (59, 60, 99)] == [59, 100, 139]


def test_a_position_in_the_copy_is_one_in_the_source() -> None:
    offsets = OffsetMap()
    offsets.add(10, 5, 90)
    offsets.add(101, 96, 40)
    back = [offsets.translate_back(offset) for offset in (4, 5, 94, 95, 96, 136, 900)]
    assert back == [None, 10, 99, 100, 101, 141, 141]


def test_a_flows_maps_share_a_bound() -> None:
    maps = OffsetMaps(most=100)
    partitions = [TopicPartition("t", number) for number in range(10)]
    for partition in partitions:
        for number in range(50):
            maps.add(SyncedStretch(partition, b"id", Stretch(number * 10, number * 9, 9)))
    known = [found for partition in partitions if (found := maps.get(partition)) is not None]
    assert [found.end for found in known] == [499] * 10
    assert sum(map(len, known)) <= 100
    assert {found.translate(495) for found in known} == {446}
    assert maps.get(TopicPartition("other", 0)) is None


def test_a_topic_that_was_made_anew_has_another_map() -> None:
    maps, partition = OffsetMaps(), TopicPartition("t", 0)
    maps.add(SyncedStretch(partition, b"first", Stretch(0, 0, 50)))
    maps.add(SyncedStretch(partition, b"second", Stretch(0, 50, 20)))
    known = maps.get(partition)
    assert known is not None
    assert list(known) == [Stretch(0, 50, 20)]


def test_the_oldest_are_thinned_and_translate_late() -> None:
    offsets = OffsetMap(most=8)
    for number in range(100):
        offsets.add(number * 10, number * 9, 9)
    assert len(offsets) <= 8
    translated = [offsets.translate(offset) for offset in range(1000)]
    true = [offset - offset // 10 for offset in range(1000)]
    assert all(found is not None and found <= at for found, at in zip(translated, true, strict=True))
    assert translated[-30:] == true[-30:], "the newest are exact"


@pytest.mark.story("mirror-that-translated-ahead")
@settings(max_examples=300, deadline=None)
@example([True] * 5, [(COPY, 5), (RESTART, 5), (COPY, 1)])
@given(
    st.lists(st.booleans(), min_size=1, max_size=40),
    st.lists(st.tuples(st.sampled_from([COPY, OWN_MARKER, RESTART]), st.integers(1, 9)), max_size=30),
)
def test_a_reader_misses_nothing_and_meets_nothing_again_that_it_could_be_spared(
    source: list[bool], history: list[tuple[str, int]]
) -> None:
    """`source` says of each offset whether it is a record, or a gap."""
    offsets, position, end = OffsetMap(), 0, 0
    copy: list[int | None] = []  # its records, by their offsets in the source
    for event, count in history:
        if event == COPY:
            for offset in range(position, min(position + count, len(source))):
                if source[offset]:
                    offsets.add(offset, len(copy), 1)
                    copy.append(offset)
            position = min(position + count, len(source))
        elif event == OWN_MARKER:
            copy.append(None)
        else:
            position = max(0, position - count)  # from an earlier position once more
        end = max(end, position)
    for at in range(end + 1):
        found = offsets.translate(at)
        if found is None:
            continue
        met = [record for record in copy[found:] if record is not None]
        behind = {record for record in copy if record is not None and record >= at}
        assert behind <= set(met), f"a reader at {at} would miss records"
        if position == end:  # else it is just being copied again
            assert all(record >= at for record in met[:1]), f"a reader at {at} would meet {met[:1]} again"
