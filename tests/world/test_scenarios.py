"""Each defect that the world has found is found again with its mend taken out, and not with the mend in place.

Where the world or the product has changed so that a seed does not show its defect any more, `--record` finds another.
"""

from __future__ import annotations

import pytest
from tests.world import scenario
from tests.world.findings import kind_of
from tests.world.seed import run_in_a_fork
from tests.world.telling import JUDGE


@pytest.mark.parametrize("name", scenario.names())
def test_a_kept_defect_shows_without_its_mend_alone(name: str) -> None:
    kept = scenario.read(name)
    again = f"`python -m tests.world --record {name}` looks for another seed"
    assert run_in_a_fork(kept.plan).kind == kind_of(kept.trace[-1].removeprefix(JUDGE)), again
    assert run_in_a_fork(kept.mended).why == []


@pytest.mark.parametrize("name", scenario.names())
def test_a_scenario_is_written_as_it_is_read(name: str) -> None:
    assert str(scenario.read(name)) == scenario.path_of(name).read_text()
