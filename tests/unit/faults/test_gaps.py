"""How long a partition was without an acknowledgement."""

from __future__ import annotations

import pytest
from tests.faults.gaps import Acknowledgements, Hit, gaps_by_kind, percentile

MS = 1_000_000


def acknowledged(*at_ms: int, partition: int = 0) -> Acknowledgements:
    acknowledgements = Acknowledgements()
    for instant in at_ms:
        acknowledgements.on_operation({"f": "send", "type": "ok", "partition": partition, "mono_ns": instant * MS})
    return acknowledgements


def gap_ms(acknowledgements: Acknowledgements, at_ms: int, until_ms: int, *partitions: int) -> float:
    return acknowledgements.gap_ns(Hit("kill", "broker-0", at_ms * MS, until_ms * MS, partitions or (0,))) / MS


@pytest.mark.parametrize(
    ("at_ms", "until_ms", "gap"),
    [
        pytest.param(105, 500, 290, id="from the last one before to the first one after"),
        pytest.param(105, 300, 290, id="it ends after all was well"),
        pytest.param(405, 500, 20, id="only what the hit touches"),
        pytest.param(2000, 3000, 1000, id="never again: up to when all was said to be well"),
    ],
)
def test_the_longest_gap_that_a_hit_touches(at_ms: int, until_ms: int, gap: float) -> None:
    acknowledgements = acknowledged(*range(0, 101, 10), *range(390, 600, 20), *range(1000, 2001, 500))
    assert gap_ms(acknowledgements, at_ms, until_ms) == gap


def test_writers_are_put_together_by_time() -> None:
    assert gap_ms(acknowledged(0, 100, 200, 300, 50, 150, 250), 60, 290) == 50


def test_the_worst_partition_counts() -> None:
    both = acknowledged(0, 10, 20, 30)
    for instant in (0, 30):
        both.on_operation({"f": "send", "type": "ok", "partition": 1, "mono_ns": instant * MS})
    assert gap_ms(both, 5, 25, 0) == 10
    assert gap_ms(both, 5, 25, 0, 1) == 30


def test_hits_that_hit_no_leader_have_no_gap() -> None:
    hits = [Hit("kill", "broker-0", 0, 10 * MS, (0,)), Hit("kill", "broker-1", 0, 10 * MS, ())]
    assert gaps_by_kind(hits, acknowledged(0, 10)) == {"kill": [0.01]}


def test_percentiles_are_of_the_nearest_rank() -> None:
    assert percentile([], 0.5) == 0
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([1, 2, 3, 4], 0.5) == 2
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile(range(1, 31), 0.99) == 30
