"""How a job runs its stream, with queries that end as the test says."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

import job

NO_PYTHON = "[STREAM_FAILED] Query [id = 1] terminated with exception: Python worker failed to connect back."


class Writer:
    """Each start takes the next outcome: a failure, or "" for a query that ends. `before_end` is called before it."""

    def __init__(self, *outcomes: str, before_end: Callable[[], None] = lambda: None) -> None:
        self.outcomes = list(outcomes)
        self.before_end = before_end
        self.options: list[tuple[str, str]] = []

    def option(self, name: str, value: str) -> Writer:
        self.options.append((name, value))
        return self

    def trigger(self, **_: object) -> Writer:
        return self

    def start(self) -> Any:
        return SimpleNamespace(awaitTermination=lambda _: self._end(self.outcomes.pop(0)))

    def _end(self, outcome: str) -> bool:
        self.before_end()
        if outcome:
            raise StreamingQueryException(outcome)
        return True


def run(writer: Writer) -> object:
    options = SimpleNamespace(checkpoint=None, available_now=True)
    return job.run_stream(cast(Any, writer), cast(Any, options), "lake")


class Hours:
    """A clock that stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def take(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hours:
    clock = Hours()
    monkeypatch.setattr(job, "time", clock)
    return clock


@pytest.mark.story("python-is-late-three-times")
def test_a_query_for_which_python_starts_too_late_starts_again_and_says_so(
    clock: Hours, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = Writer(*[NO_PYTHON] * 29, "", before_end=lambda: clock.take(10))
    assert run(writer)
    assert (writer.outcomes, writer.options) == ([], [("checkpointLocation", "lake/_checkpoint")])
    assert capsys.readouterr().err.count("so the query starts again") == 29


def test_a_query_fails_where_python_does_not_start_for_minutes(clock: Hours) -> None:
    writer = Writer(*[NO_PYTHON] * 50, before_end=lambda: clock.take(10))
    with pytest.raises(StreamingQueryException, match="failed to connect back"):
        run(writer)
    assert len(writer.outcomes) == 50 - 31


def test_a_query_that_ran_for_hours_has_all_the_time_to_start_again(clock: Hours) -> None:
    writer = Writer(NO_PYTHON, NO_PYTHON, "", before_end=lambda: clock.take(3_600))
    assert run(writer)


def test_a_query_that_fails_for_another_reason_is_not_started_again() -> None:
    writer = Writer("the disk is full", "")
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        run(writer)
    assert writer.outcomes == [""]


def test_a_job_that_is_stopped_starts_nothing_again() -> None:
    writer = Writer(NO_PYTHON, "", before_end=lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(StreamingQueryException, match="failed to connect back"):
        run(writer)
    assert writer.outcomes == [""]


@pytest.mark.parametrize(
    ("failure", "calls"),
    [
        (PySparkException("[PYTHON_DATA_SOURCE_ERROR] Python worker failed to connect back."), 2),
        (StreamingQueryException(NO_PYTHON), 1),
        (PySparkException("there is no such topic"), 1),
    ],
)
def test_a_job_runs_again_where_planning_found_no_python_and_no_stream_was_tried(
    failure: PySparkException, calls: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = [failure]
    runs = []

    def run_once(spark: object, options: object) -> dict[str, int]:
        runs.append(spark)
        if failures:
            raise failures.pop()
        return {"rows": 1}

    monkeypatch.setattr(sys, "argv", ["count.py"])
    monkeypatch.setattr(job, "session", lambda *_: SimpleNamespace(stop=lambda: None))
    assert job.main(job.parser("A job."), run_once) == (0 if calls == 2 else job.FAILED)
    assert len(runs) == calls
    assert ("so count starts again" in capsys.readouterr().err) is (calls == 2)
