"""The judges of growth and of shards find what a missing mend or rule leaves, and find nothing in an idle cluster."""

from __future__ import annotations

from tests.world.idle import idle_in_a_fork
from tests.world.seed import Plan, run_in_a_fork

_MEASURED = 2
"""This seed measures what grows."""
_STRUCTURES = 500


def test_structures_that_grow_and_shards_that_differ_from_their_logs_are_named() -> None:
    without = ("followers-kept-every-transaction", "states-are-counted-twice")
    outcome = run_in_a_fork(Plan(_MEASURED, storm_s=2.0, without=without, profile="ledger"))
    [grown] = [line for line in outcome.violations if "broker, follower: Transactions._ended: " in line]
    assert " items, " in grown
    assert "a unit (broker._components[]._log_dir._logs[]." in grown
    assert outcome.grown
    assert any(" shard " in line and ", and its log says " in line for line in outcome.violations)


def test_an_idle_cluster_keeps_and_writes_nothing() -> None:
    idleness = idle_in_a_fork(hours=0.1)
    assert idleness.violations == []
    assert idleness.structures > _STRUCTURES
    assert idleness.cpu_ms_per_second > 0
