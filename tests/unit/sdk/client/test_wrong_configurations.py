"""docs/use/errors.md word for word: its snippets run, and each is answered with the sentence that stands below it."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ottla
import ottla.consumer.consumer
import ottla.producer.producer
from ottla.client import diagnose
from ottla.client.kafka.apis import PRODUCE
from ottla.fakes.scripted import Hold, ScriptedCluster
from ottla_core.host_port import HostPort

PAGE = Path(__file__).parents[4] / "docs/use/errors.md"
LONGEST_S = 10.0


class Example(NamedTuple):
    section: str
    snippet: str
    error: str
    sentence: str


def examples() -> list[Example]:
    found = []
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title = section.splitlines()[0]
        for snippet, error, sentence in re.findall(
            r"```python\n(.*?)```\n\n`(\w+)`: (.*?)(?:\n\n|\Z)", section, re.DOTALL
        ):
            found.append(Example(title, snippet, error, " ".join(sentence.split())))
    return found


EXAMPLES = examples()


def _ask(place: HostPort, question: bytes) -> bytes:
    """What answers at the page's addresses."""
    if place.port == 9650:
        return b"\0\0\x12\x04" + bytes(10)  # a gRPC server's first frame
    if place.port == 8080:
        return b"HTTP/1.1 400 Bad Request"
    if place.host == "kafka.example":
        raise socket.gaierror
    raise ConnectionRefusedError


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedCluster]:
    """Whatever the snippets make, its broker is this one."""
    cluster = ScriptedCluster()
    cluster.addresses = ["localhost:9092"]
    cluster.add_topic("orders", 3)
    cluster.add_topic("refunds", 1)
    made: list[Any] = []
    monkeypatch.setattr(ottla.producer.producer, "KafkaTransport", lambda *_: cluster.connect)
    monkeypatch.setattr(ottla.consumer.consumer, "KafkaTransport", lambda *_: cluster.connect)
    for module, name in ((ottla.producer.producer, "Producer"), (ottla.consumer.consumer, "Consumer")):
        monkeypatch.setattr(ottla, name, _noting(getattr(module, name), made))
    monkeypatch.setattr(diagnose, "_first_bytes", _ask)
    monkeypatch.setattr("ottla.client.metadata_updater.UNKNOWN_TOPIC_GRACE_S", 0.05)
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    yield cluster
    cluster.forget(PRODUCE)
    cluster.release()
    for client in made:
        client.close()


def _noting(kind: Callable[..., Any], made: list[Any]) -> Callable[..., Any]:
    def make(*args: Any, **arguments: Any) -> Any:
        made.append(kind(*args, **arguments))
        return made[-1]

    return make


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{e.section[:12]}-{n}" for n, e in enumerate(EXAMPLES)])
def test_a_mistake_is_answered_with_the_sentence_of_the_page(example: Example, cluster: ScriptedCluster) -> None:
    with ottla.Producer(topic="refunds") as producer:
        producer.send("12 EUR")
    if "full buffer" in example.section:
        cluster.will(PRODUCE, *[Hold()] * 100)
    began = time.monotonic()
    with pytest.raises(ottla.OttlaError) as caught:
        exec(example.snippet, {"ottla": ottla})  # the page is ours
    assert time.monotonic() - began < LONGEST_S
    assert (type(caught.value).__name__, str(caught.value)) == (example.error, example.sentence)
    assert caught.value.hint


def test_the_page_has_the_ten_kinds_and_a_poisonous_record() -> None:
    sections = list(dict.fromkeys(example.section for example in EXAMPLES))
    assert [section.partition(".")[0] for section in sections[:10]] == [str(n) for n in range(1, 11)]
    assert sections[10:] == ["Also: a poison record"]


class PoisonError(Exception):
    """None of the errors that a serializer is expected to raise."""


def _picky(value: Any) -> Any:
    if value in ("bad", b"bad"):
        raise PoisonError("poison")
    return value.encode() if isinstance(value, str) else value.decode()


def test_a_poisonous_record_is_named_and_harms_no_other(cluster: ScriptedCluster) -> None:
    with ottla.Producer(topic="orders", value=_picky) as producer:
        before = producer.send("before", partition=0)
        with pytest.raises(ottla.SerializationError, match=r"the key 'eu'.*PoisonError: poison") as caught:
            producer.send("bad", key="eu", partition=0)
        assert (caught.value.topic, type(caught.value.__cause__)) == ("orders", PoisonError)
        after = producer.send("after", partition=0)
        assert (before.result(10).offset, after.result(10).offset) == (0, 1)
    with ottla.Producer(topic="orders", value="str") as producer:
        producer.send("bad", partition=0)
        producer.send("last", partition=0)
    arguments: dict[str, Any] = {"start": "earliest", "stop": "end", "value": _picky}
    with ottla.Consumer("orders", **arguments) as consumer:
        seen: list[str] = []
        with pytest.raises(ottla.SerializationError) as caught:
            seen.extend(record.value for record in consumer)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 0, 2)
        consumer.seek(("orders", 0), 3)
        assert seen + [record.value for record in consumer] == ["before", "after", "last"]
    with ottla.Consumer("orders", on_bad_record="skip", **arguments) as consumer:
        assert [record.value for record in consumer] == ["before", "after", "last"]
