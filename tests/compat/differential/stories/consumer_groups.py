"""Groups of the consumer protocol by hand (KIP-848): refusals, assignments, static members, commits by epoch, and
members of the other protocol."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from kafka.protocol.consumer import JoinGroupRequest
from tests.compat.differential.stories import groups
from tests.compat.differential.stories.produces import topic_id
from tests.compat.differential.story import Facts, Side, Story, code_name, patient
from tests.fuzz.kafka_wire import KafkaWire

from ottla_core.kafka.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ottla_core.kafka_formats.consumer_protocol import Subscription, encode_subscription

_VERSIONS: Final = (0, 1)
_COMMITS: Final = range(8, 11)
_SETTLED_S: Final = 20.0
_PAUSE_S: Final = 0.1
_PARTITIONS: Final = 4


class Member:
    """A member that does what it is told: it gives up and takes partitions at once, and says so in its next beat."""

    def __init__(
        self, wire: KafkaWire, group: str, topic: str, member_id: str = "", instance: str | None = None
    ) -> None:
        self.wire: Final = wire
        self.group: Final = group
        self.topic: Final = topic
        self.id: Final = member_id or str(uuid.uuid4())
        self.instance: Final = instance
        self.epoch = 0
        self.owned: dict[bytes, tuple[int, ...]] = {}

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        given: dict[str, Any] = {
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": [self.topic],
            "topic_partitions": [],
            "member_epoch": 0,
        }
        return self.beat(**given | fields)

    def beat(self, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        given = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        } | fields
        response = beaten(self.wire, version, **given)
        if not response.error_code:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.owned = {t.topic_id: tuple(t.partitions) for t in response.assignment.topic_partitions}
        return response

    def confirm(self) -> ConsumerGroupHeartbeatResponse:
        kind = ConsumerGroupHeartbeatRequest.TopicPartitions
        return self.beat(topic_partitions=[kind(topic_id=t, partitions=numbers) for t, numbers in self.owned.items()])

    @property
    def share(self) -> int:
        return sum(map(len, self.owned.values()))


def beaten(wire: KafkaWire, version: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(**fields)
    return patient(
        lambda: wire.ask_by_ours(request, version, ConsumerGroupHeartbeatResponse), lambda answer: answer.error_code
    )


def settle(members: Sequence[Member]) -> str:
    """Let all members beat until they share the partitions and have one epoch. Return their shares."""
    give_up_at = time.monotonic() + _SETTLED_S
    while time.monotonic() < give_up_at:
        for member in members:
            member.confirm()
        if all(m.share == _PARTITIONS // len(members) for m in members) and len({m.epoch for m in members}) == 1:
            break
        time.sleep(_PAUSE_S)
    return " ".join(str(share) for share in sorted(member.share for member in members))


def told(response: ConsumerGroupHeartbeatResponse) -> str:
    return code_name(response.error_code)


# ---- what is refused -----------------------------------------------------------------------------------------------


def _refusals(side: Side) -> Facts:
    topic = side.topic(_PARTITIONS)
    facts: Facts = {}
    owned = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=bytes(16), partitions=[0])
    joins: dict[str, dict[str, Any]] = {
        "no group": {"group_id": ""},
        "a blank group": {"group_id": " "},
        "no id": {"member_id": ""},
        "an empty instance": {"instance_id": ""},
        "an empty rack": {"rack_id": ""},
        "no rebalance timeout": {"rebalance_timeout_ms": -1},
        "no list of partitions": {"topic_partitions": None},
        "partitions": {"topic_partitions": [owned]},
        "no subscription": {"subscribed_topic_names": None},
        "an unknown assignor": {"server_assignor": "sticky"},
        "an empty assignor": {"server_assignor": ""},
        "a topic that is not there": {"subscribed_topic_names": ["nowhere"]},
        "an empty subscription": {"subscribed_topic_names": []},
    }
    epochs: dict[str, dict[str, Any]] = {
        "epoch -3": {"member_epoch": -3},
        "epoch -2 of a dynamic member": {"member_epoch": -2},
        "epoch -2 of nobody": {"member_epoch": -2, "instance_id": "nobody"},
        "epoch -1 of nobody": {"member_epoch": -1},
        "epoch 1 of nobody": {"member_epoch": 1},
    }
    with side.wire() as wire:
        for version in _VERSIONS:
            for name, fields in joins.items():
                facts[f"join v{version}: {name}"] = told(
                    Member(wire, side.fresh("g"), topic).join(version=version, **fields)
                )
            for name, fields in epochs.items():
                facts[f"no group v{version}: {name}"] = told(
                    Member(wire, side.fresh("g"), topic).beat(version=version, **fields)
                )
        member = Member(wire, side.fresh("g"), topic)
        member.join()
        settle([member])
        for name, fields in epochs.items():
            facts[f"another member: {name}"] = told(Member(wire, member.group, topic).beat(**fields))
        for name, epoch in (("too high", member.epoch + 7), ("far too low", 0)):
            fields = {"member_epoch": epoch} | ({} if epoch else {"rebalance_timeout_ms": -1})
            facts[f"a member: an epoch {name}"] = told(Member(wire, member.group, topic, member.id).beat(**fields))
        for name, regex in (("invalid", "(a"), ("empty", ""), ("of everything", ".*")):
            fresh = Member(wire, side.fresh("g"), topic)
            fields = {"subscribed_topic_names": None, "subscribed_topic_regex": regex}
            facts[f"a regular expression: {name}"] = told(fresh.join(**fields))
            facts[f"a regular expression: {name}: the group"] = described(wire, fresh.group)[0]
    return facts


# ---- assignments ---------------------------------------------------------------------------------------------------


def _assignments(side: Side) -> Facts:
    topic, group = side.topic(_PARTITIONS), side.fresh("g")
    facts: Facts = {}
    with side.wire() as wire:
        first, second = Member(wire, group, topic), Member(wire, group, topic)
        joined = first.join()
        facts["the first join"] = f"{told(joined)} {joined.member_id == first.id}"
        facts["one member"] = settle([first])
        facts["a beat that changes nothing"] = str(first.beat().assignment is None)
        facts["the second join"] = told(second.join())
        facts["two members"] = settle([first, second])
        facts["described"] = " ".join(described(wire, group))
        facts["the epoch before"] = told(Member(wire, group, topic, first.id).beat(member_epoch=first.epoch - 1))
        facts["another assignor"] = told(first.beat(server_assignor="range"))
        facts["two members again"] = settle([first, second])
        left = second.beat(member_epoch=-1)
        facts["a leave"] = f"{told(left)} {left.member_epoch}"
        facts["who has left"] = told(second.beat(member_epoch=1))
        facts["the other alone"] = settle([first])
        facts["no topics any longer"] = told(first.beat(subscribed_topic_names=[]))
        facts["of a classic request"] = groups.described(side, 5, group)
        facts["deleted with a member"] = groups.deleted(side, 2, group)
        first.beat(member_epoch=-1)
        facts["empty"] = " ".join(described(wire, group))
        facts["deleted without"] = groups.deleted(side, 2, group)
        facts["of nothing"] = " ".join(described(wire, group))
        unnamed = beaten(
            wire,
            0,
            group_id=side.fresh("g"),
            member_epoch=0,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        facts["an id of the coordinator"] = f"{told(unnamed)} {bool(unnamed.member_id)}"
    return facts


def described(wire: KafkaWire, group: str) -> tuple[str, ...]:
    (found,) = wire.ask_by_ours(
        ConsumerGroupDescribeRequest(group_ids=[group]), 1, ConsumerGroupDescribeResponse
    ).groups
    kinds = sorted(str(member.member_type) for member in found.members)
    same = str(found.group_epoch == found.assignment_epoch)
    return code_name(found.error_code), found.group_state, found.assignor_name, same, ",".join(kinds)


def _static(side: Side) -> Facts:
    topic, group = side.topic(_PARTITIONS), side.fresh("g")
    facts: Facts = {}
    with side.wire() as wire:
        member = Member(wire, group, topic, instance="i")
        member.join()
        settle([member])
        twin = Member(wire, group, topic, instance="i")
        facts["a second instance joins"] = told(twin.join())
        facts["a second instance beats"] = told(twin.beat(member_epoch=member.epoch))
        facts["an instance that nobody has"] = told(Member(wire, group, topic, member.id, "j").beat(member_epoch=1))
        left = member.beat(member_epoch=-2)
        facts["leaves for now"] = f"{told(left)} {left.member_epoch}"
        facts["the group meanwhile"] = " ".join(described(wire, group))
        facts["the former member"] = told(Member(wire, group, topic, member.id, "i").beat(member_epoch=1))
        back = Member(wire, group, topic, instance="i")
        facts["comes back"] = told(back.join())
        facts["has its share"] = settle([back])
        facts["leaves"] = told(back.beat(member_epoch=-1))
        facts["the group at last"] = " ".join(described(wire, group))
    return facts


# ---- commits -------------------------------------------------------------------------------------------------------


def _commits(side: Side) -> Facts:
    topic, group = side.topic(_PARTITIONS), side.fresh("g")
    facts: Facts = {}
    with side.wire() as wire:
        found_id = topic_id(wire, topic).bytes
        member = Member(wire, group, topic)
        member.join()
        settle([member])
        who: dict[str, tuple[str, int]] = {
            "a member": (member.id, member.epoch),
            "an epoch that is too high": (member.id, member.epoch + 7),
            "nobody": ("", -1),
            "an unknown member": ("another", member.epoch),
        }
        for version in _COMMITS:
            for name, (member_id, epoch) in who.items():
                facts[f"commit v{version}: {name}"] = _committed(
                    wire, version, group, topic, found_id, member_id, epoch
                )
        for name, (member_id, epoch) in who.items():
            facts[f"fetch: {name}"] = _fetched(wire, group, topic, found_id, member_id, epoch)
        facts["fetch: whoever asks"] = _fetched(wire, group, topic, found_id, None, -1)
    return facts


def _committed(
    wire: KafkaWire, version: int, group: str, topic: str, found_id: bytes, member_id: str, epoch: int
) -> str:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    named = {"topic_id": found_id} if version >= 10 else {"name": topic}
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(partitions=[part], **named)],
    )
    answer = wire.ask_by_ours(request, version, OffsetCommitResponse)
    return code_name(answer.topics[0].partitions[0].error_code)


def _fetched(wire: KafkaWire, group: str, topic: str, found_id: bytes, member_id: str | None, epoch: int) -> str:
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(topic_id=found_id, partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[kind(group_id=group, member_id=member_id, member_epoch=epoch, topics=topics)], require_stable=False
    )
    answer = wire.ask_by_ours(request, 10, OffsetFetchResponse)
    return code_name(answer.groups[0].error_code)


# ---- the other protocol --------------------------------------------------------------------------------------------


def _other_protocol(side: Side) -> Facts:
    topic = side.topic(_PARTITIONS)
    facts: Facts = {}
    with side.wire() as wire:
        modern = Member(wire, side.fresh("g"), topic)
        modern.join()
        settle([modern])
        joins: dict[str, Callable[[], Any]] = {
            "connect": lambda: groups.join(wire, 9, modern.group, protocol_type="connect"),
            "an assignment of its own": lambda: groups.join(wire, 9, modern.group, member_id="m", protocol="range"),
        }
        for name, join in joins.items():
            facts[f"a classic join into a consumer group: {name}"] = code_name(join().error_code)
        facts["a classic sync into a consumer group"] = groups.sync(wire, 5, modern.group, modern.id, modern.epoch)
        facts["a classic heartbeat into a consumer group"] = groups.heartbeat(
            wire, 4, modern.group, modern.id, modern.epoch
        )
        facts["a classic leave into a consumer group"] = groups.leave(wire, 5, modern.group, modern.id)

        empty = side.fresh("g")
        former = Member(wire, empty, topic)
        former.join()
        former.beat(member_epoch=-1)
        joined = groups.join(wire, 9, empty)
        facts["a classic join into an empty consumer group"] = code_name(joined.error_code)

        foreign = side.fresh("g")
        groups.member(wire, foreign)
        facts["a consumer joins a group whose subscriptions nobody can read"] = told(
            Member(wire, foreign, topic).join()
        )
        facts["that group stays"] = groups.described(side, 5, foreign)

        classic = side.fresh("g")
        facts["an upgrade"] = _upgraded(side, wire, classic, topic)
        facts["an upgraded group"] = " ".join(described(wire, classic))
        facts["an upgraded group of a classic request"] = groups.described(side, 5, classic)
    return facts


def _upgraded(side: Side, wire: KafkaWire, group: str, topic: str) -> str:
    """A consumer joins a classic group of one member. Return what both are told."""
    metadata = encode_subscription(Subscription((topic,)))
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)
    joined = groups.join(wire, 9, group, protocols=[protocol])
    joined = groups.join(wire, 9, group, protocols=[protocol], member_id=joined.member_id)
    synced = groups.sync(wire, 5, group, joined.member_id, joined.generation_id)
    consumer = told(Member(wire, group, topic).join())
    beats = groups.heartbeat(wire, 4, group, joined.member_id, joined.generation_id)
    return f"{synced}, {consumer}, {beats}"


STORIES: Final = (
    Story("consumer group refusals", _refusals),
    Story("consumer group assignments", _assignments),
    Story("consumer group static members", _static),
    Story("consumer group commits", _commits),
    Story("consumer group beside classic members", _other_protocol),
)
