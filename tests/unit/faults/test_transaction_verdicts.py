"""The verdict on whole runs of the rows of transactions: each floor fails them, and so does a mutant not caught."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.faults.mutants_caught import Caught
from tests.faults.transactions import report
from tests.faults.transactions.client import KINDS
from tests.faults.transactions.failpoints import STEPS
from tests.faults.transactions.pace import Pace, ended
from tests.faults.transactions.rows import MUTANT_ROWS, ROWS
from tests.faults.transactions.run import TransactionResult, TransactionRun

NAMES = [row.name for row in ROWS]
STEP = STEPS["txn"][0]


def enough() -> dict[str, TransactionResult]:
    """Return a result for each row; together they just reach the goals."""
    killed, zombies, replayed = (TransactionResult(row) for row in ROWS)
    killed.findings.by_client.update({"sdk": 8_000, "librdkafka": 8_000, "java": 4_000})
    killed.steps.update({step: 10 for of_kind in STEPS.values() for step in of_kind})
    zombies.cuts.update(producers=1, txn=1)
    zombies.zombies, zombies.epoch_wraps = 18, 1
    zombies.findings.fenced.update({"sdk-0": 3, "sdk-1": 3, "librdkafka-0": 6, "java-1": 6})
    replayed.replayed = 1_000
    return {result.row.name: result for result in (killed, zombies, replayed)}


def code_of(monkeypatch: pytest.MonkeyPatch, results: dict[str, TransactionResult], caught: Any = MUTANT_ROWS) -> int:
    class Run:
        def __init__(self, row: Any, directory: Path, seed: int, mutant: str = "", **limits: float) -> None:
            self._result = results.get(row.name) or TransactionResult(row)
            if row in caught:
                self._result.findings.add("torn", "a transaction")

        def run(self, seconds: float) -> TransactionResult:
            return self._result

    monkeypatch.setattr(report, "TransactionRun", Run)
    return report.run_transactions(NAMES, 0.0, Path("nowhere"), 1, unbroken=False)


def test_enough_is_enough_and_the_last_line_has_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(monkeypatch, enough()) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (line["transactions"], line["kills"], line["epoch_wraps"]) == (20_000, 290, 1)
    assert line["by_client"] == {"sdk": 8_000, "librdkafka": 8_000, "java": 4_000}
    assert line["cut_off"] == {"producers": 1, "txn": 1}
    assert set(line["failpoints_hit"].values()) == {10}
    assert (line["mutants"], line["mutants_caught"]) == (7, 7)
    assert [line[kind] for kind in ("torn", "aborted_reads", "duplicates", "hanging")] == [0, 0, 0, 0]


Change = Callable[[TransactionResult, TransactionResult, TransactionResult], Any]


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        (lambda killed, *_: killed.findings.by_client.subtract(sdk=1), "transactions: 19999"),
        (lambda killed, *_: killed.findings.by_client.subtract(java=1, sdk=-1), "transactions of java: 3999"),
        (lambda killed, *_: killed.steps.subtract({STEP: 1}), f"kills {STEP}: 9"),
        (lambda killed, *_: killed.steps.clear(), "kills: 0"),
        (lambda _, zombies, __: zombies.cuts.subtract(txn=1), "cut off: txn: 0"),
        (lambda _, zombies, __: zombies.findings.fenced.subtract({"sdk-1": 1}), "fenced of sdk: 5"),
        (lambda _, zombies, __: setattr(zombies, "epoch_wraps", 0), "epoch wraps: 0"),
        (lambda _, __, replayed: setattr(replayed, "replayed", 999), "replayed: 999"),
        (lambda _, __, replayed: replayed.failures.append("hanging: a-0"), "hanging: a-0"),
    ],
)
def test_less_fails_and_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], change: Change, missed: str
) -> None:
    results = enough()
    change(*results.values())
    assert code_of(monkeypatch, results) == 1
    assert missed in capsys.readouterr().out


@pytest.mark.parametrize("row", MUTANT_ROWS, ids=lambda row: row.name)
def test_a_mutant_that_is_not_caught_fails(monkeypatch: pytest.MonkeyPatch, row: Any) -> None:
    assert code_of(monkeypatch, enough(), [each for each in MUTANT_ROWS if each is not row]) == 1


def test_who_is_ahead_waits_so_that_each_kind_has_its_share(tmp_path: Path) -> None:
    """Java ends one transaction where each of the others could end ten."""
    paces = {kind: Pace(tmp_path, kind, KINDS) for kind in KINDS}
    count = Counter[str]()
    for turn in range(2_000):
        for kind, pace in paces.items():
            if not pace.is_ahead and (kind != "java" or turn % 10 == 0):
                pace.on_end()
                count[kind] += 1
    assert count["java"] == 200
    assert count["java"] >= report.LEAST_SHARE * count.total()
    assert ended(tmp_path, KINDS) == count.total()
    assert not Pace(tmp_path, "sdk", ["sdk"]).is_ahead, "alone it waits for no one"


def test_the_last_row_goes_on_until_there_are_enough_and_no_longer_than_a_run_may_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results, owed = enough(), dict[str, int]()
    results["F11"].findings.by_client.subtract({"sdk": 5_000})

    def run_one(row: Any, directory: Path, seed: int, scale: float, least: int, give_up_at: float) -> TransactionResult:
        owed[row.name] = least
        return results[row.name]

    monkeypatch.setattr(report, "_run", run_one)
    monkeypatch.setattr(report, "catch_all", lambda *given, **how: Caught(len(MUTANT_ROWS), failed=False))
    report.run_transactions(NAMES, 0.0, tmp_path, 1, unbroken=False)
    assert owed == {"F11": 0, "F12": 0, "F13": 5_400}

    pace, told = Pace(tmp_path, "sdk", ["sdk"]), list[float]()

    def story(nemesis: Any, seconds: float) -> None:
        told.append(seconds)
        pace.on_end()

    row = SimpleNamespace(story=story, kinds=["sdk"])
    run: Any = SimpleNamespace(result=SimpleNamespace(row=row), nemesis=None, history=tmp_path, _least=4)
    run._give_up_at = time.monotonic() + 60
    TransactionRun.harm(run, 100.0)
    assert (told[0], len(told)) == (100.0, 4)
    run._least, run._give_up_at = 9, 0.0
    TransactionRun.harm(run, 100.0)
    assert len(told) == 5
