"""The processes that `ottla up` starts, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla_stack.plan import StackPlan


@pytest.mark.parametrize("mirror", [None, Path("mirror.toml")])
def test_brokers_know_the_mirror_that_runs_beside_them(tmp_path: Path, mirror: Path | None) -> None:
    services = StackPlan(tmp_path, 9600, "ottla", 1, 2, 1, 0, mirror).services()
    ports = [service.port for service in services if service.name.startswith("mirror")]
    assert bool(ports) == bool(mirror)
    told = [[part for part in s.command if part.startswith("--mirrors=")] for s in services if "broker" in s.name]
    assert told == [[f"--mirrors=127.0.0.1:{port}" for port in ports]] * 2
