"""The snippets of the SDK's pages in docs/ do what they say, as they stand there, against scripted brokers."""

from __future__ import annotations

import sys
import types

import pytest
from tests.walk.pages import programs, section, text

import ottla.consumer.consumer
import ottla.producer.producer
from ottla.fakes.scripted import ScriptedCluster

PAGES = {
    "serializers": text("docs/use/serializers.md"),
    "producer": text("docs/use/producer.md"),
    "transactions": text("docs/use/transactions.md"),
    "groups": section("docs/use/sdk.md", "Consumer groups"),
}
SNIPPETS = [
    pytest.param(snippet, id=f"{page}-{number}")
    for page, markdown in PAGES.items()
    for number, snippet in enumerate(programs(markdown))
]


@pytest.mark.feature(3)
@pytest.mark.feature(60)
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_runs_as_it_stands(snippet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster({"orders": 3, "xml": 1})
    monkeypatch.setattr(ottla.producer.producer, "KafkaTransport", lambda *_: cluster.connect)
    monkeypatch.setattr(ottla.consumer.consumer, "KafkaTransport", lambda *_: cluster.connect)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "b0:1")
    module = types.ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", module)  # where dataclasses look their annotations up
    exec(snippet.replace("timeout=10", "timeout=1"), vars(module))  # the page is ours; nothing comes in one of them
    assert any(log.batches for log in cluster.logs.values()) or cluster.groups.group("audit").left
