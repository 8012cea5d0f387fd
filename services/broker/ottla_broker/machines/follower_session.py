"""The partitions that one follower follows from this broker: named once, then only their changes (after KIP-227).
Pure.

A follower names a partition when it begins to follow it, and again when its log has changed. A partition that it does
not name is unchanged. `FetchSession` has the rules that these sessions share with consumers' sessions.

A follower gives up a parked fetch when it has something to name, so the response to that fetch may get lost. Therefore
each request tells how many responses have arrived, and the content of a response that has not arrived is sent again.
What an acknowledged batch waits for is a request that names the follower's log end offset: events of a partition whose
records are on their way are held back until then.

Only what was accepted can be taken back. A follower whose log diverges is refused, and what it has named proves nothing
of its log. If the refusal gets lost, the leader judges the follower's log again, and never sends records behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from ottla_broker.machines.epochs import NO_EPOCH
from ottla_broker.machines.fetch_session import CallSoon, FetchSession, Parked, Watchers, at_once
from ottla_broker.machines.partition import UNKNOWN
from ottla_core.model import PartitionId


@dataclass(slots=True)
class Followed:
    """A partition as its follower has named it. `high_watermark` and `log_start_offset` are what the responses since
    then have said.

    A `leader_epoch` of None is not checked.
    """

    id: PartitionId
    leader_epoch: int | None
    offset: int
    max_bytes: int
    last_epoch: int = NO_EPOCH
    high_watermark: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    has_readers: bool = False


P = TypeVar("P", bound=Parked)


class FollowerSession(FetchSession[PartitionId, Followed, P]):
    """The session of one follower in one of its incarnations."""

    def __init__(
        self, follower_id: int, session_id: int, broker_epoch: int, parked: P, sessions: FollowerSessions[P]
    ) -> None:
        super().__init__(sessions, parked)
        self.follower_id: Final = follower_id
        self.id: Final = session_id
        self.broker_epoch: Final = broker_epoch
        """The follower's incarnation. Another one names everything again, because its logs may differ (rule 11)."""
        self.responses = 0
        self._sessions: Final = sessions
        self.unconfirmed: Final[dict[PartitionId, None]] = {}
        """Partitions whose leadership the next request is to confirm (leadership_confirmation)."""
        self._later: Final[dict[PartitionId, None]] = {}
        self._in_response: dict[PartitionId, tuple[Followed, int, int]] = {}
        """The partitions of the last response, or of the one being made, with what the follower knew before."""
        self._refused: dict[PartitionId, Followed] = {}
        """The partitions that the last response, or the one being made, refuses."""
        self.to_judge_again: list[Followed] = []
        """The partitions that the last response refused, if it has not arrived: the follower requests them still."""

    # ---- the follower's requests -----------------------------------------------------------------------------------

    def begin_request(self, responses: int) -> bool:
        """Return whether the request belongs to this session, in which that many responses have arrived."""
        is_lost = responses == self.responses - 1
        if is_lost:
            self.take_back()
            self.responses = responses
        self.to_judge_again = list(self._refused.values()) if is_lost else []
        self._in_response, self._refused = {}, {}
        return responses == self.responses

    def follow(self, followed: Followed) -> None:
        """Name a partition. It is watched at once: its confirmations are due even before it is looked at."""
        self.name(followed.id, followed)
        self._sessions.watch(self, followed.id, followed.id)

    def find(self, partition_id: PartitionId) -> Followed | None:
        """Return a partition if it is still followed in this session."""
        return None if self.is_ended else self.requested.get(partition_id)

    def end(self) -> None:
        """End the session because another one has begun, its stream is over, or what it has named is no longer
        certain."""
        super().end()
        self._sessions.remove(self)

    def forget(self, partition_id: PartitionId) -> bool:
        self._later.pop(partition_id, None)
        self.unconfirmed.pop(partition_id, None)
        return super().forget(partition_id)

    # ---- what happens to partitions --------------------------------------------------------------------------------

    def on_high_watermark(self, partition_id: PartitionId) -> None:
        """Note that the high watermark of a partition has moved.

        If consumers read from the follower, they wait for it, so a response is due at once (rule 18). Otherwise it goes
        with the next response.
        """
        if not self.requested[partition_id].has_readers:
            self._later[partition_id] = None
        elif self.on_event(partition_id):
            self.parked.wake()

    def confirm(self, partition_id: PartitionId) -> None:
        """Make a response due, because the request after it confirms the leadership of the partition."""
        self.unconfirmed[partition_id] = None
        self.parked.wake()

    # ---- the next response -----------------------------------------------------------------------------------------

    def look_later(self, partition_id: PartitionId) -> None:
        """Note that nothing but the high watermark of a partition has moved."""
        self._later[partition_id] = None

    def take_later(self, most: int) -> list[Followed]:
        """Take at most `most` of the partitions where nothing but the high watermark has moved."""
        taken = list(islice(self._later, most))
        for partition_id in taken:
            del self._later[partition_id]
        return [self.requested[each] for each in taken if not self.is_held(each)]

    def respond(self, followed: Followed, high_watermark: int, log_start_offset: int, *, records: bool = False) -> None:
        """Put a partition into the next response. After records it is not looked at until it is named again."""
        self._note(followed)
        followed.high_watermark, followed.log_start_offset = high_watermark, log_start_offset
        if records:
            self.hold(followed.id)
        self._later.pop(followed.id, None)

    def give_up(self, followed: Followed) -> None:
        """Put a partition into the next response with an error, or with the offset at which the logs part.

        The follower names it again when it follows again.
        """
        self._refused[followed.id] = followed
        self.forget(followed.id)

    def take_back(self) -> None:
        """Undo what the last response, or the one being made, says of accepted partitions: the follower has not
        received it."""
        for followed, high_watermark, log_start_offset in self._in_response.values():
            followed.high_watermark, followed.log_start_offset = high_watermark, log_start_offset
            self.follow(followed)
        self._in_response = {}

    def end_response(self) -> int:
        """Count the response, which is sent now. Return how many there are."""
        self.responses += 1
        return self.responses

    def _note(self, followed: Followed) -> None:
        self._in_response.setdefault(followed.id, (followed, followed.high_watermark, followed.log_start_offset))


class FollowerSessions(Watchers[FollowerSession[P]]):
    """The session of each follower, at most one: the one that it began last."""

    def __init__(self, call_soon: CallSoon = at_once) -> None:
        super().__init__(call_soon)
        self._by_follower: Final[dict[int, FollowerSession[P]]] = {}

    @property
    def count(self) -> int:
        """This is the number of followers that have a session."""
        return len(self._by_follower)

    def begin(self, follower_id: int, broker_epoch: int, session_id: int, parked: P) -> FollowerSession[P]:
        """Begin a session of a follower, whose former session ends."""
        if (former := self._by_follower.get(follower_id)) is not None:
            former.end()
        session = FollowerSession(follower_id, session_id, broker_epoch, parked, self)
        self._by_follower[follower_id] = session
        return session

    def find(self, follower_id: int, broker_epoch: int, session_id: int) -> FollowerSession[P] | None:
        """Return the follower's session if it is this one."""
        session = self._by_follower.get(follower_id)
        is_this = session is not None and (session.broker_epoch, session.id) == (broker_epoch, session_id)
        return session if is_this else None

    def remove(self, session: FollowerSession[P]) -> None:
        """Forget a session that has ended, unless the follower has begun another one."""
        if self._by_follower.get(session.follower_id) is session:
            del self._by_follower[session.follower_id]

    def close(self) -> None:
        super().close()
        # A follower that follows nothing at the moment has a parked fetch too.
        for session in self._by_follower.values():
            session.parked.close()

    def on_high_watermark(self, partition: PartitionId) -> None:
        """Note that the high watermark of a partition has moved."""
        for session, _ in self.of(partition):
            session.on_high_watermark(partition)

    def confirm(self, partition: PartitionId) -> None:
        """Have the followers of a partition confirm its leadership."""
        for session, _ in self.of(partition):
            session.confirm(partition)
