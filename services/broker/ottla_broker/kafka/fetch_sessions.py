"""Fetch sessions: a consumer sends what has changed in its request, and gets what has changed (KIP-227, rule 57).

A session is a cache and no more: where it was evicted, the client learns so and requests everything again. Sessions
are found by a number that is hard to guess and belong to no connection, as in Kafka. Its delayed fetch lasts as long as
the session: a request costs what it names and what has happened since the last one. Time and numbers come in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ottla_broker.kafka.fetch_request import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchRequest,
    FetchResponsePartition,
    RequestedPartition,
    TopicKey,
)
from ottla_broker.replication.fetch import FetchResult
from ottla_broker.replication.fetch_purgatory import DelayedFetch, FetchPurgatory
from ottla_core.errors import ErrorCode, OttlaError

MAX_SESSIONS: Final = 1_000
"""Kafka's max.incremental.fetch.session.cache.slots."""
MAX_PARTITIONS: Final = 200_000
"""In all sessions together, which bounds their memory."""
EVICTABLE_S: Final = 120.0
"""A session that was used since then is not evicted for another (min.incremental.fetch.session.eviction.ms)."""

_NAME_BYTES: Final = 256
_INITIAL_EPOCH: Final = 0
_MAX_EPOCH: Final = 2**31 - 1

Key = tuple[TopicKey, int]


def _size(topic: TopicKey) -> int:
    """As how many partitions it counts: a name that is longer than a topic's can be takes the room of several."""
    return 1 + len(topic) // _NAME_BYTES


class Session:
    """`id` NO_SESSION: of one request that stands alone."""

    def __init__(
        self, session_id: int, request: Iterable[RequestedPartition], purgatory: FetchPurgatory, *, by_id: bool = False
    ) -> None:
        self.id = session_id
        self.by_id: Final = by_id
        self.delayed: Final[DelayedFetch[Key]] = purgatory.open()
        self.is_whole = True
        """Every partition is to be looked at: the client knows nothing yet."""
        self.is_fetching = self.is_ended = False
        self.used_at = 0.0
        self.next_epoch = 1
        self.size = 0
        self._purgatory: Final = purgatory
        self._requested: Final[dict[Key, RequestedPartition]] = {}
        self._known: Final[dict[Key, tuple[int, int] | None]] = {}
        """High watermark and log start as last sent to the client; None after an error."""
        self.change(request, ())

    def requested(self, key: Key) -> RequestedPartition:
        return self._requested[key]

    def change(self, request: Iterable[RequestedPartition], forgotten: Iterable[Key]) -> None:
        """Queue named partitions behind the pending ones: partitions that got records wait for the others."""
        for entry in request:
            key = (entry.topic, entry.number)
            self.size += 0 if key in self._requested else _size(entry.topic)
            self._requested[key] = entry
            self.delayed.pending.pop(key, None)
            self.delayed.pending[key] = None
        for key in forgotten:
            if self._requested.pop(key, None) is not None:
                self._known.pop(key, None)
                self.size -= _size(key[0])
                self.delayed.pending.pop(key, None)
                self._purgatory.forget(self.delayed, key)

    def response(self, looked: Mapping[Key, FetchResult]) -> list[FetchResponsePartition]:
        """Return those of the results that are new to the client. Raises FETCH_SESSION_ID_NOT_FOUND."""
        if self.is_ended:
            raise _not_found(self.id)
        changes = []
        for key, fetched in looked.items():
            now = (fetched.high_watermark, fetched.log_start_offset) if fetched.error is None else None
            is_known = now is not None and now == self._known.get(key)
            self._known[key] = now
            if fetched.records or not is_known or fetched.preferred_replica is not None:
                changes.append(FetchResponsePartition(self._requested[key], fetched))
        return changes

    def end(self) -> None:
        self.is_ended = True
        self._purgatory.end(self.delayed)


class FetchSessions:
    def __init__(
        self,
        new_id: Callable[[], int],
        purgatory: FetchPurgatory,
        *,
        max_sessions: int = MAX_SESSIONS,
        max_partitions: int = MAX_PARTITIONS,
    ) -> None:
        self._new_id = new_id
        self._purgatory = purgatory
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._partitions = 0
        self._sessions: Final[OrderedDict[int, Session]] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    @contextmanager
    def fetching(self, request: FetchRequest, *, by_id: bool, now: float) -> Iterator[Session]:
        """The session that the request begins or continues, or one for it alone; `by_id`: it names topics by their ids.

        A fetch that doesn't come to its end ends its session: the connection is lost, and with it what was to be told.
        Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._session_of(request, by_id=by_id, now=now)
        session.is_fetching, session.used_at = True, now
        try:
            yield session
            session.is_fetching = False
        finally:
            if session.is_fetching or session.id == NO_SESSION:
                self._end(session)

    def _session_of(self, request: FetchRequest, *, by_id: bool, now: float) -> Session:
        if request.session_epoch in (_INITIAL_EPOCH, FINAL_EPOCH):
            if (former := self._sessions.get(request.session_id)) is not None:
                self._end(former)
            if request.session_epoch == _INITIAL_EPOCH:
                return self._create(request.partitions, by_id=by_id, now=now)
            return Session(NO_SESSION, request.partitions, self._purgatory)
        session = self._check(request, by_id=by_id)
        session.next_epoch = 1 if session.next_epoch == _MAX_EPOCH else session.next_epoch + 1
        session.is_whole = False
        before = session.size
        session.change(request.partitions, request.forgotten)
        self._partitions += session.size - before
        self._sessions.move_to_end(session.id)
        if self._partitions > self._max_partitions:
            self._end(session)
            raise _not_found(session.id)
        if not session.size:
            self._end(session)
            return Session(NO_SESSION, (), self._purgatory)
        return session

    def _check(self, request: FetchRequest, *, by_id: bool) -> Session:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise _not_found(request.session_id)
        if request.session_epoch != session.next_epoch:
            raise OttlaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session.id} is at epoch {session.next_epoch}, not {request.session_epoch}",
                hint="start a new session",
            )
        if session.by_id != by_id:
            raise OttlaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {session.id} mixes topic names and topic ids",
                hint="start a new session",
            )
        if session.is_fetching:  # from another connection: neither client can rely on it
            self._end(session)
            raise _not_found(session.id)
        return session

    def _create(self, request: Iterable[RequestedPartition], *, by_id: bool, now: float) -> Session:
        """One for the request alone where there is no room: the client continues without a session."""
        session = Session(NO_SESSION, request, self._purgatory, by_id=by_id)
        if session.size and self._make_room(session.size, now):
            while session.id == NO_SESSION or session.id in self._sessions:
                session.id = self._new_id()
            self._sessions[session.id] = session
            self._partitions += session.size
        return session

    def _make_room(self, partitions: int, now: float) -> bool:
        while len(self._sessions) >= self._max_sessions or self._partitions + partitions > self._max_partitions:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.used_at < EVICTABLE_S:
                return False
            self._end(oldest)
        return True

    def _end(self, session: Session) -> None:
        session.end()
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
            self._partitions -= session.size


def _not_found(session_id: int) -> OttlaError:
    return OttlaError(
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        f"there is no fetch session {session_id}",
        hint="the session was evicted, or this broker has restarted; start a new one",
    )
