"""Property tests sync to the disk hundreds of times: one that other tests keep busy may take a second for each."""

from __future__ import annotations

from pathlib import Path

import pytest

TIMEOUT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
