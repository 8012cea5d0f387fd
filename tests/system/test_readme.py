"""The README's snippets do what it says, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ottla
from ottla.testing import Cluster

README = (Path(__file__).parents[2] / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SNIPPETS = [snippet for snippet in PYTHON if "pyspark" not in snippet]  # that one: tests/spark/test_spark_readme.py


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_a_snippet_runs_as_it_stands(
    snippet: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster() as cluster:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
        ottla.Admin().topics.create("orders", partitions=3)
        names: dict[str, object] = {}
        exec(snippet, names)  # the README is ours
        if "rows" in names:
            assert sorted(names["rows"]) == list(range(10_000))  # type: ignore[call-overload]
        else:
            assert "{'id': 1, 'total': 9.5}" in capsys.readouterr().out


def test_the_two_commands_are_there() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    for command in re.findall(r"^make ([a-z-]+)", README, re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command
    assert len(SNIPPETS) >= 2
