"""What `make scaling` makes of a few runs."""

from __future__ import annotations

from loadtest.spark.cluster_cpu import CpuSeconds
from loadtest.spark.scaling import Row


def test_a_row_tells_the_median_rate_and_the_cpu_of_all_runs_for_a_million_records() -> None:
    row = Row("read", cores=2, records=500_000, tasks=4, seconds=[1.0, 2.0, 9.0])
    for _ in row.seconds:
        row.cpu += CpuSeconds(broker=0.1, jvm=1.0, python=0.5, driver=0.2) + CpuSeconds(broker=0.05)
    assert row.report() == {
        "cores": 2,
        "tasks": 4,
        "records_s": 250_000,
        "records_per_core_s": 333_333,
        "cores_per_broker": 10.0,
        "cpu_s_per_million": {"broker": 0.3, "jvm": 2.0, "python": 1.0, "driver": 0.4, "daemons": 0.0},
    }
