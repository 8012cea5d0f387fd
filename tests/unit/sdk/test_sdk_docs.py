"""The snippets of the SDK's pages in docs/ do what they say, as they stand there, against scripted brokers."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

import ottla.consumer
import ottla.producer
from ottla.scripted import ScriptedCluster

DOCS = Path(__file__).parents[3] / "docs"
SNIPPETS = [
    pytest.param(snippet, id=f"{page}-{number}")
    for page in ("serializers", "producer")
    for number, snippet in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL))
]

_groups = (DOCS / "sdk.md").read_text().partition("## Consumer groups\n")[2].partition("\n## ")[0]
SNIPPETS += [
    pytest.param(snippet, id=f"groups-{number}")
    for number, snippet in enumerate(re.findall(r"```python\n(.*?)```", _groups, re.DOTALL))
]


@pytest.mark.feature(3)
@pytest.mark.feature(60)
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_runs_as_it_stands(snippet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster({"orders": 3, "xml": 1})
    for module in (ottla.producer, ottla.consumer):
        monkeypatch.setattr(module, "grpc_transport", lambda _client: cluster.connect)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "b0:1")
    module = types.ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", module)  # where dataclasses look their annotations up
    exec(snippet, vars(module))  # the page is ours
    assert any(log.batches for log in cluster.logs.values()) or cluster.groups.group("audit").left
