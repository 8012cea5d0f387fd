"""A bound of another kind does not type-check: mypy reads these lines and finds an error on each that says so."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]

LINES = """
from ottla_broker.compaction.candidate import Candidate
from ottla_broker.machines.partition import find_truncation_offset
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.log import Log
async def bounds(log: Log, replica: Replica) -> None:
    Candidate.of(log, replica.offsets.last_stable_offset, 0)
    Candidate.of(log, replica.offsets.high_watermark, 0)  # error
    Candidate.of(log, log.log_end_offset, 0)  # error
    Candidate.of(log, log.recovery_point, 0)  # error
    Candidate.of(log, 100, 0)  # error
    log.producers.last_stable_offset(log.log_start_offset, replica.offsets.high_watermark)
    log.producers.last_stable_offset(log.log_start_offset, log.log_end_offset)  # error
    log.delete_old_segments(replica.offsets.high_watermark, 0)
    log.delete_old_segments(log.log_end_offset, 0)  # error
    log.delete_records_before(0, replica.offsets.last_stable_offset)  # error
    await replica.disk.read(0, 1, replica.offsets.last_stable_offset, min_one_batch=True)
    await replica.disk.read(0, 1, log.log_end_offset, min_one_batch=True)
    await replica.disk.read(0, 1, log.recovery_point, min_one_batch=True)  # error
    await replica.disk.read(0, 1, log.log_start_offset, min_one_batch=True)  # error
    log.is_flush_due(0) or log.recovery_point == log.log_end_offset  # error
"""


def test_a_bound_of_another_kind_does_not_type_check(tmp_path: Path) -> None:
    path = tmp_path / "bounds.py"
    path.write_text(LINES)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    done = subprocess.run([*command, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    expected = {number for number, line in enumerate(LINES.splitlines(), 1) if line.endswith("# error")}
    assert found == expected, done.stdout + done.stderr
