"""Followers' fetches: what each follower has of the logs led here, and what is new for it.

A fetch has two halves. First it tells how far the follower's logs reach, and producers may be waiting for that: it is
noted for all named partitions before anything is read. Then it reads, up to the log end offset, since followers copy
records before these are committed (rule 17). It looks at the partitions that it names and at those that had an event,
and parks if none of them has something new. A newer request of the session ends a parked one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_broker.machines.epochs import LeaderEpochs
from ottla_broker.machines.follower_session import Followed
from ottla_broker.replication.fetch import FetchResult, ends_before
from ottla_broker.replication.fetch_purgatory import ParkedFollowerFetch, Session, Sessions
from ottla_broker.replication.leading import Leading
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.replication.replication_config import most_bytes
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import PartitionId
from ottla_core.records.batch import ANY_OFFSET, whole_batches
from ottla_core.records.leader_epochs import EpochStart
from ottla_core.rpc.context import StreamScope

_WATERMARKS_AT_ONCE: Final = 1_000
"""The most partitions in one response whose high watermark alone is new."""


@dataclass(frozen=True, slots=True)
class FollowerFetch:
    """A request of broker `follower_id`, in the incarnation that `broker_epoch` names.

    `seen_confirmation` is the newest check as of the last response on this stream, which the follower has received. If
    the request `begins` a session, it names all partitions that it follows; otherwise it names those that have changed
    since the last of the session's `responses`.
    """

    follower_id: int
    broker_epoch: int
    seen_confirmation: int
    session_id: int
    responses: int
    begins: bool
    named: Sequence[Followed]
    forgotten: Sequence[PartitionId]
    max_wait_s: float
    min_bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FollowerResponse:
    """The changes, the number of responses in the session so far, and the number of the newest check."""

    partitions: Sequence[FetchResult]
    responses: int
    newest_confirmation: int


async def fetch_as_follower(request: FollowerFetch, replicas: ReplicaTable, stream: StreamScope) -> FollowerResponse:
    """Serve one request of a follower. Its session lasts as long as its stream at most.

    Raises FETCH_SESSION_ID_NOT_FOUND or INVALID_FETCH_SESSION_EPOCH if the follower has to begin a new session.
    """
    session = _session_of(request, replicas.followers)
    stream.begin(session)
    async with session.parked.turns.take() as is_superseded:
        if session.is_ended:
            raise _not_found(request)
        if not session.begin_request(request.responses):
            message = (
                f"{session.responses} responses were sent in the session, but the follower received {request.responses}"
            )
            raise OttlaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, message, hint="start a new session")
        try:
            looks = _Looks(request, session, replicas)
            await looks.take_in()
            partitions = await looks.until_changes(is_superseded)
            responses = session.end_response() if partitions else session.responses
        except BaseException:
            # The request may have been cancelled before all that it told was noted, so the session can't go on.
            session.end()
            raise
    return FollowerResponse(partitions, responses, replicas.confirmations.newest)


def _session_of(request: FollowerFetch, sessions: Sessions) -> Session:
    if request.begins:
        return sessions.begin(request.follower_id, request.broker_epoch, request.session_id, ParkedFollowerFetch())
    session = sessions.find(request.follower_id, request.broker_epoch, request.session_id)
    if session is None:
        raise _not_found(request)
    return session


def _not_found(request: FollowerFetch) -> OttlaError:
    message = f"broker {request.follower_id} has no fetch session {request.session_id} on this broker"
    return OttlaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, message, hint="start a new session")


def _epochs_of(records: bytes, epochs: LeaderEpochs, last_epoch: int) -> Sequence[EpochStart]:
    """Return the epochs of the records, for a follower whose last epoch is that. Where each begins does not follow from
    the records: compaction may have taken an epoch's first batches, or all of them."""
    if not records or epochs.latest <= last_epoch:
        return ()
    return epochs.between(last_epoch, whole_batches(records, ANY_OFFSET)[1])


class _Looks:
    """Serves one request of a session."""

    def __init__(self, request: FollowerFetch, session: Session, replicas: ReplicaTable) -> None:
        self._request: Final = request
        self._session: Final = session
        self._replicas: Final = replicas
        self._max_bytes: Final = most_bytes(request.max_bytes, replicas.followers.count)
        self._slice: Final = Slice()
        self._answers: list[FetchResult] = []
        """They are errors, and offsets at which logs part. They are sent whatever else there is."""
        self._is_limited = False
        """It tells whether a limit keeps back what can be read already. Then waiting would bring no more."""

    # ---- what the follower has ---------------------------------------------------------------------------------------

    async def take_in(self) -> None:
        """Note all that the request tells."""
        for partition_id in self._request.forgotten:
            self._session.forget(partition_id)
        self._confirm()
        for followed in (*self._still_requested(), *self._request.named):
            await self._slice.rest()
            # Another session has begun in the meantime, and what it names is newer.
            if self._session.is_ended:
                raise _not_found(self._request)
            self._session.follow(followed)
            self._note(followed)

    def _still_requested(self) -> Iterable[Followed]:
        """Return the partitions whose refusal has not arrived, unless this request says something newer of them."""
        again = {followed.id: followed for followed in self._session.to_judge_again}
        if again:
            for partition_id in (*self._request.forgotten, *(named.id for named in self._request.named)):
                again.pop(partition_id, None)
        return again.values()

    def _confirm(self) -> None:
        """Confirm leadership of the partitions that the follower still follows, in the leader epochs that it named. It
        sent the request after the newest check that it has seen."""
        seen, waiting = self._request.seen_confirmation, self._session.unconfirmed
        for followed in filter(None, map(self._session.find, list(waiting))):
            try:
                leading = self._known(self._replicas.find(followed.id), followed)
            except OttlaError:
                # It is no longer led here, and every waiter for the confirmation hears of that.
                waiting.pop(followed.id, None)
            else:
                leading.on_seen_confirmation(self._request.follower_id, seen)
                if leading.newest_confirmation <= seen:
                    waiting.pop(followed.id, None)

    def _note(self, followed: Followed) -> None:
        leading: Leading | None = None
        try:
            leading = self._replicas.leading(followed.id, followed.leader_epoch)
            diverging = leading.on_follower_fetch(
                self._request.follower_id,
                self._request.broker_epoch,
                followed.offset,
                followed.last_epoch,
                followed.log_start_offset,
            )
        except OttlaError as error:
            self._give_up(followed, leading, error)
            return
        if diverging is not None:
            self._give_up(followed, leading, diverging=diverging)
        elif leading.newest_confirmation and followed.leader_epoch is not None:
            leading.on_seen_confirmation(self._request.follower_id, self._request.seen_confirmation)
            if leading.newest_confirmation > self._request.seen_confirmation:
                self._session.confirm(followed.id)

    def _known(self, replica: Replica, followed: Followed) -> Leading:
        """Return the leadership in the epoch that was named.

        Raises what `Replica.led_in` raises, and NOT_LEADER_OR_FOLLOWER if that epoch began after the follower had named
        the partition: then this leadership does not know yet how far the follower's log reaches.
        """
        leading = replica.led_in(followed.leader_epoch)
        if not leading.leader.has_heard_of(self._request.follower_id, self._request.broker_epoch):
            message = f"broker {self._request.follower_id} has not reported yet what it has of {replica}"
            raise OttlaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message, hint="fetch again")
        return leading

    def _give_up(
        self,
        followed: Followed,
        replica: Replica | Leading | None,
        error: OttlaError | None = None,
        diverging: EpochStart | None = None,
    ) -> None:
        result = FetchResult(followed.id, error=error, diverging=diverging)
        if replica is not None:
            start = replica.log.log_start_offset
            result = result._replace(high_watermark=replica.offsets.high_watermark, log_start_offset=start)
        self._answers.append(result)
        self._session.give_up(followed)

    # ---- what is new for it ------------------------------------------------------------------------------------------

    async def until_changes(self, is_superseded: Callable[[], bool]) -> list[FetchResult]:
        """Return the results for the response, or none if nothing happens in time."""
        parked, session = self._session.parked, self._session
        deadline = asyncio.get_running_loop().time() + self._request.max_wait_s
        while True:
            # The mark comes before the look, so that the fetch does not sleep over what is appended during the look
            # (rule 55).
            parked.mark()
            if is_superseded():
                return self._answers
            self._is_limited = False
            found = await self._read_due()
            missing_bytes = self._request.min_bytes - sum(len(part.records) for part in found)
            is_due = self._answers or session.unconfirmed or any(not part.records for part in found)
            if is_due or missing_bytes <= 0 or self._is_limited:
                break
            session.take_back()
            if not await parked.sleep(deadline, missing_bytes):
                # The records that have come by now are sent, though they are not enough.
                found = await self._read_due()
                break
        return [*self._answers, *found, *self._moved_watermarks()]

    async def _read_due(self) -> list[FetchResult]:
        found: list[FetchResult] = []
        left = self._max_bytes
        for partition_id in self._session.due:
            if left <= 0:
                self._is_limited = True
                break
            await self._slice.rest()
            followed = self._session.find(partition_id)
            if followed is None:
                continue
            part = await self._look(followed, left)
            if part is not None:
                found.append(part)
                left -= len(part.records)
        return found

    async def _look(self, followed: Followed, left_bytes: int) -> FetchResult | None:
        self._session.look_at(followed.id, followed.id)
        replica: Replica | None = None
        records, limit_bytes, purged_before = b"", min(left_bytes, followed.max_bytes), 0
        is_first = left_bytes == self._max_bytes
        try:
            replica = self._replicas.find(followed.id)
            leading = self._known(replica, followed)
            # The epochs come before the read. If the log start moves during it, they would begin at the new start.
            end, epochs = replica.log.log_end_offset, replica.log.epochs
            if followed.offset != end:
                records = await replica.disk.read(followed.offset, limit_bytes, end, min_one_batch=is_first)
                if 0 < len(records) < self._request.min_bytes:
                    self._is_limited |= ends_before(records, end)
                purged_before = leading.check_has_met_purged(self._request.follower_id, followed.offset)
        except OttlaError as error:
            self._give_up(followed, replica, error)
            return None
        watermark, start = replica.offsets.high_watermark, replica.log.log_start_offset
        moved = watermark > followed.high_watermark
        if records or start > followed.log_start_offset or (moved and followed.has_readers):
            self._session.respond(followed, watermark, start, records=bool(records))
            told = _epochs_of(records, epochs, followed.last_epoch)
            return FetchResult(followed.id, records, watermark, start, epochs=told, purged_before=purged_before)
        if followed.offset != end:
            self._session.look_again(followed.id)  # there was no room for it
            self._is_limited = True
        if moved:
            self._session.look_later(followed.id)
        return None

    def _moved_watermarks(self) -> list[FetchResult]:
        """Return partitions whose high watermark alone has moved. This is done once in `max_wait_s`.

        A partition with new records takes its high watermark along, and no consumer waits for that of the others.
        """
        parked, now = self._session.parked, asyncio.get_running_loop().time()
        if now < parked.watermarks_at:
            return []
        parked.watermarks_at = now + self._request.max_wait_s
        moved: list[FetchResult] = []
        for followed in self._session.take_later(_WATERMARKS_AT_ONCE):
            try:
                leading = self._replicas.leading(followed.id, followed.leader_epoch)
            except OttlaError:
                continue  # it is no longer led here, which was an event of the session
            watermark, start = leading.offsets.high_watermark, leading.log.log_start_offset
            self._session.respond(followed, watermark, start)
            moved.append(FetchResult(followed.id, b"", watermark, start))
        return moved
