"""The fetch sessions of scripted brokers (KIP-227): a request names only what has changed since the last one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import FetchRequest, FetchResponse

Key: TypeAlias = tuple[bytes, str, int]
"""A partition: the id or the name of its topic, and its number."""

_BEGINS: Final = 0
_FINAL: Final = -1
_NO_SESSION: Final = 0


@dataclass(slots=True)
class ScriptedSession:
    """What a client has requested, and what it was told. Without an `id` it is over after one response."""

    id: int
    epoch: int = 0
    requested: dict[Key, FetchRequest.FetchPartition] = field(default_factory=dict)
    _told: dict[Key, tuple[int, int, int]] = field(default_factory=dict)

    def take_in(self, request: FetchRequest) -> None:
        """Note what a request adds, changes and forgets."""
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                self.requested.pop((forgotten.topic_id, forgotten.topic, number), None)
        for topic in request.topics:
            for partition in topic.partitions:
                self.requested[topic.topic_id, topic.topic, partition.partition] = partition
        self.epoch += 1

    def news(self, key: Key, data: FetchResponse.PartitionData) -> bool:
        """Return whether a response has to name this partition, and note that it was told."""
        state = data.high_watermark, data.last_stable_offset, data.log_start_offset
        is_known = self._told.get(key) == state
        self._told[key] = state
        return not self.id or not is_known or has_something(data)


class ScriptedSessions:
    """The sessions of all brokers."""

    def __init__(self) -> None:
        self._ids: Final[Iterator[int]] = itertools.count(1)
        self._by_id: Final[dict[tuple[str, int], ScriptedSession]] = {}

    def of(self, address: str, request: FetchRequest) -> ScriptedSession:
        """Apply a request to its session, and return the session. Raises OttlaError if there is no such session."""
        if request.session_epoch in (_BEGINS, _FINAL):
            self._by_id.pop((address, request.session_id), None)
            session = ScriptedSession(_NO_SESSION if request.session_epoch == _FINAL else next(self._ids))
            if session.id:
                self._by_id[address, session.id] = session
        else:
            found = self._by_id.get((address, request.session_id))
            if found is None:
                raise OttlaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "the broker has no such session")
            if found.epoch != request.session_epoch:
                raise OttlaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"the session's epoch is {found.epoch}")
            session = found
        session.take_in(request)
        return session


def has_something(data: FetchResponse.PartitionData) -> bool:
    """Return whether the response for a partition has records, an error or the name of another replica."""
    return bool(data.records or data.error_code) or data.preferred_read_replica >= 0
