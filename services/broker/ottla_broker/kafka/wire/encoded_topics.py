"""Topics as Metadata's response has them. They are encoded once, and kept as long as they do not change.

An image says at which revision a topic or one of its partitions last changed. All topics together are kept, too,
because hundreds of clients may request them at once: the first request encodes them while the others wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla_broker.kafka.wire.metadata import Terms, write_partition, write_topic_head, write_topic_tail
from ottla_core.cluster.image import ClusterImage, Topic
from ottla_core.event_loop.slices import Slice
from ottla_core.model import PartitionId, TopicId

MAX_BYTES: Final = 64 * 1024 * 1024
ENTRY_BYTES: Final = 256
"""The memory that a topic takes in addition to its bytes."""
_LOOK_INTERVAL: Final = 64
"""It counts topics or partitions. A request with fewer of them waits for no other."""


class _Encoded(NamedTuple):
    """A topic, or all of them, and the revision of the last change."""

    revision: int
    topics: int
    data: bytes


class EncodedTopics:
    """Keeps encoded topics. `turn` is for requests of all topics, one at a time. `held_bytes` counts the bytes that are
    kept."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.held_bytes = 0
        self.turn: Final = asyncio.Lock()
        self._max_bytes: Final = max_bytes
        self._kept: Final[dict[Terms, dict[TopicId | None, _Encoded]]] = {}
        self._slice: Final = Slice()  # one for all requests together

    async def all(self, image: ClusterImage, terms: Terms, since: int) -> tuple[int, bytes]:
        """Return the number of all topics, and their bytes. They are from `image`, or from an older image that has all
        the changes up to revision `since`. In `turn`."""
        encoded = self._kept.get(terms, {}).get(None)
        if encoded is None or encoded.revision < since:
            parts = await self.encode(image, image.topics.values(), terms)
            encoded = _Encoded(image.topics_revision, len(parts), b"".join(parts))
            self._keep(image, terms, None, encoded)
        return encoded.topics, encoded.data

    async def encode(self, image: ClusterImage, topics: Iterable[Topic | bytes], terms: Terms) -> list[bytes]:
        """Return each topic's bytes. Elements that are bytes already are returned as they are."""
        kept = self._kept.get(terms, {})
        parts: list[bytes] = []
        for topic in topics:
            if isinstance(topic, Topic):
                encoded = kept.get(topic.id)
                if encoded is None or encoded.revision != image.topic_revisions[topic.id]:
                    encoded = await self._encode(image, topic, terms)
                    self._keep(image, terms, topic.id, encoded)
                topic = encoded.data
            parts.append(topic)
            if len(parts) % _LOOK_INTERVAL == 0:
                await self._slice.rest()
        return parts

    async def _encode(self, image: ClusterImage, topic: Topic, terms: Terms) -> _Encoded:
        parts = [write_topic_head(terms.version, topic.name, topic.id, topic.partition_count)]
        for number in range(topic.partition_count):
            parts.append(write_partition(terms, number, image.partitions[PartitionId(topic.id, number)]))
            if len(parts) % _LOOK_INTERVAL == 0:
                await self._slice.rest()
        parts.append(write_topic_tail(terms.version, operations=terms.operations))
        return _Encoded(image.topic_revisions[topic.id], 1, b"".join(parts))

    def _keep(self, image: ClusterImage, terms: Terms, key: TopicId | None, encoded: _Encoded) -> None:
        """Keep encoded topics. If there is no room, all others are forgotten: topics that are requested are soon kept
        again."""
        self._forget_deleted(image, terms)
        before = self._kept.get(terms, {}).get(key)
        self.held_bytes += _size(encoded) - (0 if before is None else _size(before))
        if self.held_bytes > self._max_bytes:
            self._kept.clear()
            self.held_bytes = _size(encoded)
        self._kept.setdefault(terms, {})[key] = encoded

    def _forget_deleted(self, image: ClusterImage, terms: Terms) -> None:
        """Forget deleted topics once they may be as many as the others, so that looking for them costs little."""
        kept = self._kept.get(terms, {})
        if len(kept) > 2 * (len(image.topics) + 1):
            for key in [each for each in kept if each is not None and each not in image.topic_revisions]:
                self.held_bytes -= _size(kept.pop(key))


def _size(encoded: _Encoded) -> int:
    return len(encoded.data) + ENTRY_BYTES
