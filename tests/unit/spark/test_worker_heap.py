"""What Spark's workers look through for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from pyspark_ottla import worker_heap


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    """These tests' process has frozen what it has imported, too."""
    gc.unfreeze()
    worker_heap._freeze.cache_clear()
    yield
    worker_heap._freeze.cache_clear()
    gc.freeze()


def test_the_end_of_a_workers_first_task_freezes_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    worker_heap.on_task_end()
    assert (frozen := gc.get_freeze_count()) > 10_000
    kept: list[list[int]] = [[] for _ in range(1000)]
    worker_heap.on_task_end()
    assert gc.get_freeze_count() <= frozen, f"and nothing of a later one: {len(kept)} lists"


def test_a_driver_that_reads_a_range_itself_is_left_alone() -> None:
    worker_heap.on_task_end()
    assert gc.get_freeze_count() == 0
