"""Consumers' fetch sessions over gRPC: a stream requests a partition once, and again only when it wants more.

A partition that was answered by records, by an error or by the name of another replica is no longer requested; all
others remain requested. The fetches of a session run one at a time, so that a response covers what was named up to its
fetch.

A newer fetch ends one that is parked, and takes over its deadline. If each fetch began its wait again, a consumer that
often names partitions would wait for `min_bytes` for ever.

A fetch that is cut off ends its session, as does the end of its stream, because the records of the lost response are no
longer requested.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla_broker.machines.fetch_session import FetchSession, SessionRoom
from ottla_broker.replication.fetch import Consumers, FetchLimits, FetchResult, PartitionFetch, fetch_due, itself
from ottla_broker.replication.fetch_purgatory import DelayedFetch, FetchPurgatory, FetchTurns
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import PartitionId
from ottla_core.rpc.context import StreamScope

MAX_PARTITIONS: Final = 200_000
"""The most partitions that all sessions have together, which bounds their memory."""

_TOPIC_ID_BYTES: Final = 16


class ConsumerSessions:
    """Begins and finds the sessions of this broker's streams, within one room."""

    def __init__(self, purgatory: FetchPurgatory, *, max_partitions: int = MAX_PARTITIONS) -> None:
        self.room: Final = SessionRoom(max_partitions)
        self._purgatory: Final = purgatory

    def begin(self, session_id: int, stream: StreamScope, named: int) -> ConsumerSession | None:
        """Begin the session of a stream and end its former one. Return None if there is no room for `named` more."""
        stream.begin(None)
        if not self.room.has(named):
            stream.begin(_NoSession(session_id))
            return None
        session = ConsumerSession(session_id, self._purgatory, self.room)
        stream.begin(session)
        return session

    def find(self, session_id: int, stream: StreamScope) -> ConsumerSession | None:
        """Return the session of a stream, or None if there was no room for it. Raises FETCH_SESSION_ID_NOT_FOUND if the
        stream has another session or none."""
        session = stream.session
        if not isinstance(session, ConsumerSession | _NoSession) or session.id != session_id:
            raise _not_found(session_id)
        return session if isinstance(session, ConsumerSession) else None


class _NoSession(NamedTuple):
    """Stands for a session that there was no room for. A request that names it is served as a single request."""

    id: int

    def end(self) -> None: ...


class ConsumerSession(FetchSession[PartitionId, PartitionFetch, DelayedFetch]):
    """The session of one stream."""

    def __init__(self, session_id: int, purgatory: FetchPurgatory, room: SessionRoom) -> None:
        super().__init__(purgatory, DelayedFetch(), room)
        self.id: Final = session_id
        self._turns: Final = FetchTurns(self.parked)
        self._deadline: float | None = None
        """The deadline, in loop time, of a fetch that was parked when a newer one came."""

    async def fetch(
        self,
        named: Iterable[PartitionFetch],
        forgotten: Iterable[PartitionId],
        consumers: Consumers,
        limits: FetchLimits,
    ) -> Iterable[FetchResult]:
        """Return the results of what was read. Raises FETCH_SESSION_ID_NOT_FOUND if the session has ended."""
        async with self._turns.take() as is_superseded:
            try:
                await self._change(named, forgotten)
                now = asyncio.get_running_loop().time()
                deadline = now + limits.max_wait_s if self._deadline is None else self._deadline
                limits = limits._replace(max_wait_s=max(0.0, min(limits.max_wait_s, deadline - now)))
                looked = await fetch_due(self, itself, consumers, limits, whole=False, is_superseded=is_superseded)
                self._check()  # its stream may have begun another one
                answered = [key for key, result in looked.items() if _ends_request(result)]
                for key in answered:
                    self.forget(key)
                self._deadline = deadline if is_superseded() and not answered else None
            except BaseException:
                self.end()
                raise
        return looked.values()

    async def _change(self, named: Iterable[PartitionFetch], forgotten: Iterable[PartitionId]) -> None:
        slice_ = Slice()
        for key in forgotten:
            await slice_.rest()
            self._check()
            self.forget(key)
        for request in named:
            await slice_.rest()
            self._check()
            # The id is kept until the partition is looked at, which may be long after: a long one would hold memory.
            if len(request.id.topic_id) > _TOPIC_ID_BYTES:
                raise OttlaError(
                    ErrorCode.INVALID_REQUEST,
                    f"a topic id has {len(request.id.topic_id)} bytes, but at most {_TOPIC_ID_BYTES} are allowed",
                )
            self.name(request.id, request)
        self._check()
        if not self.room.has(0):
            raise _not_found(self.id)

    def _check(self) -> None:
        if self.is_ended:
            raise _not_found(self.id)


def _ends_request(result: FetchResult) -> bool:
    return bool(result.records) or result.error is not None or result.preferred_replica is not None


def _not_found(session_id: int) -> OttlaError:
    message = f"this stream has no fetch session {session_id}"
    return OttlaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, message, hint="start a new session")
