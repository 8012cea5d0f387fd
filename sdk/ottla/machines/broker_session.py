"""A consumer's fetch session at a broker (KIP-227), as it goes over the wire.

Both sides remember what a client requests, and a request has only the changes. But they differ in what ends the request
for a partition. For the client it ends once the partition got records, an error or the name of another replica
(`ottla.machines.fetch_sessions`). The broker goes on with it, at its old offset, until the client tells it to forget
the partition. So the next request has to name each partition that was answered, or to forget it.

A session takes one request at a time, since each of them has the epoch that follows the last response.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode
from ottla_core.model import PartitionId

NO_SESSION: Final = 0
_BEGINS: Final = 0
_STANDS_ALONE: Final = -1
FINAL_EPOCH: Final = -1
"""A request with this epoch ends the session that it names. If it names none, it stands alone."""
_MAX_EPOCH: Final = 2**31 - 1
_IS_OVER: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class SessionRequest(NamedTuple):
    """What a request says of its session: its id and epoch, and the partitions that the broker has to forget."""

    id: int = NO_SESSION
    epoch: int = _STANDS_ALONE
    forgotten: Collection[PartitionId] = ()

    @property
    def stands_alone(self) -> bool:
        """Whether the request belongs to no session."""
        return self.id == NO_SESSION and self.epoch == _STANDS_ALONE


class BrokerSession:
    """The fetch session of one stream to a broker. When a session is over, the next one takes its place.

    `is_beginning` says whether a session may exist whose id is not known yet. `topic_ids` has the ids of topics that
    were requested by name.
    """

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.is_beginning = False
        self.topic_ids: Final[dict[str, bytes]] = {}
        self._epoch = _BEGINS
        self._own_id = NO_SESSION
        self._answered: Final[dict[PartitionId, None]] = {}
        """The partitions that the broker still counts as requested, but the client does not."""
        self._last: SessionRequest | None = None
        """The last request. The client waits for no earlier one, so the response to an earlier one changes nothing."""

    @property
    def may_exist(self) -> bool:
        """Whether the broker may have a session."""
        return self.is_beginning or self.id != NO_SESSION

    def request(
        self, own_id: int, *, begins: bool, named: Collection[PartitionId], withdrawn: Iterable[PartitionId]
    ) -> SessionRequest:
        """Return what the next request says of its session. `own_id` is the client's number of the session, 0 for
        none. `named` are the partitions that are requested, and `withdrawn` those that no longer are."""
        if begins:
            self._own_id, self._epoch, self.is_beginning = own_id, _BEGINS, True
            self.topic_ids.clear()
        forgotten: list[PartitionId] = []
        # The session may have begun on another stream, which is being closed. Then the request has no session on the
        # wire, and after the response the client begins another one.
        stands_alone = own_id == NO_SESSION or own_id != self._own_id
        if not stands_alone and not begins:
            # A partition must not be in both lists: a broker would forget the partition that was just requested.
            forgotten = [each for each in dict.fromkeys([*self._answered, *withdrawn]) if each not in named]
        self._answered.clear()
        # With the first epoch, the id names the former session, which the broker then ends.
        request = SessionRequest() if stands_alone else SessionRequest(self.id, self._epoch, forgotten)
        self._last = request
        return request

    def on_response(
        self, request: SessionRequest, code: int, session_id: int, answered: Iterable[PartitionId]
    ) -> SessionResult:
        """Note the response to a request. It has the code of an error, or names its session. `answered` are the
        partitions whose request has ended for the client."""
        if request.stands_alone or self._last is not request:
            return SessionResult(is_good=not code, in_session=False)
        began, self.is_beginning = self._epoch == _BEGINS, False
        # An error names no session. The former one may still be there, and the next request ends it.
        if not code or code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.id = session_id
        if code:
            # The result has no session, so the client requests everything again in another one.
            return SessionResult(is_good=code in _IS_OVER and not began, in_session=False)
        self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1
        if self.id == NO_SESSION:
            return SessionResult(is_good=True, in_session=False)
        self._answered.update(dict.fromkeys(answered))
        return SessionResult(is_good=True, in_session=True)


class SessionResult(NamedTuple):
    """Whether a response has no error of the whole request that has to be raised, and whether it belongs to a session.

    The error of a session that is over is not raised, except in the response to its first request.
    """

    is_good: bool
    in_session: bool
