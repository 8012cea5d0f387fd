"""Runs the suite with each kind of cluster, and tells what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.compat import default_login
from tests.compat.on_kafka.kind import KINDS, Kind
from tests.compat.on_kafka.suite import FILES, SHORT

NAME: Final = "ottla-on-kafka"
_TESTS: Final = "tests/system"
_SUPPORT: Final = default_login.ROOT / "tests/support"


def run(kinds: Sequence[str], only: Sequence[str]) -> int:
    """Run these tests, or the whole suite if none is named, and print one JSON object. `short` stands for a few."""
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise SystemExit(f"no such kind of cluster: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    tests = [f"{_TESTS}/{test}" for name in only or FILES for test in (SHORT if name == "short" else (name,))]
    cells, red, skipped = 0, 0, []
    for kind in (KINDS[name] for name in kinds or KINDS):
        outcome = _run(kind, tests)
        print(f"{kind}: {outcome['cells']} cells, {len(outcome['red'])} red, {len(outcome['skipped'])} skipped")
        for test in outcome["red"]:
            print(f"  red: {test}")
        cells += outcome["cells"]
        red += len(outcome["red"])
        skipped += [{"kafka": str(kind), **each} for each in outcome["skipped"]]
    print(json.dumps({"cells": cells, "red": red, "skipped": skipped}), flush=True)
    return 0 if cells and not red else 1


def _run(kind: Kind, tests: Sequence[str]) -> dict[str, Any]:
    """A process of its own, because its tests find another cluster and its clients another login."""
    with tempfile.TemporaryDirectory(prefix="ottla-on-kafka-") as folder:
        report = Path(folder) / "report.json"
        environment = {**os.environ, **default_login.environment(Path(folder) / "security")}
        environment["PYTHONPATH"] += f"{os.pathsep}{_SUPPORT}"
        command = [sys.executable, "-m", "tests.compat.on_kafka", str(kind), str(report), *tests]
        ended = subprocess.run(command, env=environment, cwd=default_login.ROOT, check=False).returncode
        if not report.exists():
            return {"cells": 0, "red": [f"the run ended with {ended} before its first test"], "skipped": []}
        outcome: dict[str, Any] = json.loads(report.read_text())
        return outcome
