"""Groups by hand, in every version of their APIs: members that are unknown, late, or of another kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.compat.differential.stories.produces import topic_id
from tests.compat.differential.story import Facts, Side, Story, by_version, code_name, patient
from tests.fuzz.kafka_wire import KafkaWire

JOIN, HEARTBEAT, LEAVE, SYNC, COMMIT, FETCH, DESCRIBE, DELETE = 11, 12, 13, 14, 8, 9, 15, 42
_NEWEST_JOIN: Final = 9
_NEWEST_COMMIT: Final = 9


def answered(ask: Callable[[], Any]) -> Any:
    return patient(ask, lambda answer: int(answer.error_code))


def join(wire: KafkaWire, version: int, group: str, **fields: Any) -> Any:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name=fields.pop("protocol", "range"), metadata=b"")
    given = {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [protocol],
        "reason": None,
    } | fields
    if version < 5:
        given["group_instance_id"] = None
    return answered(lambda: wire.ask(JoinGroupRequest(**given), version, JoinGroupResponse))


def member(wire: KafkaWire, group: str, instance: str | None = None) -> tuple[str, int]:
    """Join as the only member, and take the assignment: its id and the generation."""
    joined = join(wire, _NEWEST_JOIN, group, group_instance_id=instance)
    if code_name(joined.error_code) == "MEMBER_ID_REQUIRED":
        joined = join(wire, _NEWEST_JOIN, group, member_id=joined.member_id)
    assert joined.error_code == 0, code_name(joined.error_code)
    sync(wire, 5, group, joined.member_id, joined.generation_id, group_instance_id=instance)
    return joined.member_id, joined.generation_id


def sync(wire: KafkaWire, version: int, group: str, member_id: str, generation: int, **fields: Any) -> str:
    mine = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=b"")
    given = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [mine],
    } | fields
    return code_name(answered(lambda: wire.ask(SyncGroupRequest(**given), version, SyncGroupResponse)).error_code)


def heartbeat(
    wire: KafkaWire, version: int, group: str, member_id: str, generation: int, instance: str | None = None
) -> str:
    request = HeartbeatRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance if version >= 3 else None,
    )
    return code_name(answered(lambda: wire.ask(request, version, HeartbeatResponse)).error_code)


def leave(wire: KafkaWire, version: int, group: str, member_id: str, instance: str | None = None) -> str:
    who = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance, reason=None)
    request = LeaveGroupRequest(group_id=group, member_id=member_id, members=[who])
    response = answered(lambda: wire.ask(request, version, LeaveGroupResponse))
    members = [code_name(each.error_code) for each in (response.members or ())] if version >= 3 else []
    return " ".join([code_name(response.error_code), *members])


def commit(wire: KafkaWire, version: int, group: str, topic: Any, **fields: Any) -> str:
    name, topic_id = topic
    part = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
        partition_index=fields.pop("partition", 0),
        committed_offset=1,
        committed_leader_epoch=-1,
        committed_metadata=fields.pop("metadata", ""),
    )
    named = OffsetCommitRequest.OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[part])
    given = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": [named],
    } | fields
    if version < 7:
        given["group_instance_id"] = None
    return code_name(
        patient(
            lambda: wire.ask(OffsetCommitRequest(**given), version, OffsetCommitResponse).topics[0].partitions[0],
            lambda found: int(found.error_code),
        ).error_code
    )


def _memberships(side: Side) -> Facts:
    def on(key: int, live: Callable[[KafkaWire, int], str]) -> str:
        def of(version: int) -> str:
            with side.wire() as wire:
                return live(wire, version)

        return by_version(key, of)

    with side.wire() as wire:
        group, fixed = side.fresh("g"), side.fresh("g")
        me, generation = member(wire, group)
        mine, of_fixed = member(wire, fixed, "i-1")
        return {
            "join: without an id": on(JOIN, lambda w, v: code_name(join(w, v, side.fresh("g")).error_code)),
            "join: an unknown id": on(JOIN, lambda w, v: code_name(join(w, v, group, member_id="m").error_code)),
            "join: no group": on(JOIN, lambda w, v: code_name(join(w, v, "").error_code)),
            "join: a session of 1 ms": on(
                JOIN, lambda w, v: code_name(join(w, v, side.fresh("g"), session_timeout_ms=1).error_code)
            ),
            "join: another protocol": on(JOIN, lambda w, v: code_name(join(w, v, group, protocol="other").error_code)),
            "join: another type": on(
                JOIN, lambda w, v: code_name(join(w, v, group, protocol_type="connect").error_code)
            ),
            "join: no protocols": on(
                JOIN, lambda w, v: code_name(join(w, v, side.fresh("g"), protocols=[]).error_code)
            ),
            "sync: an unknown group": on(SYNC, lambda w, v: sync(w, v, "never", "m", 1)),
            "sync: an unknown member": on(SYNC, lambda w, v: sync(w, v, group, "m", generation)),
            "sync: another generation": on(SYNC, lambda w, v: sync(w, v, group, me, generation + 7)),
            "sync: another protocol": on(SYNC, lambda w, v: sync(w, v, group, me, generation, protocol_name="other")),
            "heartbeat: well": on(HEARTBEAT, lambda w, v: heartbeat(w, v, group, me, generation)),
            "heartbeat: an unknown group": on(HEARTBEAT, lambda w, v: heartbeat(w, v, "never", "m", 1)),
            "heartbeat: an unknown member": on(HEARTBEAT, lambda w, v: heartbeat(w, v, group, "m", generation)),
            "heartbeat: another generation": on(HEARTBEAT, lambda w, v: heartbeat(w, v, group, me, generation + 7)),
            "heartbeat: a fenced instance": on(HEARTBEAT, lambda w, v: heartbeat(w, v, fixed, "m", of_fixed, "i-1")),
            "heartbeat: an unknown instance": on(HEARTBEAT, lambda w, v: heartbeat(w, v, fixed, mine, of_fixed, "i-9")),
            "heartbeat: no group": on(HEARTBEAT, lambda w, v: heartbeat(w, v, "", "m", 1)),
            "leave: an unknown group": on(LEAVE, lambda w, v: leave(w, v, "never", "m")),
            "leave: an unknown member": on(LEAVE, lambda w, v: leave(w, v, group, "m")),
            "leave: a fenced instance": on(LEAVE, lambda w, v: leave(w, v, fixed, "m", "i-1" if v >= 3 else None)),
            "leave: no group": on(LEAVE, lambda w, v: leave(w, v, "", "m")),
        }


def _offsets(side: Side) -> Facts:
    topic = side.topic()
    with side.wire() as wire:
        group, fixed, nobody = side.fresh("g"), side.fresh("g"), side.fresh("g")
        me, generation = member(wire, group)
        _, of_fixed = member(wire, fixed, "i-1")
        named = (topic, topic_id(wire, topic))

        def on(**fields: Any) -> str:
            whose = fields.pop("group", group)
            what = fields.pop("named", named)

            def of(version: int) -> str:
                with side.wire() as other:
                    return commit(other, version, whose, what, **fields)

            return by_version(COMMIT, of)

        nowhere = ("nowhere", uuid.UUID(int=77))
        facts = {
            "commit: well": on(member_id=me, generation_id_or_member_epoch=generation),
            "commit: another generation": on(member_id=me, generation_id_or_member_epoch=generation + 7),
            "commit: an unknown member": on(member_id="m", generation_id_or_member_epoch=generation),
            "commit: from outside while there are members": on(),
            "commit: a fenced instance": on(
                group=fixed, member_id="m", generation_id_or_member_epoch=of_fixed, group_instance_id="i-1"
            ),
            "commit: an unknown group with a generation": on(
                group="never", member_id="m", generation_id_or_member_epoch=3
            ),
            "commit: nobody's group": on(group=nobody),
            "commit: no group": on(group=""),
            "commit: an unknown topic": on(group=nobody, named=nowhere),
            "commit: an unknown partition": on(group=nobody, partition=9),
            "commit: too much metadata": on(group=nobody, metadata="m" * 5_000),
        }
        facts |= {
            "fetch: an unknown group": by_version(FETCH, lambda v: fetched(side, v, "never", named)),
            "fetch: an unknown topic": by_version(FETCH, lambda v: fetched(side, v, nobody, nowhere)),
            "fetch: no group": by_version(FETCH, lambda v: fetched(side, v, "", named)),
            "fetch: well": by_version(FETCH, lambda v: fetched(side, v, group, named)),
            "describe: an unknown group": by_version(DESCRIBE, lambda v: described(side, v, "never")),
            "describe: no group": by_version(DESCRIBE, lambda v: described(side, v, "")),
            "delete: an unknown group": by_version(DELETE, lambda v: deleted(side, v, "never")),
            "delete: with members": by_version(DELETE, lambda v: deleted(side, v, group)),
            "delete: no group": by_version(DELETE, lambda v: deleted(side, v, "")),
            "delete offsets: an unknown group": deleted_offset(wire, "never", topic),
            "delete offsets: an unknown topic": deleted_offset(wire, group, "nowhere"),
        }
        return facts


def fetched(side: Side, version: int, group: str, named: Any) -> str:
    name, topic_id = named
    if version >= 8:
        topics = OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics
        one = topics(name=name, topic_id=topic_id, partition_indexes=[0])
        groups = [
            OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, member_id=None, member_epoch=-1, topics=[one])
        ]
        request = OffsetFetchRequest(groups=groups, require_stable=False)
    else:
        old = OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=group, topics=[old], require_stable=False)
    with side.wire() as wire:
        answer = wire.ask(request, version, OffsetFetchResponse)
    found = answer.groups[0] if version >= 8 else answer
    whole = code_name(found.error_code) if version >= 2 else "-"
    parts = [f"{code_name(p.error_code)}@{p.committed_offset}" for topic in found.topics for p in topic.partitions]
    return " ".join([whole, *parts])


def described(side: Side, version: int, group: str) -> str:
    with side.wire() as wire:
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        (found,) = wire.ask(request, version, DescribeGroupsResponse).groups
    return f"{code_name(found.error_code)} {found.group_state}"


def deleted(side: Side, version: int, group: str) -> str:
    with side.wire() as wire:
        (found,) = wire.ask(DeleteGroupsRequest(groups_names=[group]), version, DeleteGroupsResponse).results
    return code_name(found.error_code)


def deleted_offset(wire: KafkaWire, group: str, topic: str) -> str:
    part = OffsetDeleteRequest.OffsetDeleteRequestTopic.OffsetDeleteRequestPartition(partition_index=0)
    named = OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=[part])
    answer = wire.ask(OffsetDeleteRequest(group_id=group, topics=[named]), 0, OffsetDeleteResponse)
    parts = [code_name(p.error_code) for entry in answer.topics for p in entry.partitions]
    return " ".join([code_name(answer.error_code), *parts])


STORIES: Final = (Story("memberships", _memberships), Story("offsets", _offsets))
