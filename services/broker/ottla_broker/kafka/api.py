"""The description of one of Kafka's APIs. Each handler's module contains the only description of its API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ottla_broker.kafka.authorization.needs import Need
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.error_codes import Errors
from ottla_broker.kafka.network.connection import HandlerResult
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.kafka.message import Message
from ottla_core.kafka.schema import schema_of
from ottla_core.kafka_formats.primitives import MAX_ELEMENTS
from ottla_proto.contracts import Method

Handler = Callable[[Backend, KafkaContext], HandlerResult]


@dataclass(frozen=True)
class Api:
    """What a broker serves of one API.

    `versions` are the first and the last version that are served. `needs` are the rights that a client needs for what
    its request names, and for what the response describes. `errors` are the codes that a response may carry.
    `forwards` is the method of another service that decides. Without one, this broker responds by itself. If
    `advertised_from` is set, ApiVersions names it as the minimum, instead of the first version. `unstable` is the last
    version that Kafka serves only with unstable.api.versions.enable. All arrays of a request together have at most
    `most_elements`.
    """

    request: type[Message]
    versions: tuple[int, int]
    handler: Handler
    needs: frozenset[Need]
    errors: Errors
    forwards: Method[Any, Any] | None = None
    advertised_from: int | None = None
    unstable: int | None = None
    most_elements: int = MAX_ELEMENTS

    @property
    def key(self) -> int:
        return self.request.API_KEY

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    @cached_property
    def flexible(self) -> range:
        """The versions with compact fields and tags (KIP-482)."""
        return schema_of(self.request.__name__).flexible

    @property
    def min_version(self) -> int:
        return self.versions[0]

    @property
    def max_version(self) -> int:
        return self.versions[1]

    @property
    def advertised_min(self) -> int:
        return self.min_version if self.advertised_from is None else self.advertised_from
