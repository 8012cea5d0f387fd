"""The commands of stories of groups with members of the consumer protocol, beside those of `groups`.

coordinators 1 [session=45s interval=0s policy=upgrade]
                                     of consumer groups: the session timeout, the assignment interval, and the migration
                                     policy
beat a                               client a sends a heartbeat and follows the response. It joins if it has no epoch.
                                     What it no longer is to own it gives up before its next heartbeat. If it is fenced,
                                     it gives up everything, and joins with its next heartbeat
  [topics=t,u] [regex=t.*] [instance=i] [rebalance=60s] [assignor=range]
                                     what a says of itself when it joins
  [keeps]                            it has not yet given up what it is to give up
  [lost]                             the response does not reach it
  [epoch=1]                          it names this epoch instead of its own
leave a [for-now]                    it leaves with epoch -1; for-now: with epoch -2, as a static member that restarts
forget a                             its process is gone, and a new one has another member id
commit a 5 [generation=1]            in the epoch that a knows, or in this one
topics u=2                           topic u has 2 partitions from now on. At first there is topic t with 4
match                                the coordinator has matched the regular expressions that wait for it
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.scenarios.groups import GROUP, TOPIC, Client, GroupWorld, Options, Sent, Words, milliseconds

from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.timers import Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.member import JOINS, LEAVES, LEAVES_FOR_NOW, ConsumerMember
from ottla_group_coordinator.machines.consumer.partitions import NO_PARTITIONS, Partitions, are_equal, without_epochs
from ottla_group_coordinator.machines.consumer.records import (
    CurrentKey,
    GroupEpochKey,
    MemberKey,
    RegexKey,
    TargetEpochKey,
    TargetKey,
    decode_consumer_value,
)
from ottla_group_coordinator.machines.consumer.regexes import Found, ResolveRegexes, decide_resolved, patterns_to_match
from ottla_group_coordinator.machines.consumer.requests import UNCHANGED, ConsumerHeartbeat, ConsumerHeartbeatAnswer
from ottla_group_coordinator.machines.consumer.settings import ConsumerGroupsSettings, ConsumerSettings, MigrationPolicy
from ottla_group_coordinator.machines.dispatch import decide_consumer_request
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.records import GroupKey, Key, OffsetKey
from ottla_group_coordinator.machines.shard import GroupShard

_FENCED: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


@dataclass
class Consumer(Client):
    """A member of the consumer protocol. Its generation is its epoch."""

    generation: int = JOINS
    owned: Partitions = field(default_factory=dict)
    told: Partitions = field(default_factory=dict)
    loses: bool = False
    """The next response does not reach it."""

    def start_over(self) -> None:
        self.generation, self.owned, self.told = JOINS, NO_PARTITIONS, NO_PARTITIONS


class ConsumerWorld(GroupWorld):
    def __init__(self) -> None:
        super().__init__()
        self._consumers: Final[dict[str, Consumer]] = {}
        self._asked: Final[list[ResolveRegexes]] = []

    # ---- clients ----------------------------------------------------------------------------------------------------

    def _client(self, name: str) -> Client:
        return self._consumers.get(name) or super()._client(name)

    def _do_beat(self, words: Words, options: Options) -> None:
        client = self._consumers.setdefault(words[0], Consumer(words[0]))
        self._numbers += 1
        client.instance_id = options.get("instance", client.instance_id)
        client.member_id = client.member_id or f"{client.name}-{self._numbers}"
        client.loses = "lost" in words
        if "keeps" not in words:
            client.owned = _both(client.owned, client.told)
        epoch = int(options.get("epoch", client.generation))
        joins = epoch == JOINS
        beat = ConsumerHeartbeat(
            client.member_id,
            epoch,
            client.instance_id,
            rebalance_timeout_ms=milliseconds(options.get("rebalance", "60s")) if joins else UNCHANGED,
            topics=_topics(options) if joins or "topics" in options else None,
            regex=options.get("regex"),
            assignor=options.get("assignor"),
            owned=NO_PARTITIONS if joins else client.owned,
            client_id=client.name,
        )
        self._send_beat(client, "join" if joins else "beat", options, beat)

    def _do_leave(self, words: Words, options: Options) -> None:
        client = self._consumers.get(words[0])
        if client is None:
            super()._do_leave(words, options)
            return
        epoch = LEAVES_FOR_NOW if "for-now" in words else LEAVES
        self._send_beat(client, "leave", options, ConsumerHeartbeat(client.member_id, epoch, client.instance_id))

    def _send_beat(self, client: Consumer, command: str, options: Options, beat: ConsumerHeartbeat) -> None:
        self._request(client, command, options, lambda s, now: decide_consumer_request(s, GROUP, beat, now))

    def _do_forget(self, words: Words, options: Options) -> None:
        if self._consumers.pop(words[0], None) is None:
            super()._do_forget(words, options)

    def _respond(self, sent: Sent | None, response: Any) -> None:
        client = None if sent is None else sent.client
        if sent is None or not isinstance(client, Consumer) or sent.command not in ("join", "beat", "leave"):
            super()._respond(sent, response)
            return
        if client.loses:
            client.loses = False
            self._lines.append(f"{client.name}: {sent.command}: the response is lost")
        elif isinstance(response, ConsumerHeartbeatAnswer):
            self._follow(client, sent.command, response)
        else:
            super()._respond(sent, response)
            if isinstance(response, OttlaError) and response.code in _FENCED:
                client.start_over()

    def _follow(self, client: Consumer, command: str, answer: ConsumerHeartbeatAnswer) -> None:
        if answer.epoch < JOINS:
            self._consumers.pop(client.name)
            self._lines.append(f"{client.name}: {command}: done")
            return
        text = f"{client.name}: {command}: {f'{client.member_id} in ' if command == 'join' else ''}epoch {answer.epoch}"
        client.generation = answer.epoch
        if answer.assignment is not None:
            client.told = answer.assignment
            given_up = _without(client.owned, client.told)
            client.owned = _union(client.owned, client.told)
            text += f", owns {self._named(client.told)}"
            text += f", is to give up {self._named(given_up)}" if given_up else ""
        self._lines.append(text)

    # ---- topics -----------------------------------------------------------------------------------------------------

    def _do_topics(self, words: Words, options: Options) -> None:
        for topic, count in options.items():
            self._known.put(topic, int(count))

    def _perform(self, effect: Any) -> None:
        if isinstance(effect, ResolveRegexes):
            self._asked.append(effect)
            self._lines.append("  the group's expressions are to be matched")
        super()._perform(effect)

    def _do_match(self, words: Words, options: Options) -> None:
        """As the service does it, which takes its time over it."""
        names = list(self._known.topics)
        self._asked.clear()

        def decide(shard: GroupShard, now: Moment) -> ShardDecision[None]:
            group = shard.consumer_group(GROUP)
            assert group is not None
            patterns, version = patterns_to_match(group), self._known.matches_version
            found = {pattern: frozenset(n for n in names if re.fullmatch(pattern, n)) for pattern in patterns}
            refreshed = version if len(patterns) == len(group.regexes) else None
            return decide_resolved(group, Found(found, {}, version, refreshed), shard.topics, now)

        self._request(Client("coordinator"), "match", options, decide)

    # ---- coordinators -----------------------------------------------------------------------------------------------

    def _new_settings(self, options: Options) -> GroupSettings:
        consumer = ConsumerSettings(
            session_timeout_ms=milliseconds(options.get("session", "45s")),
            assignment_interval_ms=milliseconds(options.get("interval", "0s")),
            migration_policy=MigrationPolicy(options.get("policy", "bidirectional")),
        )
        return replace(super()._new_settings(options), consumer=ConsumerGroupsSettings(consumer))

    # ---- what there is ----------------------------------------------------------------------------------------------

    def _do_show(self, words: Words, options: Options) -> None:
        process = self._processes[int(options.get("to", self._owner))]
        group = None if process.owner is None else process.owner.shard.consumer_group(GROUP)
        if group is None:
            super()._do_show(words, options)
            return
        self._lines.append(f"g is {group.state.value}, epoch {group.epoch}, target of epoch {group.target_epoch}")
        self._lines += [f"  {self._shown(group, member)}" for member in group.members.values()]

    def _shown(self, group: ConsumerGroup, member: ConsumerMember) -> str:
        current, target = member.current, group.target(member.member_id)
        instance = f" ({member.instance_id})" if member.instance_id else ""
        text = f"{member.member_id}{instance}{' (classic)' if member.is_classic else ''}: {current.state.value}"
        text += f" in epoch {member.epoch}, owns {self._named(without_epochs(current.assigned))}"
        text += f", is to give up {self._named(without_epochs(current.revoking))}" if current.revoking else ""
        return text if are_equal(current.assigned, target) else f"{text}, target {self._named(target)}"

    def _record(self, key: Key | None, value: bytes | None) -> str:
        if key is None or isinstance(key, OffsetKey | GroupKey):
            return super()._record(key, value)
        member_id = getattr(key, "member_id", "")
        if value is None:
            return f"{type(key).__name__.removesuffix('Key')} of {member_id or key.group} is deleted"
        found = decode_consumer_value(key, value)
        match key:
            case GroupEpochKey():
                return f"{GROUP} in epoch {found.epoch}"
            case TargetEpochKey():
                return f"the target of epoch {found.epoch} is made"
            case MemberKey():
                return f"{member_id} reads {' '.join([*sorted(found.topics), *filter(None, [found.regex])])}"
            case TargetKey():
                return f"{member_id} is to own {self._named(found)}"
            case CurrentKey():
                return f"{member_id} in epoch {found.epoch} owns {self._named(without_epochs(found.assigned))}"
            case RegexKey():
                return f"{key.pattern} matches {' '.join(sorted(found.topics)) or 'nothing'}"
        raise AssertionError(f"no story knows {key}")

    def _named(self, partitions: Partitions) -> str:
        named = {self._known.name(topic_id) or "a deleted topic": numbers for topic_id, numbers in partitions.items()}
        texts = [f"{name}-{','.join(map(str, sorted(named[name])))}" for name in sorted(named) if named[name]]
        return " ".join(texts) or "nothing"


def _topics(options: Options) -> frozenset[str]:
    default = "" if "regex" in options else TOPIC
    return frozenset(name for name in options.get("topics", default).split(",") if name)


def _some(partitions: Mapping[TopicId, frozenset[int]]) -> Partitions:
    return {topic_id: numbers for topic_id, numbers in partitions.items() if numbers}


def _both(some: Partitions, others: Partitions) -> Partitions:
    return _some({t: numbers & others.get(t, frozenset()) for t, numbers in some.items()})


def _without(some: Partitions, others: Partitions) -> Partitions:
    return _some({t: numbers - others.get(t, frozenset()) for t, numbers in some.items()})


def _union(some: Partitions, others: Partitions) -> Partitions:
    return {t: some.get(t, frozenset()) | others.get(t, frozenset()) for t in dict.fromkeys([*some, *others])}
