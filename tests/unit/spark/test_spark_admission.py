"""How much of what is there a micro-batch takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla_core.model import TopicPartition
from pyspark_ottla.machines.admission import Admission, AdmissionLimits, share_out

P = [TopicPartition("t", n) for n in range(60)]
BACKLOGS = st.lists(st.integers(0, 10**9), min_size=1, max_size=50).filter(any)


@given(BACKLOGS, st.integers(1, 10**6), st.integers(0, 10**9))
def test_shares_are_exact_and_nobody_is_starved(counts: list[int], most: int, begin: int) -> None:
    backlog = dict(zip(P, counts, strict=False))
    most = min(most, sum(counts))
    start = dict.fromkeys(backlog, begin)
    taken = {partition: at - begin for partition, at in share_out(start, backlog, most).items()}
    waiting = sum(1 for count in counts if count)
    assert sum(taken.values()) == max(most, waiting)
    assert all(min(1, backlog[p]) <= taken[p] <= backlog[p] for p in backlog)


def test_shares_are_in_proportion() -> None:
    assert share_out({P[0]: 5, P[1]: 0}, {P[0]: 900, P[1]: 100}, 100) == {P[0]: 94, P[1]: 11}


def test_a_partition_with_little_is_read_beside_one_that_grows() -> None:
    admission = Admission(AdmissionLimits(max_offsets=10))
    at, small = {P[0]: 0, P[1]: 0}, 3
    for n in range(1, 5):
        end = admission.end_of(at, {P[0]: 10**6 * n, P[1]: small}, 0.0, {})
        assert end is not None
        assert sum(end.values()) - sum(at.values()) == 10
        at = dict(end)
    assert at[P[1]] == small


def test_nothing_is_taken_twice_or_back_where_there_is_no_limit() -> None:
    admission = Admission(AdmissionLimits())
    assert admission.end_of({P[0]: 5, P[1]: 9}, {P[0]: 7, P[1]: 9}, 0.0, {}) == {P[0]: 7, P[1]: 9}


def test_it_waits_for_enough_or_long_enough_but_never_at_first() -> None:
    admission = Admission(AdmissionLimits(min_offsets=5, max_delay_s=60.0))

    def end(at: int, now: float, *, patient: bool = True) -> object:
        return admission.end_of({P[0]: 10}, {P[0]: at}, now, {}, patient=patient)

    assert end(11, 1_000.0) == {P[0]: 11}
    assert end(14, 1_059.9) is None
    assert end(15, 1_059.9) == {P[0]: 15}
    assert end(14, 1_119.8) is None  # counted from the last batch
    assert end(14, 1_119.8, patient=False) == {P[0]: 14}
    assert end(14, 1_179.8) == {P[0]: 14}


def test_both_limits_hold() -> None:
    admission = Admission(AdmissionLimits(max_offsets=4, min_offsets=3))
    assert admission.end_of({P[0]: 0}, {P[0]: 9}, 0.0, {}) == {P[0]: 4}
    assert admission.end_of({P[0]: 0}, {P[0]: 2}, 1.0, {}) is None


def test_bytes_are_counted_by_what_records_of_each_partition_take() -> None:
    admission = Admission(AdmissionLimits(max_bytes=1_000))
    sizes = {P[0]: 100.0, P[1]: 10.0}
    end = admission.end_of({P[0]: 0, P[1]: 0}, {P[0]: 100, P[1]: 100}, 0.0, sizes)
    assert end is not None
    assert 900 <= sum(sizes[p] * at for p, at in end.items()) <= 1_100
    assert admission.end_of({P[0]: 0}, {P[0]: 10}, 0.0, sizes) == {P[0]: 10}
    assert Admission(AdmissionLimits(max_bytes=1)).end_of({P[0]: 0}, {P[0]: 10}, 0.0, sizes) == {P[0]: 1}
    assert Admission(AdmissionLimits(max_bytes=10**6, max_offsets=3)).end_of({P[0]: 0}, {P[0]: 10}, 0.0, sizes) == {
        P[0]: 3
    }
