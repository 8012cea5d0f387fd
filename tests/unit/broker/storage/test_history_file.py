"""A data directory notes the history of the metadata that its broker has followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla_broker.storage.checkpoint import read_history, write_history
from ottla_broker.storage.disk import Disk
from ottla_core.cluster.history import History, Term

HISTORY = History((Term("a1", 1), Term("b2", 17)), 31, 2)


@pytest.mark.parametrize("history", [HISTORY, History(), History(restored=1)])
def test_a_history_comes_back_from_its_file(tmp_path: Path, history: History) -> None:
    write_history(Disk(tmp_path), tmp_path / "noted", history)
    assert read_history(tmp_path / "noted") == history


@pytest.mark.parametrize(
    "text",
    ["0\n1\n3 4711\n", "", "0\n0\n", "0\n1\nseq x restored 1\n", "0\n2\nseq 3 restored 0\n", "0\n1\nseq 3\nrestored 0"],
    ids=["an earlier release", "empty", "no line", "no number", "cut", "torn"],
)
def test_a_file_of_an_earlier_release_or_a_damaged_one_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "noted").write_text(text)
    assert read_history(tmp_path / "noted") == History()
    assert read_history(tmp_path / "missing") == History()
