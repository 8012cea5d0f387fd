"""Scenarios keep what the world has found. `make sim` runs each without its mend, and it has to be red.

These tests run each with its mend only. Whatever changes the order of events may move a defect to another seed, and a
test must not depend on that.
"""

from __future__ import annotations

import pytest
from tests.world import scenario
from tests.world.mutants import Mutant, check
from tests.world.seed import run_in_a_fork


@pytest.mark.parametrize("name", scenario.names())
def test_a_kept_defect_does_not_show_with_its_mend(name: str) -> None:
    assert run_in_a_fork(scenario.read(name).mended).why == []


@pytest.mark.parametrize("name", scenario.names())
def test_a_scenario_is_written_as_it_is_read_and_its_mend_can_be_taken_out(name: str) -> None:
    kept = scenario.read(name)
    assert str(kept) == scenario.path_of(name).read_text()
    assert kept.kind
    check(Mutant(kept.plan.profile, tuple(kept.plan.without)))
