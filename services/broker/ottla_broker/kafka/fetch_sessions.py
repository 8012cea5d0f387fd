"""Kafka's fetch sessions: a consumer sends what has changed in its request, and gets what has changed (KIP-227).

A session is only a cache. If it was evicted, the client is told so and requests everything again. Sessions belong to no
connection, as in Kafka: they are found by a number, which is hard to guess so that no client uses another's session.

Each request carries the session's next epoch. A request with another epoch was not sent by the client that got the last
response, so it is refused, and the client begins a new session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ottla_broker.kafka.wire.fetch_request import (
    FINAL_EPOCH,
    NO_SESSION,
    FetchRequest,
    FetchResponsePartition,
    RequestedPartition,
    TopicKey,
)
from ottla_broker.machines.fetch_session import FetchSession, SessionRoom
from ottla_broker.replication.fetch import FetchResult
from ottla_broker.replication.fetch_purgatory import DelayedFetch, FetchPurgatory
from ottla_core.errors import ErrorCode, OttlaError

MAX_SESSIONS: Final = 1_000
"""Kafka's max.incremental.fetch.session.cache.slots."""
MAX_PARTITIONS: Final = 200_000
"""The most partitions that all sessions have together, which bounds their memory."""
EVICTABLE_S: Final = 120.0
"""A session is evicted for another one once it has been idle for this long
(min.incremental.fetch.session.eviction.ms)."""

_NAME_BYTES: Final = 256
_INITIAL_EPOCH: Final = 0
_MAX_EPOCH: Final = 2**31 - 1

Key = tuple[TopicKey, int]


class Session(FetchSession[Key, RequestedPartition, DelayedFetch]):
    """The session of one client, or, with the id NO_SESSION, of one request that stands alone."""

    def __init__(
        self,
        request: Iterable[RequestedPartition],
        purgatory: FetchPurgatory,
        *,
        session_id: int = NO_SESSION,
        by_id: bool = False,
        room: SessionRoom | None = None,
    ) -> None:
        super().__init__(purgatory, DelayedFetch(), room)
        self.id: Final = session_id
        self.by_id: Final = by_id
        self.is_whole = True
        """It tells whether every partition is to be looked at, because the client knows nothing yet."""
        self.is_fetching = False
        self.used_at = 0.0
        self.next_epoch = 1
        self._access_revision: int | None = None
        self._known: Final[dict[Key, tuple[int, int] | None]] = {}
        """These are the high watermark and the log start offset as last sent to the client. They are None after an
        error."""
        self.change(request, ())

    @staticmethod
    def weight(key: Key, /) -> int:
        """Count a name that is longer than a topic's can be as several partitions."""
        return 1 + len(key[0]) // _NAME_BYTES

    def change(self, request: Iterable[RequestedPartition], forgotten: Iterable[Key]) -> None:
        """Take in what the client requests from now on, and what it no longer requests."""
        for entry in request:
            self.name((entry.topic, entry.number), entry)
        for key in forgotten:
            if self.forget(key):
                self._known.pop(key, None)

    def on_access(self, revision: int) -> None:
        """Look at every partition again if the ACLs have another revision than at the last fetch."""
        if revision != self._access_revision:
            if self._access_revision is not None:
                for key in self.requested:
                    self.look_again(key)
            self._access_revision = revision

    def response(self, looked: Mapping[Key, FetchResult]) -> list[FetchResponsePartition]:
        """Return the results that are new to the client. Raises FETCH_SESSION_ID_NOT_FOUND if the session has ended."""
        if self.is_ended:
            raise _not_found(self.id)
        changes = []
        for key, fetched in looked.items():
            now = (fetched.high_watermark, fetched.log_start_offset) if fetched.error is None else None
            is_known = now is not None and now == self._known.get(key)
            self._known[key] = now
            if fetched.records or not is_known or fetched.preferred_replica is not None:
                changes.append(FetchResponsePartition(self.requested[key], fetched))
        return changes


class FetchSessions:
    """The sessions of all clients. Time and new session ids come from outside."""

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
        self._room: Final = SessionRoom(max_partitions)
        self._sessions: Final[OrderedDict[int, Session]] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    @contextmanager
    def fetching(self, request: FetchRequest, *, by_id: bool, now: float) -> Iterator[Session]:
        """Yield the session that the request begins or continues, or a session for this request alone.

        `by_id` says that the request names topics by their ids. A fetch that does not come to its end ends its session:
        its connection is lost, and the client does not know what the response would have told it.
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
            return Session(request.partitions, self._purgatory)
        session = self._check(request, by_id=by_id)
        session.next_epoch = 1 if session.next_epoch == _MAX_EPOCH else session.next_epoch + 1
        session.is_whole = False
        session.change(request.partitions, request.forgotten)
        self._sessions.move_to_end(session.id)
        if not self._room.has(0):
            self._end(session)
            raise _not_found(session.id)
        if not session.size:
            self._end(session)
            return Session((), self._purgatory)
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
        # Two connections use the session at once. Neither client can know what the other one was told.
        if session.is_fetching:
            self._end(session)
            raise _not_found(session.id)
        return session

    def _create(self, request: Iterable[RequestedPartition], *, by_id: bool, now: float) -> Session:
        """Begin a session. If there is no room, return one for this request alone: the client goes on without one."""
        size = sum(map(Session.weight, {(entry.topic, entry.number) for entry in request}))
        if not size or not self._make_room(size, now):
            return Session(request, self._purgatory, by_id=by_id)
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id()
        session = Session(request, self._purgatory, session_id=session_id, by_id=by_id, room=self._room)
        self._sessions[session_id] = session
        return session

    def _make_room(self, partitions: int, now: float) -> bool:
        while len(self._sessions) >= self._max_sessions or not self._room.has(partitions):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.used_at < EVICTABLE_S:
                return False
            self._end(oldest)
        return True

    def _end(self, session: Session) -> None:
        session.end()
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]


def _not_found(session_id: int) -> OttlaError:
    return OttlaError(
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        f"there is no fetch session {session_id}",
        hint="the session was evicted, or this broker has restarted; start a new one",
    )
