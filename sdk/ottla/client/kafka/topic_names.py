"""The names of topics by their ids. The clients know topics by id, and older versions of Kafka's APIs by name."""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress
from typing import Final

from ottla.errors import ErrorCode, error_from_code

_MOST: Final = 100_000
"""With names of 60 characters, so many take 30 MB."""
_MOST_FORMER: Final = 4
"""How many former topics of a name are remembered, the newest ones."""
_MOST_DOUBTS: Final = 20
"""After so many responses in a row a former topic is believed. The next metadata comes after 0.02 to 0.25 s, so this
takes up to 5 s."""


class TopicNames:
    """The names and ids that one client has learned from responses to Metadata.

    A deleted topic is forgotten as soon as a response shows that it is gone: a response that was to have this topic, or
    all of them. Others may delete topics that this client never asks for again. So if it knows more than _MOST, it
    forgets the topic that it has known for longest, and learns it again with its next request for metadata.

    After a topic was recreated, a broker that lags still names the former topic. If the client believed that, it would
    take the topic for recreated twice more. So it remembers which topics had a name before, and doubts a response that
    goes back to one of them. If many responses in a row name that topic, the client believes them, because the broker
    that named the other topic may be the one that lagged.

    Threads may share it. Each call is one operation on a dict, or several in such an order that a name is at worst
    unknown for a moment.
    """

    def __init__(self) -> None:
        self._names: Final[dict[bytes, str]] = {}
        self._ids: Final[dict[str, bytes]] = {}
        self._former: Final[dict[str, tuple[bytes, ...]]] = {}
        self._doubts: Final[dict[str, int]] = {}

    def learn(self, topic_id: bytes, name: str) -> bool:
        """Learn the topic that has the name; return False if it is doubted, because another one has replaced it."""
        known = self._ids.get(name)
        if known == topic_id:
            self._doubts.pop(name, None)
            return True
        former = self._former.get(name, ())
        # If the name was forgotten, the newest former topic is not doubted: perhaps one broker did not know it yet.
        if topic_id in former and (known is not None or topic_id != former[-1]):
            doubts = self._doubts[name] = self._doubts.get(name, 0) + 1
            if doubts < _MOST_DOUBTS:
                return False
        # The name belongs to another topic now. A request for the former one must not reach it.
        self.forget(name)
        self._doubts.pop(name, None)
        self._names[topic_id] = name
        self._ids[name] = topic_id
        if len(self._ids) > _MOST:
            with suppress(RuntimeError):  # another thread learns at the same time, and then forgets one as well
                self.forget(next(iter(self._ids)))
        return True

    def forget(self, name: str) -> None:
        """Forget a name that no topic has any more. A topic that gets it later replaces the topic that had it."""
        topic_id = self._ids.pop(name, None)
        if topic_id is None:
            return
        self._names.pop(topic_id, None)
        former = self._former.pop(name, ())
        self._former[name] = (*(each for each in former if each != topic_id), topic_id)[-_MOST_FORMER:]
        if len(self._former) > _MOST:
            with suppress(RuntimeError, KeyError):
                del self._former[next(iter(self._former))]

    def forget_others(self, names: Container[str]) -> None:
        """Forget all topics but these, because no others exist."""
        for name in list(self._ids):
            if name not in names:
                self.forget(name)

    def name_of(self, topic_id: bytes) -> str:
        """Return the name of a topic. Raises UNKNOWN_TOPIC_ID, after which clients request metadata."""
        name = self._names.get(topic_id)
        if name is None:
            raise error_from_code(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic with the id {topic_id.hex()} is known")
        return name

    def id_of(self, name: str) -> bytes:
        """Return the id of a topic, zeros if it is unknown."""
        return self._ids.get(name, bytes(16))
