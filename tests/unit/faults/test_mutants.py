"""What a proof puts in place of the product's own has its place still: else its brokers don't start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cleanings import clean, job_for, pairs, write_segments
from tests.faults.compacted.checker import KINDS
from tests.faults.compacted.mutants import MUTANTS
from tests.faults.compacted.rows import MUTANT_ROWS
from tests.faults.compacted.run import CompactedResult
from tests.faults.compacted.worker_mutants import WORKER_MUTANTS
from tests.faults.migrations.checker import KINDS as MIGRATION_KINDS
from tests.faults.migrations.mutants import MUTANTS as MIGRATION_MUTANTS
from tests.faults.migrations.rows import MUTANT_ROWS as MIGRATION_ROWS
from tests.faults.restarts.mutants import MUTANTS as RESTART_MUTANTS
from tests.faults.restarts.rows import MUTANT_ROWS as RESTART_ROWS

from ottla_broker.compaction.job import CleanedGroup, CleaningResult


def output_of(*arguments: object, code: int = 0) -> str:
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30, check=False)
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    "mutants",
    [
        "mutants.MUTANTS",
        "compacted.mutants.MUTANTS",
        "compacted.worker_mutants.WORKER_MUTANTS",
        "groups.mutants.MUTANTS",
        "migrations.mutants.MUTANTS",
        "mirrored.mutants.MUTANTS",
        "power.mutants.MUTANTS",
        "power.worker_mutants.WORKER_MUTANTS",
        "transactions.mutants.MUTANTS",
    ],
)
def test_every_mutant_has_its_place(mutants: str) -> None:
    module, _, name = mutants.rpartition(".")
    output_of(
        "-c", f"from tests.faults.{module} import {name} as mutants; [break_it() for break_it in mutants.values()]"
    )


def test_every_mutant_of_clients_has_its_place() -> None:
    output_of("-c", "from tests.faults.restarts.mutants import MUTANTS; [each.plant() for each in MUTANTS.values()]")
    assert {row.name for row in RESTART_ROWS} == {*RESTART_MUTANTS}


def test_brokers_begin_that_are_killed_in_their_cleanings(tmp_path: Path) -> None:
    launch = ("-m", "tests.faults.compacted.launch", "none", tmp_path, "broker", "--node-id=0", "--nothing=0")
    assert "there is no setting 'nothing' of broker" in output_of(*launch, code=2)


def test_workers_that_are_killed_clean_as_the_products_own_do(tmp_path: Path) -> None:
    job = job_for(tmp_path, write_segments(tmp_path, [pairs(0, (b"a", b"1"), (b"a", b"2"))]))
    armed_by = tmp_path / "broker-0"
    with subprocess.Popen(
        (sys.executable, "-m", "tests.faults.compacted.worker", "none", armed_by),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as worker:  # fmt: skip
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(job.to_json() + "\n")
        worker.stdin.flush()
        assert CleanedGroup.from_json(worker.stdout.readline()) is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    assert CleaningResult.from_json(line) == clean(job)


def test_each_mutant_of_compaction_has_its_fault_and_what_it_is_found_by() -> None:
    assert {row.name for row in MUTANT_ROWS} == {*MUTANTS, *WORKER_MUTANTS}
    assert {kind for row in MUTANT_ROWS for kind in row.findings} <= {*KINDS}


def test_each_mutant_of_migrations_has_its_fault_and_what_it_is_found_by() -> None:
    assert {row.name for row in MIGRATION_ROWS} == {*MIGRATION_MUTANTS}
    assert len(MIGRATION_ROWS) >= 8
    assert all(row.findings and {*row.findings} <= {*MIGRATION_KINDS} for row in MIGRATION_ROWS)


def test_one_that_is_slow_or_does_not_start_is_not_caught() -> None:
    [row] = [row for row in MUTANT_ROWS if row.findings == ("lost",)][:1]
    result = CompactedResult(row, failures=["a broker is not ready"])
    result.findings.add("unreadable", "a reader comes to no end")
    assert not result.caught
    result.findings.add("lost", "a record")
    assert result.caught
