"""A member of a group that calls the coordinator itself, and misbehaves on purpose now and then.

It joins, assigns where it leads, commits what is its own, and starts anew whatever happens. After a rebalance it may
try to commit in the generation before; by chance (`Habits`) it leaves, falls silent for good, or sleeps past its
session and goes on as if nothing had been. What it was told stands in the history.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.faults.groups.client import MOVING, GroupClient
from tests.faults.groups.notes import GroupNotes, is_refusal

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import (
    PROTOCOL_TYPE,
    MemberAssignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicPartition
from ottla_core.rpc.status import raise_error
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group

SESSION_S: Final = 6.0
REBALANCE_S: Final = 8.0
JOIN_CALL_S: Final = REBALANCE_S + 2.0
PROTOCOL: Final = "range"
_RETRY_S: Final = 0.05
_REJOIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


@dataclass(frozen=True, slots=True)
class Habits:
    """`churn_s`: how long it is a member on the average; 0: for ever, and then to be told that it is none is wrong."""

    tick_s: float = 0.25
    heartbeat_s: float = 0.5
    churn_s: float = 0.0
    zombie: float = 0.3
    """How often it tries to commit in the generation before the present one."""
    silent: float = 0.1
    """How often it ends without a word, so that its group has to wait for the end of its session."""


class Member:
    def __init__(
        self,
        client: GroupClient,
        notes: GroupNotes,
        group: str,
        topic: str,
        partitions: int,
        habits: Habits,
        chance: random.Random,
    ) -> None:
        self._client: Final = client
        self._notes: Final = notes
        self._group: Final = group
        self._topic: Final = topic
        self._partitions: Final = partitions
        self._habits: Final = habits
        self._random: Final = chance
        self._id = ""
        self._generation = -1
        self._former: tuple[str, int] | None = None
        self._mine: tuple[int, ...] = ()
        self._ends_at = float("inf")
        self.calm = False
        """Whether it behaves from now on, so that its group can come to rest."""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._be_a_member()
            except OttlaError as error:
                self._on_error(error)
                await asyncio.sleep(_RETRY_S)

    # ---- one membership ---------------------------------------------------------------------------------------------

    async def _be_a_member(self) -> None:
        before = self._former
        await self._join()
        if before is not None and self._random.random() < self._habits.zombie:
            await self._commit(*before)
        heartbeat_at = 0.0
        while True:
            if time.monotonic() >= heartbeat_at:
                heartbeat_at = time.monotonic() + self._habits.heartbeat_s
                await self._retry(
                    Group.HEARTBEAT,
                    pb.HeartbeatRequest(group=self._group, member=self._who, generation=self._generation),
                )
            await self._commit(self._id, self._generation)
            await asyncio.sleep(self._habits.tick_s * self._random.uniform(0.5, 1.5))
            if time.monotonic() >= self._ends_at and not self.calm:
                await self._misbehave()

    async def _join(self) -> None:
        asked = pb.JoinRequest(
            group=self._group,
            member=self._who,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
            protocol_type=PROTOCOL_TYPE,
            protocols=[pb.Protocol(name=PROTOCOL, metadata=encode_subscription(Subscription((self._topic,))))],
            member_id_required=True,
        )
        joined = await self._client.ask(self._group, Group.JOIN, asked, timeout=JOIN_CALL_S)
        if joined.error.code == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = joined.member_id
            self._ends_at = self._next_end()
            asked.member.CopyFrom(self._who)
            joined = await self._client.ask(self._group, Group.JOIN, asked, timeout=JOIN_CALL_S)
        raise_error(joined.error)
        assignments = self._assign(joined) if joined.leader == self._id else {}
        synced = await self._retry(
            Group.SYNC,
            pb.SyncRequest(
                group=self._group,
                member=self._who,
                generation=joined.generation,
                assignments=[pb.MemberAssignment(member_id=m, assignment=a) for m, a in assignments.items()],
            ),
            timeout=JOIN_CALL_S,
        )
        self._generation = joined.generation
        self._former = self._id, self._generation
        self._mine = tuple(p.partition for p in decode_assignment(synced.assignment).partitions)
        self._notes.given(self._group, self._id, self._generation, self._mine)

    def _assign(self, joined: pb.JoinResponse) -> Mapping[str, bytes]:
        """Every partition to one member, in turn; another turn each time, so that all of them move."""
        members = [each.member.member_id for each in joined.members]
        self._random.shuffle(members)
        return {
            member: encode_assignment(
                MemberAssignment(
                    tuple(TopicPartition(self._topic, p) for p in range(n, self._partitions, len(members)))
                )
            )
            for n, member in enumerate(members)
        }

    async def _commit(self, member: str, generation: int) -> None:
        """Raises what the member has to follow; that a commit in an old generation is refused is as it must be."""
        if not self._mine:
            return
        offsets = {partition: self._notes.fresh_value() for partition in self._mine}
        asked = pb.CommitOffsetsRequest(
            group=self._group,
            member=pb.Member(member_id=member),
            generation=generation,
            offsets=[pb.OffsetToCommit(topic=self._topic, partition=p, offset=o) for p, o in offsets.items()],
        )
        number = self._notes.committing(self._group, member, generation, offsets)
        try:
            response = await self._client.ask(self._group, Group.COMMIT_OFFSETS, asked)
            raise_error(response.error)
            for outcome in response.partitions:
                raise_error(outcome.error)
        except OttlaError as error:
            self._notes.not_committed(number, self._group, error, refused=is_refusal(error))
            if is_refusal(error) and (member, generation) == (self._id, self._generation):
                raise
            if not is_refusal(error) and error.code not in MOVING:
                self._notes.told("surprise", self._group, error)
        else:
            self._notes.committed(number, self._group)

    async def _retry(self, method: Any, asked: Any, *, timeout: float = 1.0) -> Any:
        """The response of whoever owns the group, once somebody does. Raises what else is answered."""
        while True:
            try:
                response = await self._client.ask(self._group, method, asked, timeout=timeout)
                raise_error(response.error)
            except OttlaError as error:
                if error.code not in MOVING:
                    raise
                await asyncio.sleep(_RETRY_S)
            else:
                return response

    # ---- what it does besides ---------------------------------------------------------------------------------------

    async def _misbehave(self) -> None:
        if self._random.random() >= self._habits.silent:
            leaving = pb.LeaveRequest(group=self._group, members=[pb.Leaver(member=self._who, reason="enough")])
            await self._client.ask(self._group, Group.LEAVE, leaving)
            self._forget()
        elif self._random.random() < 0.5:
            self._forget()  # as one that has died and was started again
            await asyncio.sleep(self._random.uniform(0.0, 2.0))
        else:
            await asyncio.sleep(SESSION_S + 2.0)
        self._ends_at = self._next_end()

    def _on_error(self, error: OttlaError) -> None:
        if error.code in MOVING or error.code in _REJOIN:
            if error.code == ErrorCode.ILLEGAL_GENERATION and not self._habits.churn_s:
                self._notes.told("kicked", self._group, error)
            return
        if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
            if not self._habits.churn_s:
                self._notes.told("kicked", self._group, error)
        else:
            self._notes.told("surprise", self._group, error)
        self._forget()

    def _forget(self) -> None:
        self._id, self._mine = "", ()

    def _next_end(self) -> float:
        churn_s = self._habits.churn_s
        return time.monotonic() + self._random.expovariate(1 / churn_s) if churn_s else float("inf")

    @property
    def _who(self) -> pb.Member:
        return pb.Member(member_id=self._id)
