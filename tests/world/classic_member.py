"""A member of the classic protocol: it joins, gets its partitions from the group's leader, and gives all of them up
before it joins again, as Java's consumer does with the range assignor."""

from __future__ import annotations

from typing import Final

from tests.world.client import Joined
from tests.world.group_member import ANSWERED_S, REBALANCE_S, SESSION_S, GroupMember

from ottla_core.errors import ErrorCode
from ottla_core.kafka_formats.consumer_protocol import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicPartition

_ATTEMPTS: Final = 3
_JOINS_AGAIN: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
}


class ClassicMember(GroupMember):
    """It has its id from the coordinator. If it leads, it shares the partitions out."""

    _has_joined = False

    async def _step(self) -> None:
        if not self._has_joined:
            await self._join()
            return
        await self._rest()
        sent_at = self._cluster.world.now
        code = await self._asked(self._raw.heartbeat(self._any(), self._group, self._member, ANSWERED_S))
        if code == ErrorCode.NONE:
            self._hear(sent_at, self._member.generation)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._heard_at = sent_at
            await self._finish()
            self._give_up(tuple(self.owned))
            self._has_joined = False
        elif code in _JOINS_AGAIN:
            self._join_again(code)
        else:
            await self._wait_to_retry()

    async def _join(self) -> None:
        metadata = encode_subscription(Subscription((self._role.topic,)))
        session_ms, rebalance_ms = int(SESSION_S * 1000), int(REBALANCE_S * 1000)
        joined = await self._asked(
            self._raw.join_group(
                self._any(), self._group, self._member.id, session_ms, rebalance_ms, metadata, self._role.instance_id
            )
        )
        if joined is None:
            self._doubt()
            await self._wait_to_retry()
        elif joined.code == ErrorCode.NONE:
            self._member = joined.member
            await self._sync(joined)
        elif joined.code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member = self._member._replace(id=joined.member.id)
        elif joined.code in _JOINS_AGAIN:
            self._join_again(joined.code)
        else:
            self._doubt()
            await self._wait_to_retry()

    async def _sync(self, joined: Joined) -> None:
        """Get its partitions. If it leads, share out all of them."""
        ids = sorted(joined.members)
        dealt = {id_: range(n, self._role.partitions, len(ids)) for n, id_ in enumerate(ids)}
        assignments = {
            id_: encode_assignment(MemberAssignment(tuple(TopicPartition(self._role.topic, n) for n in numbers)))
            for id_, numbers in dealt.items()
        }
        while not self.leaves:
            sent_at = self._cluster.world.now
            answer = await self._asked(self._raw.sync_group(self._any(), self._group, self._member, assignments))
            code, assignment = answer or (ErrorCode.NETWORK_EXCEPTION, b"")
            if code == ErrorCode.NONE:
                self._has_joined = True
                self._hear(sent_at, self._member.generation)
                self._take(number for _, number in decode_assignment(assignment).partitions)
                return
            if code in _JOINS_AGAIN:
                self._join_again(code)
                return
            await self._wait_to_retry()

    def _join_again(self, code: int) -> None:
        """Forget what it had, and its id if the group does not know that."""
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            self._expelled(code)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member = self._member._replace(id="")
        self._has_joined = False

    async def _leave(self) -> None:
        """Leave, unless it is static. A static member is missed only when its session ends."""
        for _ in range(_ATTEMPTS if self._role.instance_id is None and self._member.id else 0):
            code = await self._asked(self._raw.leave_group(self._any(), self._group, self._member.id))
            if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
                return
            await self._wait_to_retry()
