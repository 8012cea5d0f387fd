"""A shard of groups without a log: what is decided holds at once, and time is a number."""

from __future__ import annotations

import itertools
from collections import UserDict
from collections.abc import Callable, Sequence
from typing import Any

from ottla_core.cluster.image import Topic
from ottla_core.coordination.batches import size_limit
from ottla_core.coordination.shard import Entry, Later, Record, Resolve, ShardDecision
from ottla_core.coordination.timers import Moment, Timers
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import Subscription, encode_subscription
from ottla_core.model import TopicId, TopicPartition
from ottla_group_coordinator.machines.consumer.regexes import ResolveRegexes
from ottla_group_coordinator.machines.consumer.target import AssignTarget
from ottla_group_coordinator.machines.dispatch import (
    decide_heartbeat_request,
    decide_join_request,
    decide_leave_request,
    decide_sync_request,
)
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.history import Happened, HistoryEvent
from ottla_group_coordinator.machines.membership import (
    CallerIdentity,
    GroupSettings,
    Join,
    Sync,
)
from ottla_group_coordinator.machines.offsets import NO_GENERATION, ToCommit, decide_commit
from ottla_group_coordinator.machines.responses import Joined, Synced
from ottla_group_coordinator.machines.shard import GroupShard, Loaded

WALL_MS = 1_700_000_000_000
WAITS = object()
"""What a request is answered whose answer comes later."""


class EveryTopic(UserDict[str, Topic]):
    """Whatever is named is there, with ten partitions and its name for an id; `gone` are not."""

    def __init__(self, *gone: str) -> None:
        super().__init__()
        self.gone = set(gone)

    def get(self, name: str, default: Any = None) -> Any:
        return default if name in self.gone else self[name]

    def __missing__(self, name: str) -> Topic:
        return Topic(name, id_of(name), 10)


def id_of(name: str, life: int = 0) -> TopicId:
    """Return the id of a topic with this name; each `life` is one incarnation of the topic."""
    return TopicId((f"{name}-{life}-".encode() + bytes(16))[:16])


class KnownTopics:
    """Topics as a group sees them. A test adds and deletes some."""

    def __init__(self, **counts: int) -> None:
        self.topics = {name: Topic(name, id_of(name), count) for name, count in counts.items()}
        self.version = self.matches_version = 1

    def get(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def name(self, topic_id: TopicId) -> str | None:
        return next((topic.name for topic in self.topics.values() if topic.id == topic_id), None)

    def topic_hash(self, topic: Topic) -> int:
        return hash((topic.id, topic.partition_count)) % (1 << 62) + 1

    def put(self, name: str, count: int, *, life: int = 0) -> None:
        self.matches_version += name not in self.topics
        self.version += 1
        self.topics[name] = Topic(name, id_of(name, life), count)

    def delete(self, name: str) -> None:
        del self.topics[name]
        self.version += 1
        self.matches_version += 1


class Shard:
    """Calls give the answer, the error that it is, or `WAITS`; `answers` has those that came later, by key."""

    def __init__(
        self,
        settings: GroupSettings | None = None,
        log: list[Record] | None = None,
        known: KnownTopics | None = None,
    ) -> None:
        self.known = known or KnownTopics(t=4, u=4)
        self.settings = settings or GroupSettings()
        self.log: list[Record] = []
        self.at = 1_000.0
        self.answers: dict[Any, Any] = {}
        self.happened: list[Happened] = []
        self.largest_bytes = 0
        """The size of the largest decision's records."""
        self.machine = GroupShard(self.settings, self.known)
        self.asked: list[ResolveRegexes] = []
        self.targets_asked: list[str] = []
        """The groups whose targets were asked for."""
        self.topics = EveryTopic()
        self.timers: dict[Any, float | None] = {}
        """Those that are set."""
        self._timers = Timers()
        self._ids = itertools.count(1)
        self.waiting: set[Any] = set()
        """The keys of requests that have no answer yet."""
        self.takes_over: Callable[[], bool] = lambda: False
        """Says after each decision whether another coordinator takes over now."""
        self.takeovers = 0
        for record in log or []:
            self.apply(record)
        self.take(self.machine.on_loaded(self.now))

    @property
    def now(self) -> Moment:
        return Moment(self.at, WALL_MS + round(self.at * 1000))

    def reloaded(self) -> Shard:
        """What another owner makes of the log."""
        there = type(self)(self.settings, self.log, self.known)
        there.topics = self.topics
        there._ids = self._ids
        return there

    def take_over(self) -> None:
        """Let another owner go on with what the log says. Requests that waited have failed."""
        self.takeovers += 1
        log, self.log = self.log, []
        self.machine = GroupShard(self.settings, self.known)
        self.timers, self._timers = {}, Timers()
        self.asked.clear()
        for record in log:
            self.apply(record)
        self._take(self.machine.on_loaded(self.now))
        moved = OttlaError(ErrorCode.NOT_COORDINATOR, "another coordinator has taken over")
        self.answers |= dict.fromkeys(self.waiting, moved)
        self.waiting.clear()

    def apply(self, record: Record) -> None:
        """Apply the record. The log keeps only its bytes."""
        self.machine.apply(record)
        if isinstance(record, Entry) and record.value is not None:
            record = record._replace(value=bytes(record.value))
        self.log.append(record)

    def take(self, decided: ShardDecision[Any]) -> Any:
        response = self._take(decided)
        if self.takes_over():
            self.take_over()
        return response

    def _take(self, decided: ShardDecision[Any]) -> Any:
        self.largest_bytes = max(self.largest_bytes, size_limit(decided.records))
        for entry in decided.records:
            self.apply(entry)
        for change in decided.memory:
            self.machine.remember(change)
        for key, at in decided.timers.items():
            self._timers.set(key, at)
            self.timers[key] = at
        self.timers = {key: at for key, at in self.timers.items() if at is not None}
        for effect in decided.effects:
            if isinstance(effect, Happened):
                self.happened.append(effect)
                continue
            if isinstance(effect, Loaded):
                continue
            if isinstance(effect, ResolveRegexes):
                self.asked.append(effect)
                continue
            if isinstance(effect, AssignTarget):
                self.targets_asked.append(effect.group)
                continue
            assert isinstance(effect, Resolve)
            assert effect.key not in self.answers
            self.answers[effect.key] = effect.response
            self.waiting.discard(effect.key)
        if not isinstance(decided.response, Later):
            return decided.response
        if decided.response.key not in self.answers:
            self.waiting.add(decided.response.key)
        return WAITS

    def sleep(self, seconds: float) -> None:
        until = self.at + seconds
        while self._timers.next_at <= until:
            self.at = max(self.at, self._timers.next_at)
            key = self._timers.pop_due(self.at)
            del self.timers[key]
            self.take(self.machine.on_timer(key, self.now))
        self.at = until

    def group(self, name: str = "g") -> Group:
        return self.machine.group_or_new(name)

    def events(self, name: str = "g") -> Sequence[HistoryEvent]:
        return self.machine.history.of(name)

    # ---- what clients ask -------------------------------------------------------------------------------------------

    def join(self, member_id: str = "", *, key: str = "", group: str = "g", **more: Any) -> Any:
        instance_id = more.pop("instance_id", None)
        fresh_id = more.pop("fresh_id", f"m{next(self._ids)}")
        fields: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": {"range": subscription("t")},
            "client_id": "client",
            **more,
        }
        asked = Join(CallerIdentity(member_id, instance_id), fresh_id, key or fresh_id, **fields)
        return self._try(lambda: decide_join_request(self.machine, group, asked, self.now))

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **more: Any) -> Any:
        instance_id = more.pop("instance_id", None)
        key = more.pop("key", f"sync-{member_id}-{generation}")
        asked = Sync(CallerIdentity(member_id, instance_id), generation, key, assignments=assignments, **more)
        return self._try(lambda: decide_sync_request(self.machine, "g", asked, self.now))

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> Any:
        return self._try(
            lambda: decide_heartbeat_request(
                self.machine, "g", CallerIdentity(member_id, instance_id), generation, self.now
            )
        )

    def leave(self, *member_ids: str) -> Any:
        leavers = [(CallerIdentity(member_id), "") for member_id in member_ids]
        return self._try(lambda: decide_leave_request(self.machine, "g", leavers, self.now))

    def commit(self, offset: int, member_id: str = "", generation: int = NO_GENERATION, **more: Any) -> Any:
        partition = TopicPartition(more.pop("topic", "t"), more.pop("partition", 0))
        wanted = [ToCommit(partition, offset, -1, more.pop("metadata", ""), more.pop("topic_id", None))]
        identity = CallerIdentity(member_id, more.pop("instance_id", None))
        group = self.group(more.pop("group", "g"))
        return self._try(
            lambda: decide_commit(group, identity, generation, wanted, self.topics, self.settings, self.now, **more)
        )

    def _try(self, decide: Any) -> Any:
        try:
            return self.take(decide())
        except OttlaError as error:
            return error

    # ---- whole rounds -----------------------------------------------------------------------------------------------

    def stable(self, count: int, **more: Any) -> list[str]:
        """A group of so many members that all have their assignment; gives their ids, the leader's first."""
        keys = [f"first-{n}" for n in range(count)]
        for n, key in enumerate(keys):
            instance = {"instance_id": f"i{n}"} if more.get("static") else {}
            assert self.join(key=key, **instance, **{k: v for k, v in more.items() if k != "static"}) is WAITS
        self.sleep(self.settings.initial_rebalance_delay_ms / 1000)
        joined = [self.answers.pop(key) for key in keys]
        assert all(isinstance(each, Joined) for each in joined), joined
        self.synchronize([each.member_id for each in joined])
        return sorted((each.member_id for each in joined), key=lambda m: m != joined[0].leader)

    def synchronize(self, member_ids: list[str]) -> None:
        """All members have their assignment, which is their own name."""
        group = self.group()
        leader = group.leader
        assert leader is not None
        for member_id in sorted(member_ids, key=lambda m: m == leader):
            assignments = {m: m.encode() for m in member_ids} if member_id == leader else None
            assert self.sync(member_id, group.generation, assignments) is WAITS
        for member_id in member_ids:
            told = self.answers.pop(f"sync-{member_id}-{group.generation}")
            assert isinstance(told, Synced), told
            assert told.assignment == member_id.encode()


def subscription(*topics: str) -> bytes:
    return encode_subscription(Subscription(topics))


def code(answer: Any) -> int:
    assert isinstance(answer, OttlaError), answer
    return answer.code
