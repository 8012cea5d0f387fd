"""Both directions of an exchange, over the wire form of its messages."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from ottla.client.kafka.exchange import Exchange
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message

T = TypeVar("T")

TIMEOUT_MS: Final = 1500


def sent(asked: Exchange[Any], version: int, timeout_ms: int = TIMEOUT_MS) -> Any:
    """Return the request as a broker reads it."""
    body = codec.encode(asked.builder(timeout_ms)(version), version)
    return codec.decode(asked.api.request, body, version)


def meaning(asked: Exchange[T], response: Message, version: int, *, private: bool = True) -> T:
    """Return what a response means to a client. Brokers of ottla send `private` fields, unlike those of Kafka."""
    assert type(response) is asked.api.response
    body = codec.encode(response, version, private=private)
    return asked.result(codec.decode(asked.api.response, body, version), "b0:1")
