"""A shard with a group of the consumer protocol, as its members see it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from groups import Shard, id_of

from ottla_core.errors import OttlaError
from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.member import JOINS, LEAVES, ConsumerMember
from ottla_group_coordinator.machines.consumer.partitions import Partitions
from ottla_group_coordinator.machines.consumer.regexes import Found, decide_resolved, patterns_to_match
from ottla_group_coordinator.machines.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from ottla_group_coordinator.machines.consumer.settings import ConsumerGroupsSettings, ConsumerSettings
from ottla_group_coordinator.machines.consumer.target import decide_made, made_target, target_work
from ottla_group_coordinator.machines.dispatch import decide_consumer_request
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.states import GroupState

_IN_MEMORY = ("seen", "_altered", "refresh_asked", "refreshed", "refused", "target_asked", "awaited", "reported")
"""What the next owner of a consumer group looks at again."""

AT_ONCE = ConsumerSettings(assignment_interval_ms=0)


def settings(**more: Any) -> GroupSettings:
    """Settings of a shard in which a target is made at once."""
    return GroupSettings(consumer=ConsumerGroupsSettings(ConsumerSettings(**{"assignment_interval_ms": 0, **more})))


def partitions(**numbers: Any) -> Partitions:
    return {id_of(topic): frozenset(those) for topic, those in numbers.items() if those}


def flat(found: Any) -> set[tuple[TopicId, int]]:
    return {(topic_id, number) for topic_id, numbers in found.items() for number in numbers}


class ConsumerShard(Shard):
    """`beat` sends a heartbeat and gives its answer, or the error that it is."""

    checks_purity = False
    """It tells whether each heartbeat is checked to change nothing before its decision is taken."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._making: list[Iterator[None]] = []
        super().__init__(*arguments, **more)

    def consumers(self, name: str = "g") -> ConsumerGroup:
        group = self.machine.consumer_group(name)
        assert group is not None, f"there is no consumer group {name}"
        return group

    def member(self, member_id: str) -> ConsumerMember:
        return self.consumers().members[member_id]

    def beat(self, member_id: str, epoch: int = JOINS, *, group: str = "g", **more: Any) -> Any:
        """Send a heartbeat, with what a member says when it joins unless the epoch is another one."""
        joining: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topics": frozenset("t"), "owned": {}}
        fields: dict[str, Any] = {"client_id": "client", **(joining if epoch == JOINS else {}), **more}
        fields = {name: value for name, value in fields.items() if value is not LEFT_OUT}
        if isinstance(fields.get("topics"), str | list | tuple):
            fields["topics"] = frozenset(fields["topics"])
        asked = ConsumerHeartbeat(member_id, epoch, **fields)
        if not self.checks_purity:
            return self._try(lambda: decide_consumer_request(self.machine, group, asked, self.now))
        before = deepcopy(self._seen(group))
        try:
            decided = decide_consumer_request(self.machine, group, asked, self.now)
        except OttlaError as error:
            return error
        finally:
            assert self._seen(group) == before, "a decision has changed the group"
        return self.take(decided)

    def take_over(self) -> None:
        before = self.machine
        super().take_over()
        mine, former = ({n: written(g) for n, g in each._consumers.items()} for each in (self.machine, before))
        assert mine == former
        # While its members join and synchronize, a classic group is ahead of its last generation in the log.
        for name, group in before._groups.items():
            if group.state is GroupState.STABLE:
                assert self.group(name).record() == group.record()

    def _seen(self, name: str) -> Any:
        group = self.machine.consumer_group(name)
        return None if group is None else vars(group)

    def resolve(self) -> None:
        """Find the matches that were asked for, as the service does."""
        while self.asked:
            asked = self.asked.pop()
            group = self.machine.consumer_group(asked.group)
            if group is None:
                continue
            patterns, version = patterns_to_match(group), self.known.matches_version
            found = {
                pattern: frozenset(name for name in self.known.topics if re.fullmatch(pattern, name))
                for pattern in patterns
            }
            refreshed = version if len(patterns) == len(group.regexes) else None
            self.take(decide_resolved(group, Found(found, {}, version, refreshed), self.known, self.now))

    def assign(self, most_steps: int | None = None) -> None:
        """Make the targets that were asked for, as the service does, or do some steps of that."""
        steps = itertools.count() if most_steps is None else range(most_steps)
        for _ in steps:
            if not self._making and self.targets_asked:
                self._making.append(self._made(self.targets_asked.pop(0)))
            if not self._making:
                break
            if next(self._making[0], self) is self:
                self._making.pop()

    def _made(self, name: str) -> Iterator[None]:
        group = self.machine.consumer_group(name)
        if group is None or group.is_assigned:
            return
        work = target_work(group, self.settings.consumer.of(name))
        made = yield from made_target(work, self.known)
        place: int | None = 0
        while place is not None and (group := self.machine.consumer_group(name)) is not None:
            place = self.take(decide_made(group, made, place, self.settings, self.now))
            yield


def written(group: ConsumerGroup) -> dict[str, Any]:
    """Return the state of the group that is in the log."""
    return {name: value for name, value in vars(group).items() if name not in _IN_MEMORY}


LEFT_OUT = object()


@dataclass
class Client:
    """A member as a client is one: it owns what it was given, once it has given up the rest."""

    shard: ConsumerShard
    member_id: str
    epoch: int = JOINS
    owned: Partitions = field(default_factory=dict)
    told: Partitions = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    loses: bool = False
    """It does not get its next response."""
    reports_always: bool = True
    """Whether it reports its partitions in each heartbeat, or only if they have changed or two responses were lost."""
    reported: Partitions | None = None
    lost: int = 0
    """The number of responses that it has lost since the last one that it got."""

    def beat(self, **more: Any) -> Any:
        """Send a heartbeat and follow its response. A member that is fenced joins again at its next one."""
        if self.epoch == JOINS:
            self.owned, more = {}, {**self.more, **more}
        elif self.reports_always or self.lost > 1 or self.owned != self.reported:
            more = {"owned": self.owned, **more}
        answer = self.shard.beat(self.member_id, self.epoch, **more)
        if self.loses:
            self.loses = False
            self.lost += 1
            return answer
        self.lost = 0
        if isinstance(answer, ConsumerHeartbeatAnswer):
            self.epoch, self.reported = answer.epoch, self.owned
            if answer.assignment is not None:
                self.told = answer.assignment
        else:
            self.epoch, self.owned, self.told = JOINS, {}, {}
        return answer

    def settle(self) -> None:
        """Own what it was told to."""
        self.owned = self.told

    def leave(self) -> Any:
        answer = self.shard.beat(self.member_id, LEAVES)
        self.epoch, self.owned, self.told = JOINS, {}, {}
        return answer


def settle(*clients: Client, rounds: int = 12) -> None:
    """Let members send heartbeats until none of them has anything to do."""
    for _ in range(rounds):
        for client in clients:
            client.beat()
            client.settle()
            client.shard.resolve()
            client.shard.assign()
    group = clients[0].shard.consumers()
    assert group.state.value == "Stable", (group.state, group.members)
