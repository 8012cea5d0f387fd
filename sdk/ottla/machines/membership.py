"""A member of a consumer group: its state, and the effect of each response of the coordinator.

    UNJOINED ──begin_join──▶ JOINING ──on_joined──▶ SYNCING ──on_synced──▶ STABLE
        ▲                       │                      │                     │
        └────── a failure ──────┴──────────────────────┘   `rejoin`: begin_join again, after the partitions were seen to

The rules this file owns (Kafka's classic protocol, KIP-62, 345, 394, 429):

* A member is identified by its id and generation. After UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION, its partitions are
  `lost`; it forgets its id and generation and joins as a new member. Until then it commits with its old identity, which
  the coordinator rejects; a commit without a generation would be accepted as one from outside the group. A response to
  a request of an earlier generation has no effect on the current one.
* REBALANCE_IN_PROGRESS: join again, and keep the id.
* A problem with the coordinator changes nothing: the member looks it up again and retries after a back-off.
* A member sends heartbeats from the response to its join until it leaves the group, because a leader may take long to
  assign partitions. A join needs no heartbeats: the coordinator counts a member with a pending join as alive.
* A member that does not poll within `max_poll_interval` leaves the group, and gives that as its reason. A program that
  waits for records is polling all the time, so the interval begins when its wait ends.

Times are in monotonic seconds. Not thread-safe: the consumer holds one lock over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode, is_retriable

NO_GENERATION: Final = -1
NEVER: Final = float("inf")

_BACKOFF_S: Final = 0.1
_BACKOFF_MOST_S: Final = 1.0


class MemberState(Enum):
    """A member's state, in words for logs."""

    UNJOINED = "not in the group"
    JOINING = "waits for the others to join"
    SYNCING = "waits for its assignment"
    STABLE = "has its assignment"
    LEFT = "has left"


class Meaning(Enum):
    """The reaction that a coordinator's error requires from a member."""

    TAKE_ID = "join again with the member id from the response"
    REJOIN = "the group is rebalancing: join again"
    LOST = "the group has continued without this member: join as a new member"
    FIND = "the coordinator may have moved: look it up, and try again"
    AGAIN = "try the same coordinator again, a little later"
    FATAL = "a retry would not help"


MEANINGS: Final = {
    ErrorCode.MEMBER_ID_REQUIRED: Meaning.TAKE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS: Meaning.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Meaning.LOST,
    ErrorCode.ILLEGAL_GENERATION: Meaning.LOST,
    ErrorCode.NOT_COORDINATOR: Meaning.FIND,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Meaning.FIND,
    ErrorCode.NETWORK_EXCEPTION: Meaning.FIND,
    ErrorCode.REQUEST_TIMED_OUT: Meaning.FIND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Meaning.FIND,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Meaning.AGAIN,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Meaning.FATAL,  # of a commit: the coordinator has made sure of it
    ErrorCode.UNKNOWN_TOPIC_ID: Meaning.FATAL,
}
"""Any other error is AGAIN if Kafka calls it retriable, else FATAL, such as FENCED_INSTANCE_ID."""


def meaning_of(code: int) -> Meaning:
    """Return the reaction to a coordinator's error."""
    known = MEANINGS.get(ErrorCode(code)) if code in ErrorCode._value2member_map_ else None
    return known or (Meaning.AGAIN if is_retriable(code) else Meaning.FATAL)


class MemberIdentity(NamedTuple):
    """A member's identity. The coordinator accepts commits and heartbeats only of the current generation (rule 46)."""

    member_id: str = ""
    generation: int = NO_GENERATION
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Kafka's settings of a member, in seconds. An `instance_id` makes it a static member (KIP-345)."""

    session_timeout_s: float = 45.0
    heartbeat_interval_s: float = 3.0
    max_poll_interval_s: float = 300.0
    instance_id: str | None = None


class Membership:
    """One member.

    `lost` says why it no longer owns its partitions, and `join_reason` why it has to join; each may be "".
    """

    def __init__(self, settings: MemberSettings) -> None:
        self.settings: Final = settings
        self.state = MemberState.UNJOINED
        self.member_id = ""
        self.generation = NO_GENERATION
        self.commits_as = self.identity  # the identity with which it has, or had, its partitions
        self.protocol = ""
        self.leads = False
        self.lost = ""
        self.left_behind = ""  # the last `lost`, to explain later why a commit failed
        self.join_reason = "the consumer begins"
        self.failing_since = NEVER
        self.retry_at = 0.0
        self._failures = 0
        self.polled_at = NEVER
        self.heartbeat_sent_at = NEVER
        self._heartbeat_at = NEVER
        self._heartbeat_failures = 0

    @property
    def identity(self) -> MemberIdentity:
        """The member's current identity."""
        return MemberIdentity(self.member_id, self.generation, self.settings.instance_id)

    # ---- joining: the user's thread ------------------------------------------------------------------------------

    def rejoin(self, reason: str) -> None:
        """Join again at the next call of the user's thread; the first reason stays."""
        self.join_reason = self.join_reason or reason

    def may_join(self, now: float) -> bool:
        """Return whether the member has a reason to join, and its back-off is over."""
        idle = self.state in (MemberState.UNJOINED, MemberState.STABLE)
        return idle and bool(self.join_reason) and now >= self.retry_at

    def begin_join(self) -> None:
        """Begin to join, after the partitions were prepared for it."""
        self.state = MemberState.JOINING
        self.lost = ""

    def take_id(self, member_id: str) -> None:
        """Take the member id to join with (KIP-394)."""
        self.member_id = member_id

    def on_joined(self, generation: int, member_id: str, protocol: str, leader: str, now: float) -> None:
        """Note that all members have joined. `protocol` is the assignor that they agree on."""
        self.state = MemberState.SYNCING
        self.generation, self.member_id, self.protocol = generation, member_id, protocol
        self.commits_as = self.identity
        self.leads = leader == member_id
        self.join_reason = ""
        self._heartbeat_at = now + self.settings.heartbeat_interval_s

    def on_synced(self, now: float) -> None:
        """Note that the member knows its assignment."""
        self.state = MemberState.STABLE
        self.left_behind = ""
        self._recover()
        self._heartbeat_at = now + self.settings.heartbeat_interval_s

    def on_join_failed(self, code: int, message: str, now: float) -> Meaning:
        """Handle a failed join or sync: the member has to join again, unless the error is FATAL."""
        meaning = meaning_of(code)
        self.state = MemberState.UNJOINED
        self.join_reason = self.join_reason or message or meaning.value
        match meaning:
            case Meaning.LOST:
                self._lose(message or meaning.value)
            case Meaning.FIND | Meaning.AGAIN | Meaning.FATAL | Meaning.TAKE_ID:
                self.failing_since = min(self.failing_since, now)
                self.retry_at = now + min(_BACKOFF_MOST_S, _BACKOFF_S * 2.0 ** min(self._failures, 10))
                self._failures += 1
        return meaning

    # ---- staying: the heartbeats' thread -------------------------------------------------------------------------

    def on_poll(self, now: float) -> None:
        """Note that the user's thread polls at `now`; it does so all the time while it waits for records."""
        self.polled_at = now

    @property
    def poll_overdue_at(self) -> float:
        """Return when a member that is in the group has not polled for too long."""
        in_group = self.state is MemberState.STABLE
        return self.polled_at + self.settings.max_poll_interval_s if in_group else NEVER

    def on_poll_overdue(self) -> str:
        """Make the member leave and lose its partitions; return the reason.

        The group still waits for a static member.
        """
        reason = f"it did not poll for {self.settings.max_poll_interval_s:g} s (max_poll_interval)"
        self._lose(reason)
        self.rejoin("it polls again")
        return reason

    @property
    def heartbeat_at(self) -> float:
        """Return when the next heartbeat is due."""
        return self._heartbeat_at if self.state in (MemberState.SYNCING, MemberState.STABLE) else NEVER

    def on_heartbeat_sent(self, now: float) -> None:
        """Note that a heartbeat is in flight."""
        self.heartbeat_sent_at = now
        self._heartbeat_at = now + self.settings.heartbeat_interval_s

    def on_heartbeat(self) -> None:
        """Note that the coordinator accepted a heartbeat."""
        self._heartbeat_failures = 0

    def on_heartbeat_failed(self, generation: int, code: int, message: str, now: float) -> Meaning:
        """Handle a failed heartbeat that was sent in `generation`."""
        meaning = meaning_of(code)
        if self.state is not MemberState.STABLE or generation != self.generation:
            return Meaning.AGAIN
        match meaning:
            case Meaning.REJOIN:
                self.rejoin("the group rebalances")
            case Meaning.LOST:
                self._lose(message or meaning.value)
                self.rejoin("the group continued without it")
            case Meaning.FIND | Meaning.AGAIN:
                pause = _BACKOFF_S * 2.0 ** min(self._heartbeat_failures, 10)
                self._heartbeat_failures += 1
                self._heartbeat_at = now + min(self.settings.heartbeat_interval_s, _BACKOFF_MOST_S, pause)
        return meaning

    # ---- committing, leaving -------------------------------------------------------------------------------------

    def on_commit_failed(self, who: MemberIdentity, code: int, message: str) -> Meaning:
        """Handle a rejected commit sent with the identity `who`, which matters only if that is still the member's
        identity."""
        meaning = meaning_of(code)
        if who.generation == self.generation and self.state is MemberState.STABLE:
            if meaning is Meaning.REJOIN:
                self.rejoin("the group rebalances")
            elif meaning is Meaning.LOST:
                self._lose(message or meaning.value)
                self.rejoin("the group continued without it")
        return meaning

    def leave(self) -> str:
        """End the membership. Return the member id to leave with, or "" for a static member, which does not leave."""
        leaver = "" if self.settings.instance_id is not None else self.member_id
        self.state = MemberState.LEFT
        self.member_id, self.generation, self.join_reason = "", NO_GENERATION, ""
        return leaver

    def _lose(self, reason: str) -> None:
        self.state = MemberState.UNJOINED
        self.lost = self.left_behind = reason
        self.member_id, self.generation, self.leads = "", NO_GENERATION, False
        self.retry_at = 0.0

    def _recover(self) -> None:
        self.failing_since, self.retry_at, self._failures = NEVER, 0.0, 0
