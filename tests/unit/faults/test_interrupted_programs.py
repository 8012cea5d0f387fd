"""The programs of F29 are processes of their own, and the shorter forms of the row leave some of them out."""

from __future__ import annotations

import subprocess
import sys

from tests.faults.interrupted import row


def test_a_process_finds_each_program_and_what_it_imports() -> None:
    names = sorted({"program", *row._MODULES.values()})
    imports = "; ".join(f"import tests.faults.interrupted.{name}" for name in names)
    done = subprocess.run(
        [sys.executable, "-c", imports], capture_output=True, text=True, timeout=120, check=False, env=row.environment()
    )
    assert done.returncode == 0, done.stderr
