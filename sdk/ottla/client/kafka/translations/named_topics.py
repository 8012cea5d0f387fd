"""The topics of one request, which has names in Kafka's messages, and ids in the contracts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

from ottla.client.grouping import grouped
from ottla.client.kafka.translations.topic_names import TopicNames


class OfTopic(Protocol):
    """A part of a request that concerns one partition."""

    @property
    def topic_id(self) -> bytes: ...


Part = TypeVar("Part", bound=OfTopic)
Spelled = TypeVar("Spelled")
Partition = TypeVar("Partition")


class NamedTopics:
    """The names of a request's topics, by which the response names them, too."""

    def __init__(self) -> None:
        self._ids: Final[dict[str, bytes]] = {}

    def group(
        self, parts: Iterable[Part], spelled: Callable[[Part], Spelled], names: TopicNames
    ) -> dict[str, list[Spelled]]:
        """Return the parts in the form of Kafka's message, by the names of their topics. Raises UNKNOWN_TOPIC_ID."""
        named = [(names.name_of(part.topic_id), part) for part in parts]
        self._ids.update((name, part.topic_id) for name, part in named)
        return grouped((name, spelled(part)) for name, part in named)

    def with_ids(self, topics: Iterable[tuple[str, Iterable[Partition]]]) -> Iterator[tuple[bytes, Partition]]:
        """Yield each partition of a response with the id of its topic. Topics that were not requested are left out."""
        for name, partitions in topics:
            if name in self._ids:
                for partition in partitions:
                    yield self._ids[name], partition
