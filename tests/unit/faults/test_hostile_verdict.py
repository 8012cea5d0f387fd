"""What F21 makes of what was measured: a figure beyond its bound, or a phase that tells nothing, is a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.faults.history import HistoryWriter
from tests.faults.hostile.report import hostile_summary
from tests.faults.hostile.row import BOUNDS, PAIRS, WAYS, HostileRun, Phase

PHASE_S = 10.0


class Measured:
    """Five pairs of phases in which all was as it must be, and one thing was not."""

    def __init__(self, directory: Path) -> None:
        self.run = HostileRun(directory, 1)
        self.run.complete = True
        figures = self.run.figures
        figures.phases = [Phase(bool(n % 2), n * PHASE_S, (n + 1) * PHASE_S) for n in range(2 * PAIRS)]
        figures.idle_bytes, figures.most_bytes = 100_000_000, 200_000_000
        figures.measured["watchdog_max_ms"] = 30.0
        self.did: dict[str, int] = dict.fromkeys(WAYS, 10)
        self.hostile_ms = {"api_versions": 20.0, "produce": 60.0}
        self.samples = 100
        self.failed = 0

    def judged(self) -> list[str]:
        history = HistoryWriter(self.run.history, "probe")
        for n, phase in enumerate(self.run.figures.phases):
            for kind, hostile_ms in self.hostile_ms.items():
                for sample in range(self.samples):
                    fields: dict[str, Any] = {"due_s": phase.from_s + sample * PHASE_S / self.samples, "error": 0}
                    history.add("ok", kind, ms=hostile_ms if n % 2 else 30.0, **fields)
        for _ in range(self.failed):
            history.add("fail", "produce", ms=30.0, due_s=0.0, error=-1)
        history.add("ok", "hostile", did=self.did)
        history.close()
        self.run.judge(share=1.0)
        return self.run.result.failures


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    return Measured(tmp_path)


def test_all_is_as_it_must_be(measured: Measured) -> None:
    assert measured.judged() == []
    assert not measured.run.caught
    told = hostile_summary(measured.run, caught=True, seed=7)
    assert {name: told[name] for name in BOUNDS} == {
        "api_versions_p99_ms": 20.0,
        "produce_p99_ratio": 2.0,
        "rss_over_idle_mb": 100.0,
        "watchdog_max_ms": 30.0,
    }
    assert (told["pairs"], told["seed"], told["mutants_caught"]) == (PAIRS, 7, 1)


def test_each_figure_has_its_bound(measured: Measured) -> None:
    measured.hostile_ms = {"api_versions": 101.0, "produce": 91.0}
    measured.run.figures.most_bytes = 299_000_000
    measured.run.figures.measured["watchdog_max_ms"] = 101.0
    assert [words.partition(" ")[0] for words in measured.judged()] == list(BOUNDS)
    assert measured.run.caught


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_harm_has_to_be_done(measured: Measured, way: str) -> None:
    del measured.did[way]
    assert measured.judged() == [f"no connection was of the kind '{way}'"]


def test_a_phase_with_too_few_answers_tells_nothing(measured: Measured) -> None:
    measured.samples = 10
    assert len(measured.judged()) == 2 * 2 * PAIRS
    assert measured.run.caught


def test_a_request_that_fails_is_a_failure(measured: Measured) -> None:
    measured.failed = 1
    assert measured.judged() == ["1 requests of the probe failed"]
