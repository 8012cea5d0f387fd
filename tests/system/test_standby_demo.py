"""`make demo-mirror` in small: a site is lost, and its readers go on in another one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import LIMIT_S

ROOT = Path(__file__).parents[2]


@pytest.mark.feature(154)
def test_a_group_goes_on_in_another_site_at_the_very_next_flight(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.demo.standby", "--flights", "6000"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, env=environment, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    fields = json.loads(done.stdout.splitlines()[-1])
    assert (fields["written"], fields["lost"], fields["reread"]) == (6000, 0, 0)
    assert fields["after_failover_first_offset_expected"] == fields["after_failover_first_offset_got"] != {}
    assert not list(tmp_path.iterdir())
    of_demo = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in cmdline(path)]
    assert of_demo == [], "it leaves no process behind"


def cmdline(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended meanwhile
        return ""
