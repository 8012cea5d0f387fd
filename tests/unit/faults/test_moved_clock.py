"""The clock that rows of groups move: it follows its file, and it is the only one that services ask."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from tests.faults import moved_clock
from tests.faults.moved_clock import MovedClock

_ROOT = Path(__file__).parents[3]
_TIME_OF_DAY = re.compile(r"\btime\.time(_ns)?\(|datetime\.now|\.utcnow|from time import .*\btime(_ns)?\b")


def test_a_clock_without_a_file_is_right(tmp_path: Path) -> None:
    before_ms = time.time_ns() // 1_000_000
    assert before_ms <= MovedClock(tmp_path / "broker-0").wall_ms() <= before_ms + 60_000


def test_a_clock_follows_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved_clock, "_LOOK_S", 0.0)
    file = tmp_path / "broker-0"
    clock = MovedClock(file)
    for hours in (1, -1, 0):
        file.write_text(str(hours * 3600.0))
        off_ms = clock.wall_ms() - time.time_ns() // 1_000_000
        assert abs(off_ms - hours * 3_600_000) < 60_000


def test_no_service_asks_another_clock_for_the_time_of_day() -> None:
    asking = [
        path.relative_to(_ROOT).as_posix()
        for folder in ("core", "services")
        for path in sorted((_ROOT / folder).rglob("*.py"))
        if _TIME_OF_DAY.search(path.read_text(encoding="utf-8"))
    ]
    assert asking == ["core/ottla_core/clock.py"]
