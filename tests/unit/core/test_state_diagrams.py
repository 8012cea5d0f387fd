"""The diagrams in docs/design are those of the tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_diagrams_are_current() -> None:
    check = [sys.executable, str(ROOT / "tools/state_diagrams.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
