"""Runs the part of the burst that fails with a mutant. It asserts a time, so pytest runs it only if it is named."""

from __future__ import annotations

from pathlib import Path

from tests.security.burst import Burst, burst_at_slow_key


def test_a_burst_at_another_address_keeps_no_login_waiting(tmp_path: Path) -> None:
    burst = Burst()
    burst_at_slow_key(burst, tmp_path)
    assert burst.wrong == []
