"""How one call of a client is expressed in Kafka's messages.

Above the transport, clients have messages of `ottla_proto`: their own (`client.proto`) and those of coordinators and
controllers. They name topics by id, and are the same in every version of Kafka's messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from ottla.client.kafka.apis import AnyApi
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla_core.kafka.message import Message


class Terms(NamedTuple):
    """What both directions of a translation depend on, besides the message. `features` are known only for a
    response."""

    version: int
    timeout_ms: int
    names: TopicNames
    features: Mapping[str, int] = MappingProxyType({})


class Translation(Protocol):
    """The translation of one call of a method."""

    @property
    def api(self) -> AnyApi: ...
    def request(self, request: Any, terms: Terms) -> Message:
        """Return the request as a message of Kafka's. Raises OttlaError if this version can't express it."""
        ...

    def response(self, response: Any, terms: Terms) -> object:
        """Return the response as a message of the contract, or as an object with the attributes of that message."""
        ...
