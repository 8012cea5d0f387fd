"""A look for garbage goes through what is new, however much there is."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ottla_core.process import garbage
from ottla_core.process.garbage import ShortLooks


@pytest.fixture
def looks() -> Iterator[ShortLooks]:
    looks = ShortLooks()
    looks.start()
    yield looks
    looks.stop()
    gc.unfreeze()


@pytest.mark.usefixtures("looks")
def test_what_has_survived_a_long_look_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "LONG_S", 0.0)
    many = [[n] for n in range(10_000)]
    gc.collect()
    assert len(gc.get_objects()) < len(many)
    later = [[n] for n in range(1_000)]
    assert len(gc.get_objects()) > len(later)


@pytest.mark.usefixtures("looks")
def test_after_a_short_look_garbage_is_found_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "LONG_S", 1000.0)
    frozen = gc.get_freeze_count()
    circles: list[list[object]] = [[] for _ in range(100)]
    for circle in circles:
        circle.append(circle)
    gc.collect()
    assert gc.get_freeze_count() <= frozen
    circle.clear()
    del circle, circles
    assert gc.collect() >= 99


@pytest.mark.usefixtures("looks")
def test_thousands_of_new_objects_are_looked_at_now_and_then() -> None:
    def young() -> int:
        return int(gc.get_stats()[0]["collections"])

    before = young()
    many = [[n] for n in range(10 * garbage.YOUNG)]
    assert 0 < young() - before <= 10
    assert len(many) == 10 * garbage.YOUNG


def test_a_process_that_goes_on_without_it_looks_as_before() -> None:
    before = gc.get_threshold()
    looks = ShortLooks()
    looks.start()
    assert gc.get_threshold() != before
    looks.stop()
    gc.unfreeze()
    assert gc.get_threshold() == before
