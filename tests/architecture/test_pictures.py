"""The pictures of docs/design/ are drawn from the imports as they are."""

from __future__ import annotations

from tools import pictures


def test_the_pictures_are_current() -> None:
    assert pictures.main(["--check"]) == 0, "run `make pictures`"


def test_what_imports_what_is_drawn() -> None:
    drawn = {path.stem: svg.count("<path") for path, svg in pictures.pictures().items()}
    assert drawn.keys() >= {"core", "broker", "controller", "group-coordinator", "inside-the-sdk", "spark"}
    assert min(drawn.values()) >= 2
