"""How a job runs its stream, with queries that end as the test says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException

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


def test_a_query_that_spark_started_no_python_for_is_started_again_from_its_checkpoint() -> None:
    writer = Writer(NO_PYTHON, NO_PYTHON, "")
    assert run(writer)
    assert (writer.outcomes, writer.options) == ([], [("checkpointLocation", "lake/_checkpoint")])


@pytest.mark.parametrize("outcomes", [(NO_PYTHON, NO_PYTHON, NO_PYTHON, ""), ("the disk is full", "")])
def test_what_fails_again_or_for_another_reason_fails_the_job(outcomes: tuple[str, ...]) -> None:
    writer = Writer(*outcomes)
    with pytest.raises(StreamingQueryException, match=outcomes[0][-20:]):
        run(writer)
    assert writer.outcomes == [""]


def test_a_job_that_is_stopped_starts_nothing_again() -> None:
    writer = Writer(NO_PYTHON, "", before_end=lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(StreamingQueryException, match="failed to connect back"):
        run(writer)
    assert writer.outcomes == [""]
