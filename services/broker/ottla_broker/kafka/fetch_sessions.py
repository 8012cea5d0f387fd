"""Fetch sessions: a consumer sends what has changed in its request, and gets what has changed (KIP-227, rule 57).

A session is a cache and no more: where it was evicted, the client learns so and requests everything again. Sessions
are found by a number that is hard to guess and belong to no connection, as in Kafka. Pure: time and numbers come in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ottla_broker.kafka.fetch_request import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchRequest,
    FetchResponsePartition,
    RequestedPartition,
    TopicKey,
)
from ottla_core.errors import ErrorCode, OttlaError

MAX_SESSIONS: Final = 1_000
"""Kafka's max.incremental.fetch.session.cache.slots."""
MAX_PARTITIONS: Final = 200_000
"""Of all sessions: what they may take of this process's memory."""
EVICTABLE_S: Final = 120.0
"""A session that was used since then is not evicted for another (min.incremental.fetch.session.eviction.ms)."""

_NAME_BYTES: Final = 256
_INITIAL_EPOCH: Final = 0
_MAX_EPOCH: Final = 2**31 - 1

Key = tuple[TopicKey, int]


def _size(topic: TopicKey) -> int:
    """As how many partitions it counts: a name that is longer than a topic's can be takes the room of several."""
    return 1 + len(topic) // _NAME_BYTES


class _Cached(NamedTuple):
    """A partition of a session, with what the client knows of it: -1 is nothing yet."""

    requested: RequestedPartition
    high_watermark: int = -1
    log_start_offset: int = -1


class Session:
    def __init__(self, session_id: int, request: Iterable[RequestedPartition], *, by_id: bool, now: float) -> None:
        self.id: Final = session_id
        self.by_id: Final = by_id
        self.used_at = now
        self.next_epoch = 1
        self.size = 0
        self._cached: Final[OrderedDict[Key, _Cached]] = OrderedDict()
        self.change(request, ())

    @property
    def requested(self) -> list[RequestedPartition]:
        return [cached.requested for cached in self._cached.values()]

    def change(self, request: Iterable[RequestedPartition], forgotten: Iterable[Key]) -> None:
        for entry in request:
            key = (entry.topic, entry.number)
            known = self._cached.get(key)
            self._cached[key] = _Cached(entry) if known is None else known._replace(requested=entry)
            self.size += _size(entry.topic) if known is None else 0
        for key in forgotten:
            self.size -= _size(key[0]) if self._cached.pop(key, None) is not None else 0

    def changes(self, parts: Sequence[FetchResponsePartition]) -> list[FetchResponsePartition]:
        """Of what was read, what the client does not know. Who got records is the last to be read next time."""
        changes = []
        for part in parts:
            key, fetched = (part.requested.topic, part.requested.number), part.fetched
            known = self._cached.get(key)
            if known is None:
                continue
            failed = fetched.error is not None
            now = _Cached(
                known.requested, -1 if failed else fetched.high_watermark, -1 if failed else fetched.log_start_offset
            )
            self._cached[key] = now
            if fetched.records:
                self._cached.move_to_end(key)
            if failed or fetched.records or now != known or fetched.preferred_replica is not None:
                changes.append(part)
        return changes


class FetchContext(NamedTuple):
    """One fetch: what is to be read, and of which session; None where the request stands alone."""

    requested: Sequence[RequestedPartition]
    session: Session | None
    is_first: bool

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.id

    def response(self, parts: Sequence[FetchResponsePartition]) -> Sequence[FetchResponsePartition]:
        """What of `parts` goes into the response."""
        if self.session is None:
            return parts
        changes = self.session.changes(parts)
        return parts if self.is_first else changes


class FetchSessions:
    def __init__(
        self, new_id: Callable[[], int], *, max_sessions: int = MAX_SESSIONS, max_partitions: int = MAX_PARTITIONS
    ) -> None:
        self._new_id = new_id
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._partitions = 0
        self._sessions: Final[OrderedDict[int, Session]] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, *, by_id: bool, now: float) -> FetchContext:
        """Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.

        `by_id`: the request names topics by their ids.
        """
        if request.session_epoch == FINAL_EPOCH:
            self._end(request.session_id)
            return FetchContext(request.partitions, None, is_first=True)
        if request.session_epoch == _INITIAL_EPOCH:
            self._end(request.session_id)
            return FetchContext(
                request.partitions, self._create(request.partitions, by_id=by_id, now=now), is_first=True
            )
        session = self._check(request, by_id=by_id)
        session.used_at = now
        session.next_epoch = 1 if session.next_epoch == _MAX_EPOCH else session.next_epoch + 1
        before = session.size
        session.change(request.partitions, request.forgotten)
        self._partitions += session.size - before
        self._sessions.move_to_end(session.id)
        requested = session.requested
        if not requested or self._partitions > self._max_partitions:
            self._end(session.id)
        return FetchContext(requested, session if requested else None, is_first=False)

    def _check(self, request: FetchRequest, *, by_id: bool) -> Session:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise OttlaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                f"there is no fetch session {request.session_id}",
                hint="it was evicted, or this broker has restarted; begin another one",
            )
        if request.session_epoch != session.next_epoch:
            raise OttlaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session.id} is at epoch {session.next_epoch}, not {request.session_epoch}",
                hint="begin another one",
            )
        if session.by_id != by_id:
            raise OttlaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {session.id} mixes names and ids of topics",
                hint="begin another one",
            )
        return session

    def _create(self, request: Sequence[RequestedPartition], *, by_id: bool, now: float) -> Session | None:
        """None where there is no room: the client continues without a session."""
        if not request or not self._make_room(sum(_size(entry.topic) for entry in request), now):
            return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = Session(session_id, request, by_id=by_id, now=now)
        self._sessions[session_id] = session
        self._partitions += session.size
        return session

    def _make_room(self, partitions: int, now: float) -> bool:
        while len(self._sessions) >= self._max_sessions or self._partitions + partitions > self._max_partitions:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.used_at < EVICTABLE_S:
                return False
            self._end(oldest.id)
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= session.size
