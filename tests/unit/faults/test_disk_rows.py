"""What the rows of disks do to a data directory, how long they go on, and what they say in the end."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.faults.checker import Findings
from tests.faults.disks.mutants import DISK_MUTANTS
from tests.faults.disks.nemesis import DiskNemesis
from tests.faults.disks.report import disks_summary
from tests.faults.disks.rows import DISK_ROWS
from tests.faults.mutants import MUTANTS
from tests.faults.row_run import RowResult

PARTITION = f"{'0a' * 16}-3"


def nemesis(directory: Path) -> DiskNemesis:
    cluster: Any = SimpleNamespace(directory=directory)
    return DiskNemesis(cluster, "t", 2, (), "seed", directory / "nemesis.log", directory / "history")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    data_dir = tmp_path / "broker-0"
    (data_dir / PARTITION).mkdir(parents=True)
    (data_dir / PARTITION / "0.log").write_text("records")
    (data_dir / "boot-id").write_text("a boot")
    return data_dir


@pytest.mark.parametrize(("whole", "left"), [(True, []), (False, ["boot-id"])])
def test_a_disk_is_emptied_wholly_or_of_its_partitions(disk: Path, *, whole: bool, left: list[str]) -> None:
    nemesis(disk.parent).empty("broker-0", whole=whole)
    assert [path.name for path in disk.iterdir()] == left


def test_an_old_volume_is_what_it_was(disk: Path) -> None:
    faults = nemesis(disk.parent)
    faults.save("broker-0")
    (disk / PARTITION / "0.log").write_text("records and more")
    (disk / "later").touch()
    faults.put_back("broker-0")
    assert (disk / PARTITION / "0.log").read_text() == "records"
    assert not (disk / "later").exists()


def test_an_acknowledgement_counts_from_when_it_was_waited_for(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    history = tmp_path / "history" / "w0.jsonl"
    lines = [json.dumps({"type": "ok", "partition": p}, separators=(",", ":")) + "\n" for p in range(2)]
    history.write_text("".join(lines))
    with pytest.raises(TimeoutError, match="every partition to acknowledge"):
        nemesis(tmp_path).until_acknowledged(limit_s=0.1)


def test_the_summary_has_an_entry_for_each_row() -> None:
    result = RowResult(DISK_ROWS[0], findings=Findings(acknowledged=7), gaps={"disk lost": [1.0, 3.0]}, hits=2)
    told: Any = disks_summary([result], mutants=7, caught=6, seed=1, history=Path("build"))
    assert (told["mutants"], told["mutants_caught"]) == (7, 6)
    row = told["rows"]["F25"]
    assert (row["hits"], row["acked"], row["lost"], row["unavailable_p99_s"]) == (2, 7, 0, 3.0)


def test_seven_rules_are_broken_and_each_belongs_to_a_row() -> None:
    assert len(DISK_MUTANTS) == 7
    assert {mutant.row for mutant in DISK_MUTANTS} == {row.name for row in DISK_ROWS}
    assert [mutant.name in MUTANTS for mutant in DISK_MUTANTS] == [mutant.processes for mutant in DISK_MUTANTS]
