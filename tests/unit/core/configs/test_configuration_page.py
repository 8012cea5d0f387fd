"""docs/operate/configuration.md is what the sources say, and each setting has words."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools import configuration

ROOT = Path(__file__).resolve().parents[4]


def test_the_page_is_current() -> None:
    check = [sys.executable, str(ROOT / "tools/configuration.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@dataclass
class _Config:
    described: int = 1  # how many there are
    wordless: int = 2


@pytest.mark.story("settings-only-in-the-sources")
def test_a_setting_without_words_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "SERVICES", {"broker": _Config})
    assert configuration.undescribed() == ["broker: wordless"]
