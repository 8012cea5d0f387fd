"""The README's snippets do what it says, as they stand there."""

from __future__ import annotations

import re

import pytest
from tests.walk.pages import ROOT, programs, readme_programs, text

import ottla
from ottla.testing import Cluster

SNIPPETS = readme_programs()  # the one for Spark: tests/spark/test_spark_readme.py


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
            assert sorted(names["rows"]) == list(range(10_000))  # type: ignore[call-overload]  # what the snippet has made
        else:
            assert "{'id': 1, 'total': 9.5}" in capsys.readouterr().out


def test_the_snippet_for_an_unchanged_kafka_client_runs() -> None:
    (snippet,) = (program for program in programs(text("README.md")) if "confluent_kafka" in program)
    with Cluster() as cluster:
        admin = ottla.Admin(cluster.bootstrap)
        admin.topics.create("orders", partitions=3)
        exec(snippet.replace("localhost:9092", cluster.bootstrap), {})  # the README is ours
        with ottla.Producer(cluster.bootstrap, topic="orders") as producer:
            producer.send({"id": 1}, key="eu")
        first, second = ottla.read("orders", bootstrap=cluster.bootstrap)
    assert (first.key, first.value) == ("eu", '{"id": 2}')
    assert first.partition == second.partition, "a key has one partition, whatever client sends it"


def test_the_two_commands_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make ([a-z-]+)", text("README.md"), re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command
    assert len(SNIPPETS) >= 2
