"""A story of `aimed`, run as a process of its own; what it found becomes a result like that of a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.faults.power.rows import PowerRow
from tests.faults.power.run import PowerResult

_LIMIT_S: Final = 240.0


class AimedRun:
    """`directory` gets what the process prints."""

    def __init__(self, row: PowerRow, directory: Path, seed: int, mutant: str = "") -> None:
        self._result: Final = PowerResult(row)
        self._directory: Final = directory
        self._mutant: Final = mutant

    def run(self, seconds: float) -> PowerResult:
        """Takes as long as the story does."""
        result, began = self._result, time.monotonic()
        self._directory.mkdir(parents=True)
        command = [sys.executable, "-m", "tests.faults.power.aimed", result.row.story, self._mutant or "none"]
        log = self._directory / "aimed.log"
        with log.open("wb") as output:
            try:
                done = subprocess.run(
                    command, stdout=subprocess.PIPE, stderr=output, text=True, timeout=_LIMIT_S, check=False
                )
                told = json.loads(done.stdout.splitlines()[-1])
            except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
                result.failures.append(f"{result.row.story} did not come to its end ({error}); see {log}")
                return result
        result.findings.counts |= told["counts"]
        result.findings.examples = told["examples"]
        result.failures += [*told["examples"], *([told["failure"]] if told["failure"] else [])]
        result.seconds = time.monotonic() - began
        return result
