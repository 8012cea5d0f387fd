"""A member of a group, of the consumer protocol or the classic one, which tells the judge what it believes to own.

It reads nothing. It takes partitions, gives them up and commits numbers that never repeat, as a client does that
processes what it reads.
"""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable
from random import Random
from typing import Final, NamedTuple, TypeVar

from tests.world.client import Member, RawClient
from tests.world.cluster import Cluster
from tests.world.owners import Owners

from ottla_core.errors import ErrorCode

SESSION_S: Final = 6.0
REBALANCE_S: Final = SESSION_S
"""It is not shorter than the session. So no member is expelled before its session could have ended."""
HEARTBEAT_S: Final = 0.5
ANSWERED_S: Final = 1.5
"""A member gives a request up after this time, and sends it again to any broker."""
_PROOF_S: Final = 2.0
"""A coordinator that has lost its shard may answer heartbeats for so long (`GroupCoordinatorConfig.limits`)."""
_DRIFT: Final = 0.001
"""The clocks of two hosts count differently by up to this share."""
EXPELLED_S: Final = (SESSION_S - _PROOF_S) * (1 - _DRIFT)
"""No session ends earlier after the last request that was answered."""
_LATE_S: Final = 5.0
"""Once a request that was given up is no longer held back by a cut, it is carried out within this time or never."""
_PROCESSED_S: Final = 1.0
_COMMITS: Final = 0.4
_OLD_COMMITS: Final = 0.5
_REFUSED: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
}
"""A commit that got one of these errors was not carried out."""
_numbers: Final = itertools.count()
_T = TypeVar("_T")


class Role(NamedTuple):
    """What a member is in its group: it reads `partitions` partitions of a topic, and is static with an instance id."""

    group: str
    topic: str
    partitions: int
    instance_id: str | None = None


class GroupMember(ABC):
    """`name` is that of the process. Its successor in the same role has another one."""

    def __init__(self, name: str, role: Role, cluster: Cluster, owners: Owners, chance: Random) -> None:
        self.name: Final = name
        self.owned: Final[set[int]] = set()
        self.paused_until = 0.0
        """The process is suspended until then. It knows nothing of that."""
        self.leaves = False
        """It is told to stop in order."""
        self._role: Final = role
        self._group: Final = role.group
        self._cluster: Final = cluster
        self._owners: Final = owners
        self._random: Final = chance
        self._raw: Final = RawClient()
        self._member = Member("", 0, role.instance_id)
        self._heard_at = 0.0
        """It has sent the last request then that was answered, and that has begun its session again."""
        self._doubted_until = 0.0
        self._untold: Final[set[int]] = set()
        """Partitions that it owns, and that a request which it has given up may still free."""
        self._given_up: Final[dict[int, int]] = {}
        """The last epoch in which it owned each of the partitions that it has given up."""

    async def run(self) -> None:
        while not self.leaves:
            await self._step()
        self._member_ends("closed")
        await self._leave()

    def on_killed(self) -> None:
        self._member_ends("killed")

    @abstractmethod
    async def _step(self) -> None:
        """Send the next request, and do what its answer asks for."""

    @abstractmethod
    async def _leave(self) -> None:
        """Tell the group, unless nobody answers."""

    # ---- what it asks ----------------------------------------------------------------------------------------------

    async def _asked(self, request: Awaitable[_T]) -> _T | None:
        """Return the answer, or None if there was none."""
        try:
            answer = await request
        except OSError:
            answer = None
        await self._awake()
        return answer

    async def _awake(self) -> None:
        while (seconds := self.paused_until - self._cluster.world.now) > 0:
            await asyncio.sleep(seconds)

    async def _rest(self) -> None:
        """Wait until the next heartbeat, and commit in most of these times, even after a pause that it doesn't know."""
        await asyncio.sleep(HEARTBEAT_S * self._random.uniform(0.8, 1.2))
        was_paused = self.paused_until > self._cluster.world.now
        await self._awake()
        if was_paused or self._random.random() < _COMMITS:
            await self._commit()
        if self._given_up and self._random.random() < _OLD_COMMITS:
            await self._commit_given_up()

    async def _wait_to_retry(self) -> None:
        await asyncio.sleep(self._random.uniform(0.05, 0.3))

    def _any(self) -> str:
        return self._random.choice(self._cluster.brokers)

    async def _finish(self) -> None:
        """Process what it has read, which may take some time, and commit it, before it gives partitions up."""
        await asyncio.sleep(self._random.choice((0.0, self._random.uniform(0.0, _PROCESSED_S))))
        await self._commit()

    async def _commit(self) -> None:
        """Commit all that it owns."""
        if not self.owned:
            return
        offsets = {number: next(_numbers) for number in sorted(self.owned)}
        member = self._member
        commits = self._owners.begin_commit(self._group, self._owner, member.generation, offsets)
        code = await self._asked(
            self._raw.commit(self._any(), self._group, member, self._role.topic, offsets, ANSWERED_S)
        )
        if code == ErrorCode.NONE or code in _REFUSED:
            self._owners.end_commit(self._group, self.name, commits, is_accepted=code == ErrorCode.NONE)

    async def _commit_given_up(self) -> None:
        """Try to commit in an epoch that is over, a partition that was given up in it."""
        number, epoch = self._given_up.popitem()
        if number in self.owned or epoch >= self._member.generation:
            return
        former, offset = self._member._replace(generation=epoch), next(_numbers)
        code = await self._asked(
            self._raw.commit(self._any(), self._group, former, self._role.topic, {number: offset}, ANSWERED_S)
        )
        if code == ErrorCode.NONE or code in _REFUSED:
            type_ = "ok" if code == ErrorCode.NONE else "fail"
            self._owners.tell(
                "old_commit", self._group, self.name, type_=type_, partition=number, epoch=epoch, error=code
            )

    # ---- what it believes ------------------------------------------------------------------------------------------

    @property
    def _owner(self) -> str:
        return self._role.instance_id or self.name

    def _doubt(self) -> None:
        """Note that it has given up a request that may free, later, what it takes in the meantime."""
        self._doubted_until = max(self._cluster.world.now, self._cluster.network.whole_at) + _LATE_S

    def _is_doubted(self) -> bool:
        """Return whether others may have by now what it is told to take."""
        now = self._cluster.world.now
        return now < self._doubted_until or now > self._heard_at + EXPELLED_S

    def _hear(self, sent_at: float, epoch: int) -> None:
        """Note that the group has answered that it is a member, and in which epoch."""
        self._heard_at = sent_at
        self._member = self._member._replace(generation=epoch)
        self._owners.take(self._group, self._owner, sorted(self.owned), epoch)
        if self._untold and not self._is_doubted():
            self._tell("assigned", self._untold)
            self._untold.clear()

    def _take(self, partitions: Iterable[int]) -> None:
        taken = set(partitions) - self.owned
        self.owned.update(taken)
        self._owners.take(self._group, self._owner, sorted(taken), self._member.generation)
        if self._is_doubted():
            self._untold.update(taken)
        elif taken:
            self._tell("assigned", taken)

    def _give_up(self, partitions: Iterable[int], how: str = "revoked") -> None:
        gone = set(partitions)
        self._given_up.update(dict.fromkeys(sorted(gone), self._member.generation))
        if gone - self._untold:
            self._tell(how, gone - self._untold)
        self.owned.difference_update(gone)
        self._untold.difference_update(gone)

    def _expelled(self, code: int) -> None:
        """Note that it is no member any more, or not in its epoch."""
        now = self._cluster.world.now
        expires_at = self._heard_at + EXPELLED_S
        if self.owned and code == ErrorCode.UNKNOWN_MEMBER_ID and now < expires_at:
            self._owners.violate(f"{self.name} was expelled from {self._group} before its session could have ended")
        self._note_expiry()
        self._give_up(tuple(self.owned), "lost")
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._given_up.clear()

    def _note_expiry(self) -> None:
        """Excuse it from the end of its session on, as it has not been heard since."""
        expires_at = self._heard_at + EXPELLED_S
        if expires_at < self._cluster.world.now:
            self._owners.tell("paused", self._group, self.name, expires_at)

    def _member_ends(self, how: str) -> None:
        self._note_expiry()
        self._tell(how, ())
        self.owned.clear()
        self._untold.clear()

    def _tell(self, f: str, partitions: Iterable[int]) -> None:
        self._owners.tell(f, self._group, self.name, partitions=sorted(partitions))
