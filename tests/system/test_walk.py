"""The walk of a new user in its short form: ottla is built and installed, all else borrowed; `make walk` does all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.walk.__main__ import JOBS, LINES, PROGRAMS, walk


@pytest.mark.timeout(600)
def test_the_first_lines_work_as_they_are_written(tmp_path: Path) -> None:
    assert walk(tmp_path, borrowed=True)["jobs"] == len(JOBS) >= 10
    assert LINES[1] == "ottla up"
    assert len(LINES) >= 5
    assert len(PROGRAMS) >= 2
