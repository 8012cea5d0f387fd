"""The methods of the clients' contracts that can be called over Kafka's protocol, each with its translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.client.kafka.translations.epoch_ends import EpochEndsTranslation
from ottla.client.kafka.translations.fetch import FetchSession
from ottla.client.kafka.translations.list_offsets import ListOffsetsTranslation
from ottla.client.kafka.translations.metadata import MetadataTranslation
from ottla.client.kafka.translations.produce import ProduceTranslation
from ottla.client.kafka.translations.producer_id import ProducerIdTranslation
from ottla.client.kafka.translations.translation import Translation
from ottla.errors import ErrorCode, OttlaError
from ottla_proto.contracts import Broker, Method

_TRANSLATIONS: Final[Mapping[str, Callable[[], Translation]]] = {
    Broker.METADATA.path: MetadataTranslation,
    Broker.PRODUCE.path: ProduceTranslation,
    Broker.LIST_OFFSETS.path: ListOffsetsTranslation,
    Broker.OFFSETS_FOR_LEADER_EPOCH.path: EpochEndsTranslation,
    Broker.INIT_PRODUCER_ID.path: ProducerIdTranslation,
}


def translations_of(method: Method[Any, Any]) -> Callable[[], Translation]:
    """Return a function that makes the translation of each call of a method on one stream.

    Raises OttlaError with UNSUPPORTED_VERSION if Kafka's protocol has no such call.
    """
    if method is Broker.FETCH:
        return FetchSession()
    translation = _TRANSLATIONS.get(method.path)
    if translation is None:
        reason = f"{method.name} can't be called over Kafka's protocol yet"
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, reason)
    return translation
