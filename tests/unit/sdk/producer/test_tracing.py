"""A span for each record where OpenTelemetry is set up, and nothing at all where it is not."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags

from ottla.errors import SerializationError
from ottla.fakes.scripted import ScriptedCluster
from ottla.producer.interceptors import ProducerInterceptor
from ottla.producer.producer import Producer


class NotedSpan(trace.NonRecordingSpan):
    """A span that keeps what it is told, as an SDK's does."""

    def __init__(self, number: int, name: str, parent: SpanContext, **given: Any) -> None:
        super().__init__(SpanContext(parent.trace_id or 0xABC, number, False, TraceFlags(TraceFlags.SAMPLED)))
        self.name, self.parent, self.kind = name, parent, given["kind"]
        self.attributes: dict[str, Any] = dict(given["attributes"] or {})
        self.ended = False
        self.status: Any = None

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status

    def end(self, end_time: int | None = None) -> None:
        self.ended = True


class NotingTracer(trace.NoOpTracer):
    def __init__(self) -> None:
        self.spans: list[NotedSpan] = []

    def start_span(self, name: str, context: Any = None, *args: Any, **given: Any) -> NotedSpan:
        parent = trace.get_current_span(context).get_span_context()
        self.spans.append(NotedSpan(len(self.spans) + 1, name, parent, **given))
        return self.spans[-1]


class NotingProvider(trace.TracerProvider):
    def __init__(self) -> None:
        self.tracer = NotingTracer()

    def get_tracer(self, *args: Any, **given: Any) -> NotingTracer:
        return self.tracer


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[NotedSpan]:
    provider = NotingProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return provider.tracer.spans


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    return Producer("b0:1", topic="t", client_id="me", _transport=cluster.connect, **arguments)


def test_a_span_lasts_until_the_outcome_and_travels_with_the_record(spans: list[NotedSpan]) -> None:
    cluster = ScriptedCluster({"t": 1})
    parent = trace.NonRecordingSpan(SpanContext(0xFACE, 0xBEE, False, TraceFlags(TraceFlags.SAMPLED)))
    with producer_of(cluster) as producer:
        with trace.use_span(parent):
            producer.send("a", headers={"mine": "x", "traceparent": "old"})
        producer.send("b")
    first, second = spans
    headers = [sorted(record[4]) for record in cluster.records("t", 0)]
    assert headers[0] == [("mine", b"x"), ("traceparent", b"00-%032x-%016x-01" % (0xFACE, 1))]
    assert headers[1] == [("traceparent", b"00-%032x-%016x-01" % (0xABC, 2))]
    assert (first.name, first.kind, first.parent.span_id) == ("send t", SpanKind.PRODUCER, 0xBEE)
    assert first.ended
    assert first.status is None
    assert second.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.type": "send",
        "messaging.destination.name": "t",
        "messaging.client.id": "me",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 1,
    }


def test_a_failure_is_the_span_s_status(spans: list[NotedSpan]) -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, interceptors=[ProducerInterceptor()]) as producer:
        with pytest.raises(SerializationError, match="auto serializer"):
            producer.send(object())
        with pytest.raises(SerializationError, match="headers="):
            producer.send("x", headers=5)  # type: ignore[arg-type]  # as by mistake
    assert [(span.status, span.ended) for span in spans] == [(StatusCode.ERROR, True)] * 2


def test_nothing_happens_where_opentelemetry_is_not_set_up_or_not_installed() -> None:
    with producer_of(ScriptedCluster({"t": 1})) as producer:
        assert "send" not in vars(producer)
    absent = "import sys; sys.modules['opentelemetry'] = None; "
    script = f"{absent}from ottla.producer.tracing import tracing; assert tracing('x') is None"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
