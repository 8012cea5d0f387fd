"""A histogram's percentiles against those of all values, sorted."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ottla.bench.histogram import LatencyHistogram

LATENCIES = st.lists(st.integers(0, 1 << 40) | st.integers(0, 5_000), min_size=1, max_size=300)


@given(LATENCIES, st.floats(0, 100))
def test_a_percentile_is_right_to_a_thousandth_and_never_too_small(values: list[int], percent: float) -> None:
    latencies = LatencyHistogram()
    latencies.add_all(values)
    exact = sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
    assert exact <= latencies.percentile(percent) <= exact * 1.001
    assert latencies.percentile(100) == max(values)
    assert latencies.total_us == sum(values)
