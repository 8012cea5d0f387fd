"""Interceptors see every record before it is serialized, and every outcome (Kafka's ProducerInterceptor, KIP-42).

They form a chain: each gets the record that the one before it returned. If one raises, the error is logged and the
record goes on as it was: an interceptor can observe and enrich records, but not reject them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from ottla.errors import OttlaError, config_error
from ottla.producer.delivery import Delivery, RecordMetadata
from ottla.producer.producer_record import ProducerRecord

logger = logging.getLogger("ottla.producer")

OnOutcome = Callable[[RecordMetadata, OttlaError | None], object]
"""Called with (where the record is, None), or with (where it was to go, -1 for unknown values; the error)."""


class ProducerInterceptor:
    """A base class for interceptors. You may also pass any other object with at least one of the two methods."""

    def on_send(self, record: ProducerRecord[Any, Any]) -> ProducerRecord[Any, Any]:
        """Handle a record in the sending thread, before it is serialized.

        Return the record to send: the same record or another one.
        """
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: OttlaError | None) -> None:
        """Handle the outcome, on the callback thread, or on the sending thread if `send` rejects the record."""


class Hook(Protocol):
    """What `Intercepted` calls for each record. Neither it nor the callback that it returns ever raises."""

    def on_send(self, record: ProducerRecord[Any, Any]) -> tuple[ProducerRecord[Any, Any], OnOutcome | None]:
        """Return the record to send, and what to call with its outcome."""


class Intercepted:
    """A producer's `send` with hooks around it."""

    def __init__(self, send: Callable[..., Delivery], topic: str | None, hooks: Sequence[Hook]) -> None:
        self._send = send
        self._topic = topic
        self._hooks = hooks

    def __call__(self, value: Any, *, topic: str | None = None, **arguments: Any) -> Delivery:
        """Like Producer.send."""
        record = ProducerRecord(value, topic=topic or self._topic, **arguments)
        waiting: list[OnOutcome] = []
        for hook in self._hooks:
            record, on_outcome = hook.on_send(record)
            if on_outcome is not None:
                waiting.append(on_outcome)
        try:
            delivery = self._send(record.value, **record.arguments())
        except OttlaError as error:
            partition = -1 if record.partition is None else record.partition
            where = RecordMetadata(record.topic or "", partition, -1, -1)
            for on_outcome in waiting:
                on_outcome(where, error)
            raise
        for on_outcome in waiting:
            delivery.on_outcome(on_outcome)
        return delivery


class InterceptorHook:
    """A user's interceptor as a Hook: its errors go to the log, once for each of its methods."""

    def __init__(self, interceptor: object) -> None:
        self._name: Final = type(interceptor).__name__
        self._on_send: Final[Any] = getattr(interceptor, "on_send", None)
        self._on_acknowledgement: Final[Any] = getattr(interceptor, "on_acknowledgement", None)
        self._complained: set[str] = set()
        if not callable(self._on_send) and not callable(self._on_acknowledgement):
            raise config_error(
                f"interceptors: {interceptor!r:.80} has neither on_send nor on_acknowledgement",
                hint="derive it from ottla.ProducerInterceptor",
            )

    def on_send(self, record: ProducerRecord[Any, Any]) -> tuple[ProducerRecord[Any, Any], OnOutcome | None]:
        """Return the record that the interceptor returns, or the one it got if it fails."""
        on_outcome = self._on_outcome if self._on_acknowledgement is not None else None
        if self._on_send is None:
            return record, on_outcome
        try:
            returned = self._on_send(record)
            if not isinstance(returned, ProducerRecord):
                raise TypeError(f"on_send returned {type(returned).__name__}, not a ProducerRecord")  # noqa: TRY301
        except Exception:
            self._complain("on_send")
            return record, on_outcome
        return returned, on_outcome

    def _on_outcome(self, metadata: RecordMetadata, error: OttlaError | None) -> None:
        try:
            self._on_acknowledgement(metadata, error)
        except Exception:
            self._complain("on_acknowledgement")

    def _complain(self, method: str) -> None:
        if method not in self._complained:
            self._complained.add(method)
            logger.exception("the interceptor %s failed in %s; further failures are not logged", self._name, method)
