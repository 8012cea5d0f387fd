"""A consumer group reads the committed records of a topic, and a judge checks what it has read and committed.

Its members behave like Java's classic consumer. They join, get partitions from the leader of the group, read from the
committed offset, and commit what they have read. Some leave the group, and some fall silent until their session times
out.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from tests.world.books import Books
from tests.world.client import Joined, Member, RawClient, records_of, without_aborted
from tests.world.cluster import Cluster
from tests.world.findings import Findings

from ottla_core.errors import ErrorCode

NAME: Final = "readers"
_MEMBERS: Final = 3
_SESSION_MS: Final = 6_000
_HEARTBEAT_S: Final = 1.0
_SLOW_HEARTBEAT_S: Final = 2.5
_SETTLED_S: Final = 60.0
"""Within this time after a rest has begun, all members have joined."""
_LEAST_PAUSE_S: Final = 0.02
_STALLS: Final = 0.01
_STALL_S: Final = (0.0, 12.0)
_NOT_A_MEMBER: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
}
"""A request that got one of these errors was not carried out, and its member has to join again."""


class _Commit(NamedTuple):
    generation: int
    offset: int


class _RejoinError(Exception):
    """The member has to join again. With `is_known`, it is certain that no attempt was carried out."""

    def __init__(self, code: int, *, is_known: bool) -> None:
        super().__init__(code)
        self.code = code
        self.is_known = is_known


class Group:
    """This is the group. It reads partitions 0 to `partitions` - 1 of a topic.

    As long as the group `rests`, its members do nothing but send heartbeats, and nobody may expel them.
    """

    def __init__(
        self, cluster: Cluster, findings: Findings, random: Random, books: Books, topic: str, partitions: int
    ) -> None:
        self.rests = False
        self._cluster: Final = cluster
        self._findings: Final = findings
        self._random: Final = random
        self._books: Final = books
        self._topic: Final = topic
        self._partitions: Final = partitions
        self._owners: Final[dict[tuple[int, int], str]] = {}
        """The member that has a partition in a generation, by generation and partition."""
        self._commits: Final[defaultdict[int, list[_Commit]]] = defaultdict(lambda: [_Commit(-1, -1)])
        """The commits of each partition that may be the last one that was carried out."""
        self._lost: Final[set[tuple[int, _Commit]]] = set()
        """Commits with a lost answer, each behind its partition."""
        self._read: Final[defaultdict[int, list[tuple[int, int]]]] = defaultdict(list)
        """The ranges of offsets that members have read."""

    async def run(self) -> None:
        await asyncio.gather(*(self._take_part(RawClient()) for _ in range(_MEMBERS)))

    # ---- a member --------------------------------------------------------------------------------------------------

    async def _take_part(self, raw: RawClient) -> None:
        random, id_ = self._random, ""
        while True:
            try:
                joined = await self._join(raw, id_)
                id_ = joined.member.id
                await self._read_on(raw, joined.member, await self._sync(raw, joined))
                if random.random() < 0.5:
                    await self._retried(lambda: raw.leave_group(self._any(), NAME, id_))  # noqa: B023 it ends here
                id_ = ""
                await asyncio.sleep(random.uniform(0.0, 8.0))
            except _RejoinError as error:
                id_ = "" if error.code == ErrorCode.UNKNOWN_MEMBER_ID else id_

    async def _join(self, raw: RawClient, id_: str) -> Joined:
        while True:
            joined: list[Joined] = []

            async def join(id_: str = id_, joined: list[Joined] = joined) -> int:
                joined.append(await raw.join_group(self._any(), NAME, id_, _SESSION_MS, _SESSION_MS // 2))
                id_given = joined[-1].code == ErrorCode.MEMBER_ID_REQUIRED
                return ErrorCode.NONE if id_given else joined[-1].code

            await self._retried(join)
            if joined[-1].code == ErrorCode.NONE:
                return joined[-1]
            id_ = joined[-1].member.id

    async def _sync(self, raw: RawClient, joined: Joined) -> Sequence[int]:
        """Return the partitions that the group's leader has assigned to this member. The leader assigns at random."""
        dealt: dict[str, list[int]] = {each: [] for each in joined.members}
        for number in range(self._partitions) if dealt else ():
            dealt[self._random.choice(joined.members)].append(number)
        given: list[bytes] = []

        async def sync() -> int:
            assignments = {each: bytes(numbers) for each, numbers in dealt.items()}
            code, assignment = await raw.sync_group(self._any(), NAME, joined.member, assignments)
            given.append(assignment)
            return code

        await self._retried(sync)
        for number in given[-1]:
            owner = self._owners.setdefault((joined.member.generation, number), joined.member.id)
            if owner != joined.member.id:
                self._findings.violate(f"{owner} and {joined.member} both have partition {number}")
        self._findings.counts["assigned"] += 1
        return list(given[-1])

    async def _read_on(self, raw: RawClient, member: Member, partitions: Sequence[int]) -> None:
        """Read and commit until it is time to leave. Raises _RejoinError."""
        world, random = self._cluster.world, self._random
        ends_at, heartbeat_at = world.now + random.expovariate(0.1), world.now
        positions = {number: await self._position(raw, number) for number in partitions}
        while world.now < ends_at or self.rests:
            if self.rests:
                await self._wait(raw, member)
            await asyncio.sleep(_LEAST_PAUSE_S + random.expovariate(10.0))
            if random.random() < _STALLS:
                # The member goes on where it was, like a suspended process. The group may have gone on without it.
                await asyncio.sleep(random.uniform(*_STALL_S))
                if positions:
                    number = random.choice(partitions)
                    await self._commit(raw, member, number, await self._read_from(raw, number, positions[number]))
            if world.now >= heartbeat_at:
                await self._retried(lambda: raw.heartbeat(self._any(), NAME, member))
                heartbeat_at = world.now + _HEARTBEAT_S
            if positions:
                number = random.choice(partitions)
                positions[number] = await self._read_from(raw, number, positions[number])
                if random.random() < 0.3:
                    await self._commit(raw, member, number, positions[number])

    async def _wait(self, raw: RawClient, member: Member) -> None:
        """Send heartbeats as long as the group rests. Raises _RejoinError, which is right only at the beginning."""
        began = self._cluster.world.now
        while self.rests:
            try:
                await self._retried(lambda: raw.heartbeat(self._any(), NAME, member))
            except _RejoinError as error:
                if self._cluster.world.now - began > _SETTLED_S:
                    self._findings.violate(f"{member} waited, and was expelled with {error}")
                raise
            await asyncio.sleep(_SLOW_HEARTBEAT_S)

    async def _position(self, raw: RawClient, number: int) -> int:
        """Return the committed offset, or 0 if there is none. Check it, unless a commit comes between."""
        found: list[int] = []

        async def fetch() -> int:
            before = list(self._commits[number])
            answer = await raw.committed(self._any(), NAME, self._topic, number)
            if answer.code == ErrorCode.NONE and before == self._commits[number]:
                self._check_committed(number, answer.offset)
            found.append(answer.offset)
            return answer.code

        await self._retried(fetch)
        return max(0, found[-1])

    async def _read_from(self, raw: RawClient, number: int, position: int) -> int:
        """Read once, and return the next position."""
        leader = self._cluster.metadata.leader(self._topic, number)
        topic_id = self._cluster.metadata.topics[self._topic]
        try:
            fetched = await raw.fetch(f"broker-{leader}", self._topic, topic_id, position, number, committed=True)
        except OSError:
            return position
        following = position
        if fetched.code == ErrorCode.OFFSET_OUT_OF_RANGE and position < fetched.log_start_offset:
            following = fetched.log_start_offset
        elif fetched.code == ErrorCode.NONE:
            following = fetched.next_offset(position)
            for batch in without_aborted(fetched):
                for offset, _, value in records_of(batch):
                    self._books.check_readable(number, offset, value or b"")
        if following > position:
            self._read[number].append((position, following))
        return following

    async def _commit(self, raw: RawClient, member: Member, number: int, offset: int) -> None:
        commit = _Commit(member.generation, offset)
        self._commits[number].append(commit)

        async def send() -> int:
            return await raw.commit(self._any(), NAME, member, self._topic, {number: offset})

        try:
            was_lost = await self._retried(send)
        except _RejoinError as error:
            # A commit of a later generation has taken it off the list already.
            if error.is_known and commit in self._commits[number]:
                self._commits[number].remove(commit)
            raise
        if was_lost:
            # The request whose answer was lost may be carried out later.
            self._lost.add((number, commit))
        # Commits of earlier generations can't be carried out any more.
        self._commits[number][:] = [
            each
            for each in self._commits[number]
            if each.generation > member.generation
            or (each.generation == member.generation and (each.offset >= offset or (number, each) in self._lost))
        ]
        self._findings.counts["commits"] += 1

    async def _retried(self, attempt: Callable[[], Awaitable[int]]) -> bool:
        """Try until it succeeds. Return whether an answer was lost. Raises _RejoinError."""
        was_lost = False
        while True:
            try:
                code = await attempt()
            except OSError:
                was_lost, code = True, ErrorCode.NETWORK_EXCEPTION
            if code == ErrorCode.NONE:
                return was_lost
            if code in _NOT_A_MEMBER:
                raise _RejoinError(code, is_known=not was_lost)
            was_lost = was_lost or code == ErrorCode.REQUEST_TIMED_OUT
            await asyncio.sleep(self._random.uniform(0.05, 0.5))

    def _any(self) -> str:
        return self._random.choice(self._cluster.brokers)

    # ---- the judge -------------------------------------------------------------------------------------------------

    async def look(self, raw: RawClient) -> str:
        """Judge the committed offsets. Return why that is not possible yet, or an empty text."""
        for number in range(self._partitions):
            try:
                answer = await raw.committed(self._any(), NAME, self._topic, number)
            except OSError:
                return f"the offsets of group {NAME} can't be read"
            if answer.code != ErrorCode.NONE:
                return f"the offsets of group {NAME} can't be read: {ErrorCode(answer.code).name}"
            self._check_committed(number, answer.offset)
            self._judge_read(number, answer.offset)
        return ""

    def _check_committed(self, number: int, offset: int) -> None:
        allowed = sorted({each.offset for each in self._commits[number]})
        if offset not in allowed:
            self._findings.violate(
                f"the group has committed offset {offset} of partition {number}, which is not one of {allowed}"
            )

    def _judge_read(self, number: int, committed: int) -> None:
        """Check that members have read everything before the committed offset."""
        end = 0
        for begin, following in sorted(self._read[number]):
            if begin > end:
                break
            end = max(end, following)
        if end < committed:
            self._findings.violate(
                f"offset {committed} of partition {number} is committed, but no member has read from offset {end} on"
            )
