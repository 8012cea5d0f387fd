"""A member of the consumer protocol (KIP-848): it sends heartbeats, and the coordinator assigns."""

from __future__ import annotations

from typing import Any, Final

from tests.world.group_member import ANSWERED_S, REBALANCE_S, GroupMember

from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_JOINS: Final = 0
_LEAVES: Final = -1
_LEAVES_FOR_NOW: Final = -2
_ATTEMPTS: Final = 3
_EXPELLED: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
"""The last one says that the group uses the classic protocol again."""


class ConsumerMember(GroupMember):
    """It chooses its id itself, and keeps it whatever happens."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._member = self._member._replace(id=self.name)
        self._says_all = True
        """It has joined, or has heard no answer, so the coordinator has to hear everything."""
        self._has_changed = False
        """The coordinator does not know yet what it owns."""
        self._repeats_all: Final = self._random.random() < 0.5
        """It says everything again when a response was lost, and reports its partitions after each assignment.
        librdkafka says only what has changed."""

    async def _step(self) -> None:
        if not (self._says_all or self._has_changed):
            await self._rest()
        sent_at, reports = self._cluster.world.now, self._says_all or self._has_changed
        answer = await self._asked(self._raw.consumer_heartbeat(self._any(), self._request(), ANSWERED_S))
        if answer is None:
            self._says_all = self._says_all or self._repeats_all
            if reports:
                self._doubt()
            await self._wait_to_retry()
        elif answer.error_code == ErrorCode.NONE:
            self._says_all = self._has_changed = False
            await self._follow(answer, sent_at)
        elif answer.error_code in _EXPELLED:
            self._expelled(answer.error_code)
            self._member = self._member._replace(generation=_JOINS)
            self._says_all = True
        else:
            if reports and answer.error_code != ErrorCode.UNRELEASED_INSTANCE_ID:
                self._doubt()
            self._says_all = True
            await self._wait_to_retry()

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat. It says what has changed, or everything."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member.id,
            member_epoch=self._member.generation,
            instance_id=self._role.instance_id,
        )
        if self._says_all:
            request.rebalance_timeout_ms = int(REBALANCE_S * 1000)
            request.subscribed_topic_names = [self._role.topic]
        if self._says_all or self._has_changed:
            topic_id, owned = self._cluster.metadata.topics[self._role.topic], sorted(self.owned)
            topic = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=owned)
            request.topic_partitions = [topic] if owned else []
        return request

    async def _follow(self, answer: ConsumerGroupHeartbeatResponse, sent_at: float) -> None:
        """Take a step towards the assignment: commit and give up, then take."""
        if answer.assignment is None:
            self._hear(sent_at, answer.member_epoch)
            return
        wanted = {number for topic in answer.assignment.topic_partitions for number in topic.partitions}
        self._has_changed = self._repeats_all or wanted != self.owned
        if revoked := self.owned - wanted:
            # It still has its former epoch while it commits what it gives up.
            await self._finish()
            self._give_up(revoked)
        self._hear(sent_at, answer.member_epoch)
        if taken := wanted - self.owned:
            self._take(taken)

    async def _leave(self) -> None:
        self._member = self._member._replace(generation=_LEAVES if self._role.instance_id is None else _LEAVES_FOR_NOW)
        self._says_all = self._has_changed = False
        for _ in range(_ATTEMPTS):
            answer = await self._asked(self._raw.consumer_heartbeat(self._any(), self._request(), ANSWERED_S))
            if answer is not None and answer.error_code in (ErrorCode.NONE, *_EXPELLED):
                return
            await self._wait_to_retry()
