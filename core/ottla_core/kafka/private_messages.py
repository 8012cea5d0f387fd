"""The classes of the messages that are ottla's own. `tools/kafka_definitions.py` writes this file from
`private_definitions.json`."""

from __future__ import annotations

from typing import ClassVar

from ottla_core.kafka.message import Message


class OttlaCallRequest(Message):
    API_KEY: ClassVar = 28532
    __slots__ = ("method", "timeout_ms", "body",)

    def __init__(self, *, method: str = '', timeout_ms: int = 0, body: bytes = b'',) -> None:
        self.method = method
        self.timeout_ms = timeout_ms
        self.body = body


class OttlaCallResponse(Message):
    API_KEY: ClassVar = 28532
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "body",)

    def __init__(
        self, *, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = '',
        body: bytes = b'',
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.body = body
