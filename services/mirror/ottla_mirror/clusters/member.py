"""A member of the flow's group is assigned copies in the target, but reads no records from them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import ottla
from ottla_core.model import TopicPartition
from ottla_mirror.machines.load_plan import Rates

logger = logging.getLogger("ottla.mirror")

_LEAVE_S: Final = 2.0
"""A mirror waits this long for its group to tell whether it was replaced, or to learn that it has left."""


class Member:
    """A static member, known by the mirror's name: the group keeps its partitions for it until its session expires or
    it calls `leave`, even after it is closed. For one thread."""

    def __init__(self, consumer: ottla.Consumer[Any, Any], admin: Callable[[], ottla.Admin]) -> None:
        """Set the consumer. `admin` opens the client that asks about the group."""
        self.consumer: Final = consumer
        self._admin: Final = admin

    def poll(self, timeout: float) -> None:
        """Take part in the group, for up to `timeout` seconds. It calls back about partitions that come and go."""
        self.consumer.poll(timeout)

    def committed(self, copies: Sequence[TopicPartition]) -> Mapping[TopicPartition, ottla.OffsetAndMetadata | None]:
        return self.consumer.committed(*copies)

    def commit(self, offsets: Mapping[TopicPartition, ottla.OffsetAndMetadata]) -> None:
        self.consumer.commit(offsets)

    def rebalance(self) -> None:
        """Have the group reassign the copies by the current loads."""
        self.consumer.enforce_rebalance("the mirrors' loads are compared")

    def is_replaced(self) -> bool:
        """Tell whether another mirror of that name has replaced it in the group. Raises if the cluster is away."""
        me = self.consumer.group_metadata
        if not me.member_id:
            return False
        with self._admin() as admin:
            members = admin.groups.describe(me.group, timeout=_LEAVE_S).members
        return any(m.instance_id == me.instance_id and m.member_id != me.member_id for m in members)

    def leave(self) -> None:
        """Tell the group, after closing, that this member won't come back. Never raises."""
        me = self.consumer.group_metadata
        if not me.member_id:
            return
        try:
            with self._admin() as admin:  # it names the member id, so a successor under its name stays
                admin.groups.kick(me.group, me.member_id, reason="the mirror was stopped", timeout=_LEAVE_S)
        except ottla.OttlaError as error:
            logger.info("leaving group %s as %s failed: %s", me.group, me.instance_id, error)


class GroupEvents(NamedTuple):
    """A member calls these in `poll`: `given` with assigned copies, and `gone` with revoked ones, whose second argument
    says whether they were lost. `rates` returns its load by partition, for the assignor."""

    given: Callable[[Member, Sequence[TopicPartition]], None]
    gone: Callable[[Sequence[TopicPartition], bool], None]
    rates: Callable[[], Rates] = dict
