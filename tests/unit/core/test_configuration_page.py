"""docs/operate/configuration.md is what the sources say, and each setting has words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.story("settings-only-in-the-sources")
def test_the_page_is_current() -> None:
    check = [sys.executable, str(ROOT / "tools/configuration.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
