"""Latencies in bounded memory: what is exact, what is near, and that nothing is dropped."""

from __future__ import annotations

from ottla.bench.histogram import LatencyHistogram, bucket_of


def test_small_values_are_exact_and_large_ones_right_to_a_thousandth() -> None:
    assert [bucket_of(value) for value in (0, 1, 2047)] == [0, 1, 2047]
    assert bucket_of(2048) == bucket_of(2049) == 2049
    assert bucket_of(1_000_000) - 1_000_000 <= 1_000
    edges = [bucket_of(value) for value in range(1 << 13)]
    assert edges == sorted(edges)
    assert len(set(edges)) < 2048 + 2 * 1024 + 1


def test_percentiles_of_known_values() -> None:
    latencies = LatencyHistogram()
    latencies.add_all(list(range(1, 1001)))
    assert [latencies.percentile(p) for p in (0, 50, 95, 99, 99.9, 100)] == [1, 500, 950, 990, 999, 1000]
    assert (latencies.mean_us, latencies.max_us, latencies.count) == (500.5, 1000, 1000)


def test_one_slow_among_many_is_seen_and_never_overstated() -> None:
    latencies = LatencyHistogram()
    latencies.add(100, times=9_999)
    latencies.add(3_000_001)
    assert latencies.percentile(99.99) == 100
    assert latencies.percentile(99.991) == latencies.max_us == 3_000_001


def test_nothing_counted_is_zero() -> None:
    empty = LatencyHistogram()
    empty.add_all([])
    assert (empty.count, empty.mean_us, empty.percentile(99), empty.max_us) == (0, 0.0, 0, 0)


def test_one_by_one_all_at_once_merged_and_sent_elsewhere_are_the_same() -> None:
    values = [7, 2_047, 2_048, 5_000, 5_001, 123_456_789]
    at_once, one_by_one, merged = LatencyHistogram(), LatencyHistogram(), LatencyHistogram()
    at_once.add_all(values)
    for value in values:
        one_by_one.add(value)
        alone = LatencyHistogram()
        alone.add(value)
        merged.merge(alone)
    elsewhere = LatencyHistogram.from_state(at_once.state())
    for other in (one_by_one, merged, elsewhere):
        assert other.state() == at_once.state()
        assert other.count == 6
