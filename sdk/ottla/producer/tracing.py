"""OpenTelemetry, if it is installed and set up: a span for each sent record, and a `traceparent` header.

`ottla` does not depend on opentelemetry-api. When a producer is made, it checks once whether the application has set a
tracer provider; without one it does nothing for any record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.errors import OttlaError
from ottla.producer.delivery import RecordMetadata
from ottla.producer.interceptors import Hook, InterceptorHook, OnOutcome
from ottla.producer.producer_record import ProducerRecord
from ottla.serdes.serdes import HeadersLike

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


def tracing(client_id: str) -> SendTracing | None:
    """Return the hook that traces a producer's records, or None if OpenTelemetry is not set up."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return SendTracing(provider.get_tracer("ottla"), client_id)


def hooks_of(interceptors: Sequence[object], client_id: str) -> list[Hook]:
    """Return the hooks for a producer's records: the user's interceptors, then OpenTelemetry if it is set up."""
    hooks: list[Hook] = [InterceptorHook(interceptor) for interceptor in interceptors]
    if traced := tracing(client_id):
        hooks.append(traced)
    return hooks


class SendTracing:
    """The hook of OpenTelemetry. A span lasts from `send` to the outcome; its parent is the sender's current span."""

    def __init__(self, tracer: Tracer, client_id: str) -> None:
        self._tracer = tracer
        self._client_id = client_id

    def on_send(self, record: ProducerRecord[Any, Any]) -> tuple[ProducerRecord[Any, Any], OnOutcome | None]:
        """Return the record with the headers of its span (W3C trace context, or what the application has chosen)."""
        from opentelemetry import propagate, trace

        span = self._tracer.start_span(
            f"send {record.topic}",
            kind=trace.SpanKind.PRODUCER,
            attributes={
                "messaging.system": "kafka",
                "messaging.operation.type": "send",
                "messaging.destination.name": record.topic or "",
                "messaging.client.id": self._client_id,
            },
        )
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        return replace(record, headers=_with(record.headers, carrier)), lambda where, error: _end(span, where, error)


def _with(headers: Any, carrier: Mapping[str, str]) -> HeadersLike:
    """Return `headers` with the carrier's, which win. Invalid headers stay as they are, for `send` to reject."""
    try:
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers or ())
        return [*((name, text) for name, text in pairs if name not in carrier), *carrier.items()]
    except (TypeError, ValueError):
        return headers  # type: ignore[no-any-return]  # invalid: `send` raises for them


def _end(span: Span, where: RecordMetadata, error: OttlaError | None) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("messaging.destination.partition.id", str(where.partition))
    if error is None:
        span.set_attribute("messaging.kafka.offset", where.offset)
    else:
        span.record_exception(error)
        span.set_status(StatusCode.ERROR, error.message)
    span.end()
