"""A row fails where a service's loop had a long turn, whatever clients saw of it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.fault_run import long_turns

from ottla_core.event_loop import watchdog


def test_long_turns_are_read_off_the_logs(tmp_path: Path) -> None:
    lines = [
        json.dumps({"level": "INFO", "logger": "ottla_core.process.lifecycle", "event": "broker-1 is up"}),
        json.dumps({"level": "WARNING", "logger": watchdog.__name__, "event": "a turn took 200 ms"}),
    ]
    (tmp_path / "broker-1.log").write_text("\n".join(lines) + "\nTraceback\n")
    (tmp_path / "etcd.log").write_text("not json\n")
    assert long_turns(tmp_path) == ["broker-1: a turn took 200 ms"]
