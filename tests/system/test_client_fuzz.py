"""A short run of `make fuzz-client`: some hundred cases find no fault, and planted bugs are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT_S = 240
CASES = 200
PLANTED = ("id-not-checked", "stranger-not-named")


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz_client", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)


def test_only_planted_bugs_are_found(tmp_path: Path) -> None:
    done = fuzz("--cases", str(CASES), "--seed", "46", "--planted", ",".join(PLANTED), "--directory", str(tmp_path))
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert last["cases"] >= CASES
    assert (last["hangs"], last["crashes"], last["faults"], last["leaks"]) == (0, 0, 0, 0)
    assert (last["planted"], last["planted_found"]) == (len(PLANTED), len(PLANTED))
    assert last["whole_clients"] > 0


def test_a_saved_case_is_played_again_and_judged(tmp_path: Path) -> None:
    """An honest server is not a misdeed, so a case that says otherwise fails."""
    case = {
        "number": 1,
        "level": "call",
        "asks": "client.metadata.metadata",
        "in_handshake": True,
        "at": 0,
        "seed": 3,
        "mechanism": "",
    }
    file = tmp_path / "cases.jsonl"
    file.write_text(
        "".join(json.dumps({**case, "misdeed": name, "at": at}) + "\n" for name, at in (("HTTP", 0), ("none", 7)))
    )
    done = fuzz("--replay", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = done.stdout.splitlines()
    assert "error Metadata at 127.0.0.1:" in first
    assert first.endswith(": it is an HTTP server")
    assert second.endswith(": response")
