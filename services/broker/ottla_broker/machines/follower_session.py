"""The partitions that one follower follows from this broker: named once, then only their changes (after KIP-227).
Pure.

A follower names a partition when it begins to follow it, and again when its log has changed; a partition that it does
not name is unchanged. The leader looks only at partitions that were named or that had an event: a fetch costs as much
as has happened since the last one, however many partitions are followed.

A response may get lost: the follower had something to send and did not wait for it. Each request tells how many
responses have arrived, and the content of a response that has not is sent again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from ottla_broker.machines.epochs import NO_EPOCH
from ottla_broker.machines.partition import UNKNOWN
from ottla_core.model import PartitionId


@dataclass(slots=True)
class Followed:
    """A partition as its follower has named it; `high_watermark` and `log_start_offset` as it was answered since.

    `leader_epoch` None is not checked. `is_answered`: it was sent records, and what it makes of them comes next.
    """

    id: PartitionId
    leader_epoch: int | None
    offset: int
    max_bytes: int
    last_epoch: int = NO_EPOCH
    high_watermark: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    has_readers: bool = False
    is_answered: bool = False


class Parked(Protocol):
    """The fetch of a session that waits for something to answer."""

    def on_bytes(self, size_bytes: int) -> None:
        """So much more can be read."""
        ...

    def wake(self) -> None:
        """There is something to answer whatever its size."""
        ...

    def close(self) -> None:
        """Nothing waits any more: the broker shuts down, or another session of the follower has begun."""
        ...


P = TypeVar("P", bound=Parked)


class FollowerSession(Generic[P]):
    def __init__(
        self, follower_id: int, session_id: int, broker_epoch: int, parked: P, sessions: FollowerSessions[P]
    ) -> None:
        self.id: Final = session_id
        self.broker_epoch: Final = broker_epoch
        """The follower's incarnation that has named everything: as another one it has to do so anew (rule 11)."""
        self.parked: Final = parked
        self.responses = 0
        self.is_ended = False
        self.unconfirmed: Final[set[PartitionId]] = set()
        """Partitions whose leadership the next request is to confirm (leadership_confirmation)."""
        self._follower_id: Final = follower_id
        self._sessions: Final = sessions
        self._followed: Final[dict[PartitionId, Followed]] = {}
        self._pending: Final[dict[PartitionId, None]] = {}
        self._later: Final[dict[PartitionId, None]] = {}
        self._in_response: dict[PartitionId, tuple[Followed, int, int]] = {}
        """By the last response, or the one that is made: with what the follower knew before."""

    # ---- the follower's requests -----------------------------------------------------------------------------------

    def begin_request(self, responses: int) -> bool:
        """Whether the request belongs to this session, in which that many responses have arrived."""
        if responses == self.responses - 1:
            self.take_back()
            self.responses = responses
        self._in_response = {}
        return responses == self.responses

    def name(self, followed: Followed) -> None:
        """Queue a partition last, even if it was named before (rule 57: those with records wait for the others)."""
        if self.is_ended:
            return
        if followed.id not in self._followed:
            self._sessions.by_partition.setdefault(followed.id, set()).add(self)
        self._followed[followed.id] = followed
        self._pending.pop(followed.id, None)
        self._pending[followed.id] = None

    def forget(self, partition_id: PartitionId) -> None:
        if self._followed.pop(partition_id, None) is None:
            return
        self._pending.pop(partition_id, None)
        self._later.pop(partition_id, None)
        self.unconfirmed.discard(partition_id)
        following = self._sessions.by_partition[partition_id]
        following.discard(self)
        if not following:
            del self._sessions.by_partition[partition_id]

    def end(self) -> None:
        """Another one has begun, its stream is over, or what it has named is not certain any more."""
        self.is_ended = True
        self._sessions.remove(self._follower_id, self)
        for partition_id in list(self._followed):
            self.forget(partition_id)
        self.parked.close()

    # ---- what happens to partitions --------------------------------------------------------------------------------

    def on_appended(self, partition_id: PartitionId, size_bytes: int) -> None:
        if not self._followed[partition_id].is_answered:
            self._pending[partition_id] = None
            self.parked.on_bytes(size_bytes)

    def on_high_watermark(self, partition_id: PartitionId) -> None:
        """Only readers there wait for it; it goes with the next response otherwise (rule 18)."""
        if self._followed[partition_id].has_readers:
            self.on_changed(partition_id)
        else:
            self._later[partition_id] = None

    def on_changed(self, partition_id: PartitionId) -> None:
        """Leadership, the log's start, or whether it exists."""
        if not self._followed[partition_id].is_answered:
            self._pending[partition_id] = None
            self.parked.wake()

    def confirm(self, partition_id: PartitionId) -> None:
        """A response is due, and the request after it."""
        self.unconfirmed.add(partition_id)
        self.parked.wake()

    # ---- the next response -----------------------------------------------------------------------------------------

    @property
    def pending(self) -> list[PartitionId]:
        """The partitions to be looked at, in order."""
        return list(self._pending)

    def find(self, partition_id: PartitionId) -> Followed | None:
        return self._followed.get(partition_id)

    def look_at(self, partition_id: PartitionId) -> Followed | None:
        """Return the partition if it is still followed; events from now on make it pending again."""
        self._pending.pop(partition_id, None)
        return self._followed.get(partition_id)

    def look_later(self, partition_id: PartitionId) -> None:
        """Nothing but its high watermark has moved."""
        self._later[partition_id] = None

    def take_later(self, most: int) -> list[Followed]:
        """At most `most` of those where nothing but the high watermark has moved."""
        taken = list(islice(self._later, most))
        for partition_id in taken:
            del self._later[partition_id]
        return [f for f in map(self._followed.__getitem__, taken) if not f.is_answered]

    def respond(self, followed: Followed, high_watermark: int, log_start_offset: int, *, records: bool = False) -> None:
        """The next response tells this of the partition; after records it is not looked at until it is named again."""
        self._note(followed)
        followed.high_watermark, followed.log_start_offset = high_watermark, log_start_offset
        followed.is_answered = records
        if records:
            self._pending.pop(followed.id, None)
        self._later.pop(followed.id, None)

    def give_up(self, followed: Followed) -> None:
        """The next response tells an error, or where the logs part: the follower names it when it follows again."""
        self._note(followed)
        self.forget(followed.id)

    def take_back(self) -> None:
        """Undo the content of the last response, or of the one being made: the follower has not received it."""
        for followed, high_watermark, log_start_offset in self._in_response.values():
            followed.high_watermark, followed.log_start_offset = high_watermark, log_start_offset
            followed.is_answered = False
            self.name(followed)
        self._in_response = {}

    def end_response(self) -> int:
        """It is sent: how many there are now."""
        self.responses += 1
        return self.responses

    def _note(self, followed: Followed) -> None:
        self._in_response.setdefault(followed.id, (followed, followed.high_watermark, followed.log_start_offset))


class FollowerSessions(Generic[P]):
    """The session of each follower, at most one: the one that it began last."""

    def __init__(self) -> None:
        self.closed = False
        self._by_follower: Final[dict[int, FollowerSession[P]]] = {}
        self.by_partition: Final[dict[PartitionId, set[FollowerSession[P]]]] = {}

    def begin(self, follower_id: int, broker_epoch: int, session_id: int, parked: P) -> FollowerSession[P]:
        if (former := self._by_follower.get(follower_id)) is not None:
            former.end()
        session = self._by_follower[follower_id] = FollowerSession(follower_id, session_id, broker_epoch, parked, self)
        if self.closed:
            parked.close()
        return session

    def find(self, follower_id: int, broker_epoch: int, session_id: int) -> FollowerSession[P] | None:
        session = self._by_follower.get(follower_id)
        is_this = session is not None and (session.broker_epoch, session.id) == (broker_epoch, session_id)
        return session if is_this else None

    def remove(self, follower_id: int, session: FollowerSession[P]) -> None:
        if self._by_follower.get(follower_id) is session:
            del self._by_follower[follower_id]

    def __len__(self) -> int:
        return len(self._by_follower)

    def close(self) -> None:
        """The broker shuts down: what is parked is answered with what there is."""
        self.closed = True
        for session in self._by_follower.values():
            session.parked.close()

    def on_appended(self, partition_id: PartitionId, size_bytes: int) -> None:
        for session in self.by_partition.get(partition_id, ()):
            session.on_appended(partition_id, size_bytes)

    def on_high_watermark(self, partition_id: PartitionId) -> None:
        for session in self.by_partition.get(partition_id, ()):
            session.on_high_watermark(partition_id)

    def on_changed(self, partition_id: PartitionId) -> None:
        for session in self.by_partition.get(partition_id, ()):
            session.on_changed(partition_id)

    def confirm(self, partition_id: PartitionId) -> None:
        for session in self.by_partition.get(partition_id, ()):
            session.confirm(partition_id)
