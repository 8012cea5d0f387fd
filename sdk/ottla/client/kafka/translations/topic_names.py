"""The names of topics by their ids. The clients know topics by id, and older versions of Kafka's APIs by name."""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress
from typing import Final

from ottla.errors import ErrorCode, OttlaError

_MOST: Final = 100_000
"""With names of 60 characters, so many take 30 MB."""


class TopicNames:
    """The names and ids that one client has learned from responses to Metadata.

    A deleted topic is forgotten as soon as a response shows that it is gone: a response that was to have this topic, or
    all of them. Others may delete topics that this client never asks for again. So if it knows more than _MOST, it
    forgets the topic that it has known for longest, and learns it again with its next request for metadata.

    Threads may share it. Each call is one operation on a dict, or several in such an order that a name is at worst
    unknown for a moment.
    """

    def __init__(self) -> None:
        self._names: Final[dict[bytes, str]] = {}
        self._ids: Final[dict[str, bytes]] = {}

    def learn(self, topic_id: bytes, name: str) -> None:
        former = self._ids.get(name)
        if former not in (None, topic_id):
            # The name belongs to another topic now. A request for the former one must not reach it.
            self._names.pop(former, None)
        self._names[topic_id] = name
        self._ids[name] = topic_id
        if len(self._ids) > _MOST:
            with suppress(RuntimeError):  # another thread learns at the same time, and then forgets one as well
                self.forget(next(iter(self._ids)))

    def forget(self, name: str) -> None:
        """Forget a name that no topic has any more."""
        topic_id = self._ids.pop(name, None)
        if topic_id is not None:
            self._names.pop(topic_id, None)

    def forget_others(self, names: Container[str]) -> None:
        """Forget all topics but these, because no others exist."""
        for name in list(self._ids):
            if name not in names:
                self.forget(name)

    def name_of(self, topic_id: bytes) -> str:
        """Return the name of a topic. Raises OttlaError with UNKNOWN_TOPIC_ID, after which clients request metadata."""
        name = self._names.get(topic_id)
        if name is None:
            raise OttlaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic with the id {topic_id.hex()} is known")
        return name

    def id_of(self, name: str) -> bytes:
        """Return the id of a topic, zeros if it is unknown."""
        return self._ids.get(name, bytes(16))
