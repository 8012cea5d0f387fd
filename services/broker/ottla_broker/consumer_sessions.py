"""Consumers' fetch sessions over gRPC: a stream requests its partitions once, and again only when it wants more.

What has been answered by records, an error or the name of another replica is requested no more; all else remains so.
Fetches of one session come one after the other, so that a response is of what has been named until then: a newer one
ends one that is parked, whose wait counts for it: nothing waits for `min_bytes` any longer.

A fetch that is cut off ends its session, and so does the end of its stream: with the response is lost what it took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla_broker.replication.fetch import Consumers, FetchLimits, FetchResult, PartitionFetch, fetch_pending
from ottla_broker.replication.fetch_purgatory import DelayedFetch, FetchPurgatory
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId
from ottla_core.rpc.context import StreamScope
from ottla_core.slices import Slice

MAX_PARTITIONS: Final = 200_000
"""In all sessions together, which bounds their memory."""

_TOPIC_ID_BYTES: Final = 16


class ConsumerSessions:
    def __init__(self, purgatory: FetchPurgatory, *, max_partitions: int = MAX_PARTITIONS) -> None:
        self.partitions = 0
        self.purgatory: Final = purgatory
        self.max_partitions: Final = max_partitions

    def begin(self, session_id: int, stream: StreamScope, named: int) -> ConsumerSession | None:
        """The stream's session from now on; None where there is no room for that many partitions."""
        stream.begin(None)
        if self.partitions + named > self.max_partitions:
            stream.begin(_NoSession(session_id))
            return None
        session = ConsumerSession(session_id, self)
        stream.begin(session)
        return session

    def find(self, session_id: int, stream: StreamScope) -> ConsumerSession | None:
        """The stream's session; None where there was no room for it. Raises FETCH_SESSION_ID_NOT_FOUND where it has
        another one or none."""
        session = stream.session
        if not isinstance(session, ConsumerSession | _NoSession) or session.id != session_id:
            raise _not_found(session_id)
        return session if isinstance(session, ConsumerSession) else None


class _NoSession(NamedTuple):
    """Stands for a session that there was no room for: requests that name it are then treated as single requests."""

    id: int

    def end(self) -> None: ...


class ConsumerSession:
    def __init__(self, session_id: int, sessions: ConsumerSessions) -> None:
        self.id: Final = session_id
        self._sessions: Final = sessions
        self._purgatory: Final = sessions.purgatory
        self._delayed: Final[DelayedFetch[PartitionId]] = sessions.purgatory.open()
        self._requested: Final[dict[PartitionId, PartitionFetch]] = {}
        self._turn: Final = asyncio.Lock()
        self._fetches = 0
        self._deadline: float | None = None
        """The deadline, in loop time, of a fetch that was parked when a newer one came."""
        self._is_ended = False

    async def fetch(
        self,
        named: Iterable[PartitionFetch],
        forgotten: Iterable[PartitionId],
        consumers: Consumers,
        limits: FetchLimits,
    ) -> Iterable[FetchResult]:
        """Return the results of what was read. Raises FETCH_SESSION_ID_NOT_FOUND if the session has ended."""
        self._fetches += 1
        number = self._fetches
        self._delayed.wake()  # of one that is parked: this one may change what it waits for
        async with self._turn:
            try:
                await self._change(named, forgotten)
                now = asyncio.get_running_loop().time()
                deadline = now + limits.max_wait_s if self._deadline is None else self._deadline
                limits = limits._replace(max_wait_s=max(0.0, min(limits.max_wait_s, deadline - now)))
                looked = await fetch_pending(
                    self._delayed,
                    self._requested.__getitem__,
                    consumers,
                    limits,
                    whole=False,
                    is_superseded=lambda: self._fetches != number,
                )
                self._check()  # its stream may have begun another one
                answered = [key for key, result in looked.items() if _ends_request(result)]
                for key in answered:
                    self._remove(key)
                self._deadline = None if answered or self._fetches == number else deadline
            except BaseException:
                self.end()
                raise
        return looked.values()

    def end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._sessions.partitions -= len(self._requested)
            self._purgatory.end(self._delayed)

    async def _change(self, named: Iterable[PartitionFetch], forgotten: Iterable[PartitionId]) -> None:
        """Queue named partitions behind the pending ones: partitions that got records wait for the others (rule 57)."""
        slice_ = Slice()
        for key in forgotten:
            await slice_.rest()
            self._check()
            self._remove(key)
        for request in named:
            await slice_.rest()
            self._check()
            if len(request.id.topic_id) > _TOPIC_ID_BYTES:  # it is kept, and may not be looked at before others come
                raise OttlaError(
                    ErrorCode.INVALID_REQUEST,
                    f"a topic id has {len(request.id.topic_id)} bytes, but at most {_TOPIC_ID_BYTES} are allowed",
                )
            self._remove(request.id)
            self._requested[request.id] = request
            self._sessions.partitions += 1
            self._delayed.pending[request.id] = None
        self._check()
        if self._sessions.partitions > self._sessions.max_partitions:
            raise _not_found(self.id)

    def _remove(self, key: PartitionId) -> None:
        if self._requested.pop(key, None) is not None:
            self._sessions.partitions -= 1
            self._delayed.pending.pop(key, None)
            self._purgatory.forget(self._delayed, key)

    def _check(self) -> None:
        if self._is_ended:
            raise _not_found(self.id)


def _ends_request(result: FetchResult) -> bool:
    return bool(result.records) or result.error is not None or result.preferred_replica is not None


def _not_found(session_id: int) -> OttlaError:
    message = f"this stream has no fetch session {session_id}"
    return OttlaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, message, hint="start a new session")
