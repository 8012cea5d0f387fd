"""Everything that builds or reads is tested with both implementations."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[False, True], ids=["compiled", "pure"])
def pure(request: pytest.FixtureRequest) -> bool:
    """Whether the pure twin is asked for."""
    return bool(request.param)
