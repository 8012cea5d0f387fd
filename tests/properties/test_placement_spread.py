"""Placement for any cluster: distinct brokers, even loads, as many racks as there can be."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_controller.machines.placement import assign_replicas

brokers = st.dictionaries(st.integers(0, 1000), st.just(""), min_size=1, max_size=12)
racked = st.dictionaries(st.integers(0, 1000), st.sampled_from("abcd"), min_size=1, max_size=12)


def difference(counts: Counter[int], brokers: dict[int, str]) -> int:
    loads = [counts[b] for b in brokers]
    return max(loads) - min(loads)


@pytest.mark.feature(113)
@given(brokers, st.integers(0, 60), st.integers(1, 5), st.integers(0, 10**6))
def test_brokers_are_distinct_and_loads_even(racks: dict[int, str], count: int, factor: int, start: int) -> None:
    factor = min(factor, len(racks))
    placed = assign_replicas(racks, count, factor, start=start)
    assert all(len(set(replicas)) == factor and set(replicas) <= set(racks) for replicas in placed)
    assert difference(Counter(replicas[0] for replicas in placed), racks) <= 1
    # Leaders come first; with them exactly even, a broker's replicas are within one of the mean.
    assert difference(Counter(b for replicas in placed for b in replicas), racks) <= 2


@pytest.mark.feature(113)
@given(racked, st.integers(1, 40), st.integers(1, 5), st.integers(0, 100))
def test_a_partition_uses_as_many_racks_as_it_can(racks: dict[int, str], count: int, factor: int, start: int) -> None:
    factor = min(factor, len(racks))
    most = min(factor, len(set(racks.values())))
    placed = assign_replicas(racks, count, factor, start=start)
    assert all(len({racks[b] for b in replicas}) == most for replicas in placed)
    assert difference(Counter(replicas[0] for replicas in placed), racks) <= 1


@given(brokers, st.integers(1, 20), st.integers(1, 20), st.integers(1, 4), st.integers(0, 100))
def test_adding_partitions_keeps_the_loads_even(
    racks: dict[int, str], first: int, more: int, factor: int, start: int
) -> None:
    factor = min(factor, len(racks))
    existing = assign_replicas(racks, first, factor, start=start)
    added = assign_replicas(racks, more, factor, start=start, existing=existing)
    assert existing + added == assign_replicas(racks, first + more, factor, start=start)
