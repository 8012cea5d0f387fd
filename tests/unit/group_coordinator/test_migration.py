"""A group changes its protocol, both ways, with members and without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from consumer_groups import Client, ConsumerShard, flat, partitions, settle
from groups import WAITS, code, subscription

from ottla_core.coordination.batches import size_limit
from ottla_core.coordination.shard import Entry
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines import migration
from ottla_group_coordinator.machines.consumer import target
from ottla_group_coordinator.machines.consumer.member import LEAVES, LEAVES_FOR_NOW, ClassicProtocols
from ottla_group_coordinator.machines.consumer.records import MemberKey, encode_consumer_key, encode_consumer_value
from ottla_group_coordinator.machines.consumer.settings import ConsumerGroupsSettings, ConsumerSettings, MigrationPolicy
from ottla_group_coordinator.machines.consumer.states import ConsumerGroupState
from ottla_group_coordinator.machines.history import Kind
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.responses import Joined, MemberIdRequiredError, Synced
from ottla_group_coordinator.machines.states import GroupState


def migrating(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **more: Any) -> GroupSettings:
    consumer = ConsumerSettings(assignment_interval_ms=0, migration_policy=policy)
    return GroupSettings(initial_rebalance_delay_ms=0, consumer=ConsumerGroupsSettings(consumer), **more)


@pytest.fixture
def shard() -> ConsumerShard:
    return ConsumerShard(migrating())


def assigned(*numbers: int, topic: str = "t", user_data: bytes = b"") -> bytes:
    return encode_assignment(MemberAssignment(tuple(TopicPartition(topic, n) for n in numbers), user_data))


def classic_group(shard: ConsumerShard, *assignments: bytes, static: bool = False, **more: Any) -> list[str]:
    """Make a stable classic group with a member for each assignment."""
    members: list[str] = []
    for n, _ in enumerate(assignments):
        identity = {"instance_id": f"i{n}"} if static else {}
        assert shard.join(key=f"j{n}", **identity, **more) is WAITS
        for m in members:
            shard.join(m, key=f"j{n}-{m}", **({"instance_id": f"i{members.index(m)}"} if static else {}), **more)
        joined = shard.answers[f"j{n}"]
        members.append(joined.member_id)
    group = shard.group()
    assert group.leader == members[0]
    for n, m in reversed(list(enumerate(members))):
        parts = dict(zip(members, assignments, strict=True)) if n == 0 else None
        shard.sync(m, group.generation, parts, key=f"s{m}", **({"instance_id": f"i{n}"} if static else {}))
    assert shard.group().state is GroupState.STABLE
    return members


class ClassicClient:
    """A client of the classic protocol that gives up only what it has to (KIP-429)."""

    def __init__(self, shard: ConsumerShard, member_id: str, generation: int, owned: set[TopicPartition]) -> None:
        self.shard, self.member_id, self.generation, self.owned = shard, member_id, generation, owned
        self.count = 0

    def go_on(self) -> None:
        """Send a heartbeat, and join and synchronize if the response says so."""
        told = self.shard.heartbeat(self.member_id, self.generation)
        if told is None:
            return
        assert code(told) == ErrorCode.REBALANCE_IN_PROGRESS
        data = encode_subscription(Subscription(("t",), owned=tuple(sorted(self.owned)), generation=self.generation))
        self.count += 1
        key = f"{self.member_id}-{self.count}-{self.shard.at}-{len(self.shard.log)}"
        joined = self.shard.join(self.member_id, key=key, protocols={"range": data})
        assert isinstance(joined, Joined), joined
        self.generation = joined.generation
        synced = self.shard.sync(self.member_id, self.generation, key=f"{key}-s")
        if isinstance(synced, Synced):
            self.owned = set(decode_assignment(synced.assignment).partitions)


def all_of(*found: Any) -> list[tuple[str, int]]:
    return sorted((p.topic, p.partition) for each in found for p in each)


# ---- upgrade ------------------------------------------------------------------------------------------------------


def test_the_first_member_of_the_consumer_protocol_upgrades_its_group_without_a_stop(shard: ConsumerShard) -> None:
    a, b = classic_group(shard, assigned(0, 1), assigned(2, 3))
    generation = shard.group().generation
    new = Client(shard, "new")
    answer = new.beat()
    assert not isinstance(answer, OttlaError), answer
    group = shard.consumers()
    assert set(group.members) == {a, b, "new"}
    assert group.epoch == answer.epoch == generation + 1
    first = ClassicClient(shard, a, generation, {TopicPartition("t", 0), TopicPartition("t", 1)})
    second = ClassicClient(shard, b, generation, {TopicPartition("t", 2), TopicPartition("t", 3)})
    for _ in range(4):
        for client in (first, second):
            client.go_on()
        new.beat()
        new.settle()
        owned = [*flat(new.owned)]
        assert len(all_of(first.owned, second.owned)) + len(owned) == len(
            set(all_of(first.owned, second.owned)) | {(shard.known.name(t), n) for t, n in owned}
        ), "no partition has two owners"
    assert shard.consumers().state is ConsumerGroupState.STABLE
    assert len(first.owned) + len(second.owned) + len(flat(new.owned)) == 4
    assert shard.machine.group_or_new("g").members.values() is not None
    assert list(shard.machine.groups()) == [group]


def test_an_upgraded_group_has_the_state_of_its_log(shard: ConsumerShard) -> None:
    classic_group(shard, assigned(0, 1), assigned(2, 3))
    shard.beat("new")
    there = ConsumerShard(shard.settings, shard.log, shard.known)
    assert there.consumers().members == shard.consumers().members
    assert there.consumers().targets == shard.consumers().targets
    assert there.consumers().epoch == shard.consumers().epoch
    assert list(there.machine._groups) == []


def test_an_upgrade_has_waiting_members_join_again(shard: ConsumerShard) -> None:
    a, b = classic_group(shard, assigned(0, 1), assigned(2, 3))
    assert shard.join(a, key="again", protocols={"range": subscription("t", "u")}) is WAITS
    shard.beat("new")
    assert code(shard.answers["again"]) == ErrorCode.REBALANCE_IN_PROGRESS
    assert code(shard.heartbeat(b, 2)) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_group_is_not_upgraded_against_the_policy(policy: MigrationPolicy) -> None:
    shard = ConsumerShard(migrating(policy))
    classic_group(shard, assigned(0, 1))
    before = len(shard.log)
    assert code(shard.beat("new")) == ErrorCode.GROUP_ID_NOT_FOUND
    assert len(shard.log) == before
    assert shard.group().state is GroupState.STABLE


@pytest.mark.parametrize(
    ("assignment", "more"),
    [
        (assigned(0, user_data=b"sticky"), {}),
        (b"\0", {}),
        (assigned(0), {"protocol_type": "connect"}),
        (assigned(0), {"protocols": {"range": b"\0\1\2"}}),
    ],
    ids=["data of a custom assignor", "no assignment", "another protocol type", "no subscription"],
)
def test_a_group_that_can_not_be_upgraded_stays_as_it_is(
    shard: ConsumerShard, assignment: bytes, more: dict[str, Any]
) -> None:
    classic_group(shard, assignment, **more)
    before = len(shard.log)
    assert code(shard.beat("new")) == ErrorCode.GROUP_ID_NOT_FOUND
    assert len(shard.log) == before
    assert shard.group().state is GroupState.STABLE
    assert shard.machine.consumer_group("g") is None


def test_a_group_with_too_many_members_is_not_upgraded() -> None:
    consumer = ConsumerSettings(max_size=1)
    shard = ConsumerShard(GroupSettings(initial_rebalance_delay_ms=0, consumer=ConsumerGroupsSettings(consumer)))
    classic_group(shard, assigned(0, 1), assigned(2, 3))
    assert code(shard.beat("new")) == ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.group().state is GroupState.STABLE


def test_a_group_whose_records_do_not_fit_into_a_batch_is_not_upgraded() -> None:
    shard = ConsumerShard(migrating(max_record_bytes=300))
    classic_group(shard, assigned(0, 1))
    assert code(shard.beat("new")) == ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.group().state is GroupState.STABLE


@pytest.mark.story("upgrade-larger-than-a-batch")
def test_an_upgrade_that_does_not_fit_with_the_join_that_brings_it_about_is_refused_as_one() -> None:
    were_refused = []
    for most_bytes in range(500, 1_500, 20):
        shard = ConsumerShard(migrating())
        classic_group(shard, assigned(0, 1), assigned(2, 3))
        shard.settings = shard.machine.settings = migrating(max_record_bytes=most_bytes)
        answer = shard.beat("new")
        assert shard.largest_bytes <= most_bytes
        were_refused.append(isinstance(answer, OttlaError) and code(answer) == ErrorCode.GROUP_ID_NOT_FOUND)
    assert were_refused == sorted(were_refused, reverse=True)
    assert set(were_refused) == {False, True}


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions(shard: ConsumerShard) -> None:
    a, _ = classic_group(shard, assigned(0, 1), assigned(2, 3), static=True)
    answer = shard.beat("new", instance_id="i0")
    assert answer.assignment == partitions(t=[0, 1])
    assert a not in shard.consumers().members


@pytest.mark.story("upgrade-forgets-a-rebalance")
def test_an_upgrade_by_a_static_member_replaces_the_rebalance_that_is_under_way(shard: ConsumerShard) -> None:
    _, b = classic_group(shard, assigned(0, 1), assigned(2, 3), static=True)
    generation = shard.group().generation
    assert shard.join(fresh_id="c", key="c") is WAITS
    new = Client(shard, "new", more={"instance_id": "i0"})
    new.beat()
    assert code(shard.answers["c"]) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = shard.join("c", key="again")
    synced = shard.sync("c", joined.generation, key="synced")
    newcomer = ClassicClient(shard, "c", joined.generation, set(decode_assignment(synced.assignment).partitions))
    other = ClassicClient(shard, b, generation, {TopicPartition("t", 2), TopicPartition("t", 3)})
    for _ in range(6):
        newcomer.go_on()
        other.go_on()
        new.beat()
        new.settle()
    assert newcomer.owned
    classic = [p.partition for p in newcomer.owned | other.owned]
    assert sorted([*classic, *(number for _, number in flat(new.owned))]) == [0, 1, 2, 3]


@pytest.mark.story("upgrade-forgets-a-rebalance")
def test_an_upgrade_by_a_static_member_assigns_partitions_that_the_leader_has_not(shard: ConsumerShard) -> None:
    classic_group(shard, assigned(0, 1), assigned(2), static=True)
    shard.beat("new", instance_id="i0")
    targets = [flat(target) for target in shard.consumers().targets.values()]
    assert sorted(number for target in targets for _, number in target) == [0, 1, 2, 3]


# ---- classic members in a consumer group ----------------------------------------------------------------------------


def mixed(shard: ConsumerShard) -> tuple[ClassicClient, Client]:
    (a,) = classic_group(shard, assigned(0, 1, 2, 3))
    old, new = ClassicClient(shard, a, 1, {TopicPartition("t", n) for n in range(4)}), Client(shard, "new")
    for _ in range(4):
        new.beat()
        new.settle()
        old.go_on()
    assert shard.consumers().state is ConsumerGroupState.STABLE
    return old, new


LONG = "ä" * 20_000


@pytest.mark.story("classic-member-with-a-name-too-long")
@pytest.mark.parametrize(
    "more",
    [
        {"client_id": LONG},
        {"client_host": LONG},
        {"instance_id": LONG},
        {"member_id": LONG},
        {"fresh_id": LONG},
        {"protocols": {LONG: subscription("t"), "range": subscription("t")}},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_join_with_a_name_that_no_record_can_hold_is_refused_by_groups_of_both_protocols(
    shard: ConsumerShard, more: dict[str, Any]
) -> None:
    assert code(shard.join(**more)) == ErrorCode.INVALID_REQUEST
    mixed(shard)
    before = len(shard.log)
    assert code(shard.join(**more)) == ErrorCode.INVALID_REQUEST
    assert len(shard.log) == before


@pytest.mark.story("classic-member-with-any-session-timeout")
@pytest.mark.parametrize("timeout_ms", [0, 5_999, 1_800_001, 2**31 - 1])
def test_a_session_timeout_outside_the_bounds_is_refused_by_groups_of_both_protocols(
    shard: ConsumerShard, timeout_ms: int
) -> None:
    assert code(shard.join(session_timeout_ms=timeout_ms)) == ErrorCode.INVALID_SESSION_TIMEOUT
    old, _ = mixed(shard)
    for member_id in ("", old.member_id):
        assert code(shard.join(member_id, session_timeout_ms=timeout_ms)) == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_classic_heartbeat_that_changes_nothing_writes_nothing(shard: ConsumerShard) -> None:
    old, _ = mixed(shard)
    before = len(shard.log)
    assert shard.heartbeat(old.member_id, old.generation) is None
    assert len(shard.log) == before
    assert len(old.owned) == 2


@pytest.mark.story("classic-heartbeat-writes")
def test_a_heartbeat_of_a_classic_member_and_a_takeover_write_nothing_whatever_an_earlier_decision_has_left(
    shard: ConsumerShard,
) -> None:
    old, _ = mixed(shard)
    readers = [f"r{n}" for n in range(50)]
    for n, reader in enumerate(readers):
        shard.beat(reader, topics=(), regex=f"t{n}[{1_000 * 'x'}]")
    shard.resolve()
    shard.leave(*readers)
    assert shard.consumers().unread
    before = len(shard.log)
    shard.take_over()
    shard.heartbeat(old.member_id, shard.member(old.member_id).epoch)
    assert shard.log[before:] == []


def test_requests_of_classic_members_are_checked_as_in_a_classic_group(shard: ConsumerShard) -> None:
    old, new = mixed(shard)
    before, epoch = len(shard.log), shard.consumers().epoch
    assert code(shard.heartbeat(old.member_id, old.generation - 1)) == ErrorCode.ILLEGAL_GENERATION
    assert code(shard.heartbeat("nobody", old.generation)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(shard.heartbeat(new.member_id, new.epoch)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(shard.heartbeat(old.member_id, old.generation, "i9")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(shard.sync(old.member_id, old.generation - 1)) == ErrorCode.ILLEGAL_GENERATION
    assert code(shard.sync(old.member_id, old.generation, protocol="other")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(shard.sync(new.member_id, new.epoch)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(shard.join(protocols={"other": subscription("t")})) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(shard.join(protocol_type="connect")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(shard.join(protocols={"range": b"\0\1"})) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert isinstance(shard.join(member_id_required=True), MemberIdRequiredError)
    assert [code(each) for each in shard.leave("nobody")] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert (len(shard.log), shard.consumers().epoch) == (before, epoch)
    # An administrator removes members of both protocols with LeaveGroup.
    assert shard.leave(new.member_id) == [None]
    assert list(shard.machine.group("g").members) == [old.member_id]


def test_a_classic_member_that_does_not_join_again_is_evicted(shard: ConsumerShard) -> None:
    old, new = mixed(shard)
    shard.known.put("t", 8)
    new.beat()
    for _ in range(14):
        shard.heartbeat(old.member_id, old.generation)
        new.beat()
        new.settle()
        shard.sleep(5)
    assert set(shard.consumers().members) == {"new"}
    settle(new)
    assert len(flat(new.owned)) == 8


def test_a_classic_member_that_does_not_synchronize_is_evicted(shard: ConsumerShard) -> None:
    old, new = mixed(shard)
    joined = shard.join(old.member_id, key="again")
    assert isinstance(joined, Joined)
    for _ in range(14):
        shard.heartbeat(old.member_id, joined.generation)
        new.beat()
        shard.sleep(5)
    assert set(shard.consumers().members) == {"new"}


@pytest.mark.story("classic-members-join-without-a-pause")
def test_a_classic_member_gets_its_assignment_while_the_next_target_is_being_made(
    shard: ConsumerShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = mixed(shard)
    monkeypatch.setattr(target, "_AT_ONCE", 0)
    shard.beat("another")
    assert code(shard.heartbeat(old.member_id, old.generation)) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = shard.join(old.member_id, key="again")
    assert joined.generation < shard.consumers().epoch
    synced = shard.sync(old.member_id, joined.generation, key="synced")
    assert set(decode_assignment(synced.assignment).partitions) == old.owned
    shard.assign()
    synced = shard.sync(old.member_id, joined.generation, key="late")
    assert code(synced) == ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(4):
        old.go_on()
        new.beat()
        new.settle()
    assert old.generation == shard.consumers().epoch


def test_a_classic_member_leaves_a_consumer_group(shard: ConsumerShard) -> None:
    old, new = mixed(shard)
    assert shard.leave(old.member_id) == [None]
    settle(new)
    assert new.owned == partitions(t=range(4))


def test_a_static_classic_member_that_restarts_keeps_its_partitions(shard: ConsumerShard) -> None:
    a, b = classic_group(shard, assigned(0, 1), assigned(2, 3), static=True)
    shard.beat("new", topics=["u"])
    epoch = shard.consumers().epoch
    for member_id, instance_id in ((a, "i0"), (b, "i1")):
        shard.join(member_id, key=member_id, instance_id=instance_id)
    back = shard.join(key="back", instance_id="i0")
    assert (back.generation, back.leader, back.members) == (epoch, "", ())
    told = shard.sync(back.member_id, epoch, key="s", instance_id="i0")
    assert all_of(decode_assignment(told.assignment).partitions) == [("t", 0), ("t", 1)]
    assert code(shard.heartbeat(a, epoch, "i0")) == ErrorCode.FENCED_INSTANCE_ID
    assert code(shard.join(a, key="late", instance_id="i0")) == ErrorCode.FENCED_INSTANCE_ID
    assert code(shard.join("who", key="who", instance_id="i7")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.consumers().epoch == epoch


def test_a_classic_member_has_the_session_timeout_of_its_join(shard: ConsumerShard) -> None:
    _, new = mixed(shard)
    shard.sleep(11)
    assert set(shard.consumers().members) == {"new"}
    assert new.beat().epoch


# ---- downgrade ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("go", ["leave", "session", "takeover"])
def test_a_group_is_downgraded_when_its_last_member_of_the_consumer_protocol_goes(
    shard: ConsumerShard, go: str
) -> None:
    old, new = mixed(shard)
    epoch = shard.consumers().epoch
    match go:
        case "leave":
            new.leave()
        case "session":
            for _ in range(10):
                shard.heartbeat(old.member_id, old.generation)
                shard.sleep(5)
        case "takeover":
            at = shard.at
            shard = ConsumerShard(shard.settings, shard.log, shard.known)
            shard.at = at
            shard.beat(new.member_id, LEAVES)
    assert shard.machine.consumer_group("g") is None
    group = shard.group()
    assert (group.state, group.generation) == (GroupState.PREPARING_REBALANCE, epoch)
    assert code(shard.heartbeat(old.member_id, old.generation)) == ErrorCode.REBALANCE_IN_PROGRESS
    shard.join(old.member_id, key="again")
    joined = shard.answers["again"]
    assert (joined.generation, joined.leader) == (epoch + 1, old.member_id)
    there = ConsumerShard(shard.settings, shard.log, shard.known)
    assert there.machine.consumer_group("g") is None
    assert list(there.group().members) == [old.member_id]


@pytest.mark.story("rebalance-of-a-downgrade-is-forgotten")
def test_the_next_coordinator_begins_the_rebalance_of_a_downgrade(shard: ConsumerShard) -> None:
    old, new = mixed(shard)
    new.leave()
    shard.take_over()
    assert shard.group().state is GroupState.PREPARING_REBALANCE
    assert code(shard.heartbeat(old.member_id, old.generation)) == ErrorCode.REBALANCE_IN_PROGRESS
    assert [event.kind for event in shard.events()] == [Kind.LOADED, Kind.REBALANCE_BEGAN]
    assert shard.join(old.member_id, key="again") is WAITS
    joined = shard.answers["again"]
    assert (joined.generation, joined.leader) == (old.generation + 1, old.member_id)
    shard.take_over()
    assert shard.join(old.member_id, key="once more") is WAITS
    joined = shard.answers["once more"]
    shard.sync(old.member_id, joined.generation, {old.member_id: assigned(0, 1, 2, 3)})
    shard.take_over()
    assert shard.group().state is GroupState.STABLE
    assert shard.heartbeat(old.member_id, joined.generation) is None


@pytest.mark.story("downgrade-writes-targets")
def test_an_upgrade_right_after_a_downgrade_keeps_the_assignments(shard: ConsumerShard) -> None:
    (a,) = classic_group(shard, assigned(0, 1, 2, 3))
    first = Client(shard, "first")
    first.beat()
    assert len(flat(shard.consumers().targets[a])) == 2
    first.leave()
    assert shard.group().state is GroupState.PREPARING_REBALANCE
    answer = Client(shard, "second").beat()
    assert answer.assignment == {}
    assert {number for _, number in flat(shard.consumers().members[a].current.assigned)} == {0, 1, 2, 3}


def test_the_history_of_a_downgrade_begins_with_its_cause(shard: ConsumerShard) -> None:
    old, new = mixed(shard)
    before = len(shard.events())
    new.leave()
    assert [event.kind for event in shard.events()[before:]] == [Kind.LEFT, Kind.MIGRATED, Kind.REBALANCE_BEGAN]
    assert shard.join(client_id="other") is WAITS
    before = len(shard.events())
    shard.beat("new", client_id="new")
    assert [event.cause for event in shard.events()[before:]][:3] == [
        "the group was upgraded, because its first member of the consumer protocol has joined",
        "joined",
        "new joined",
    ]
    assert old.member_id in shard.consumers().members


def test_the_cause_of_an_epoch_names_the_classic_member_that_joins(shard: ConsumerShard) -> None:
    mixed(shard)
    before = len(shard.events())
    joined = shard.join(client_id="another")
    assert shard.events()[before + 1].cause == "another joined"
    before = len(shard.events())
    shard.join(joined.member_id, client_id="another", protocols={"range": subscription("u")})
    assert shard.events()[before].cause == "another changed its subscription"


def test_members_that_do_not_join_after_a_downgrade_and_a_takeover_are_evicted(shard: ConsumerShard) -> None:
    old, new = mixed(shard)
    new.leave()
    shard.take_over()
    for _ in range(13):
        shard.heartbeat(old.member_id, old.generation)
        shard.sleep(5)
    assert (shard.group().state, len(shard.group().members)) == (GroupState.EMPTY, 0)


def test_a_downgrade_succeeds_with_unknown_topics(shard: ConsumerShard) -> None:
    old, new = mixed(shard)
    shard.known.topics.clear()
    new.leave()
    assert shard.group().state is GroupState.PREPARING_REBALANCE
    assert list(shard.group().members) == [old.member_id]


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_a_group_is_not_downgraded_against_the_policy(policy: MigrationPolicy) -> None:
    shard = ConsumerShard(migrating())
    old, new = mixed(shard)
    shard.settings = shard.machine.settings = migrating(policy)
    new.leave()
    assert list(shard.consumers().members) == [old.member_id]
    for _ in range(3):
        old.go_on()
    assert len(old.owned) == 4


def test_a_downgrade_that_does_not_fit_into_a_batch_leaves_a_consumer_group() -> None:
    shard = ConsumerShard(migrating())
    old, new = mixed(shard)
    shard.settings = shard.machine.settings = migrating(max_record_bytes=300)
    new.leave()
    for _ in range(3):
        old.go_on()
    assert shard.consumers().state is ConsumerGroupState.STABLE
    assert len(old.owned) == 4


@pytest.mark.story("downgrade-larger-than-a-batch")
def test_a_downgrade_that_fits_alone_but_not_with_the_end_of_a_session_leaves_a_consumer_group() -> None:
    sizes: list[int] = []
    for most_bytes in (1 << 20, None):
        shard = ConsumerShard(migrating())
        old, _ = mixed(shard)
        shard.largest_bytes = 0
        shard.settings = shard.machine.settings = migrating(max_record_bytes=most_bytes or sizes[0] - 1)
        for _ in range(10):
            shard.heartbeat(old.member_id, old.generation)
            shard.sleep(5)
        sizes.append(shard.largest_bytes)
    assert sizes[1] < sizes[0]
    assert list(shard.consumers().members) == [old.member_id]


def test_a_downgrade_of_members_without_targets_may_fill_its_batch() -> None:
    consumer = ConsumerSettings(assignment_interval_ms=10**9, migration_policy=MigrationPolicy.BIDIRECTIONAL)
    of_group = GroupSettings(initial_rebalance_delay_ms=0, consumer=ConsumerGroupsSettings(consumer))
    sizes: list[int] = []
    for _ in range(2):
        shard = ConsumerShard(migrating())
        mixed(shard)
        shard.settings = shard.machine.settings = replace(of_group, max_record_bytes=sizes[0] if sizes else 1 << 20)
        for _ in range(20):
            shard.join()
        assert len(shard.consumers().targets) == 2
        before = len(shard.log)
        shard.beat("new", LEAVES)
        assert len(shard.group().members) == 21
        sizes.append(size_limit(shard.log[before:]))
    assert sizes[0] == sizes[1]


@pytest.mark.story("refused-downgrade-is-tried-again-and-again")
def test_a_refused_downgrade_is_tried_again_when_another_member_of_the_consumer_protocol_goes(
    shard: ConsumerShard,
) -> None:
    old, new = mixed(shard)
    shard.settings = shard.machine.settings = migrating(max_record_bytes=300)
    new.leave()
    shard.settings = shard.machine.settings = migrating()
    # Joins and departures of classic members don't try it again.
    for _ in range(3):
        old.go_on()
    other = shard.join()
    assert isinstance(other, Joined)
    shard.leave(other.member_id)
    assert list(shard.consumers().members) == [old.member_id]
    new.beat()
    new.leave()
    assert list(shard.group().members) == [old.member_id]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"client_host": "h" * 1_000},
        {"protocols": {"range": subscription("t") + bytes(1_000)}},
        {"protocols": {"range": subscription("many")}},
    ],
    ids=["many members", "long names", "large subscriptions", "many partitions"],
)
def test_a_downgrade_that_is_clearly_too_large_is_refused_before_anything_is_encoded(
    shard: ConsumerShard, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    mixed(shard)
    shard.known.put("many", 5_000)
    for _ in range(20):
        shard.join(**more)
    shard.settings = shard.machine.settings = migrating(max_record_bytes=10_000 if more else 1_500)
    encoded = Mock(wraps=migration.named_partitions)
    monkeypatch.setattr(migration, "named_partitions", encoded)
    shard.beat("new", LEAVES)
    assert len(shard.consumers().members) == 21
    assert encoded.call_count == 0


@pytest.mark.parametrize(
    "more",
    [{"client_id": LONG}, {"classic": ClassicProtocols(10_000, ((LONG, b""),))}],
    ids=lambda more: next(iter(more)),
)
def test_members_can_leave_a_group_that_no_classic_record_can_hold(shard: ConsumerShard, more: dict[str, Any]) -> None:
    old, _ = mixed(shard)
    # A log that another implementation has written may hold such a name.
    metadata = shard.member(old.member_id).metadata._replace(**more)
    key = MemberKey("g", old.member_id)
    shard.apply(Entry(encode_consumer_key(key), encode_consumer_value(key, metadata)))
    for _ in range(10):
        shard.heartbeat(old.member_id, old.generation)
        shard.sleep(5)
    assert list(shard.consumers().members) == [old.member_id]


def test_a_static_member_that_comes_back_with_the_classic_protocol_downgrades_its_group(shard: ConsumerShard) -> None:
    (a,) = classic_group(shard, assigned(0, 1, 2, 3), static=True)
    shard.beat("new", instance_id="i1")
    shard.join(a, key="x", instance_id="i0")
    shard.beat("new", LEAVES_FOR_NOW, instance_id="i1")
    assert shard.join(key="back", instance_id="i1") is WAITS
    shard.join(a, key="again", instance_id="i0")
    joined = shard.answers["back"]
    assert shard.machine.consumer_group("g") is None
    assert set(shard.group().members) == {a, joined.member_id}


# ---- empty groups -------------------------------------------------------------------------------------------------


def test_an_empty_classic_group_takes_the_consumer_protocol_and_its_epochs_continue(shard: ConsumerShard) -> None:
    (a,) = classic_group(shard, assigned(0, 1, 2, 3))
    shard.leave(a)
    generation = shard.group().generation
    answer = shard.beat("m1")
    assert answer.epoch == generation + 1
    there = ConsumerShard(shard.settings, shard.log, shard.known)
    assert there.consumers().epoch == answer.epoch
    assert there.beat("m1", answer.epoch).epoch == answer.epoch
    assert list(there.machine._groups) == []


def test_an_empty_consumer_group_takes_the_classic_protocol_and_its_epochs_continue(shard: ConsumerShard) -> None:
    settle(Client(shard, "m1", more={"topics": frozenset(), "regex": "t"}))
    shard.beat("m1", LEAVES)
    epoch = shard.consumers().epoch
    shard.join(key="j")
    assert shard.answers["j"].generation == epoch + 1
    assert shard.machine.consumer_group("g") is None
    there = ConsumerShard(shard.settings, shard.log, shard.known)
    assert there.machine.consumer_group("g") is None
    assert there.group().generation == epoch


def test_offsets_outlive_a_change_of_protocol(shard: ConsumerShard) -> None:
    (a,) = classic_group(shard, assigned(0, 1, 2, 3))
    assert shard.commit(5, a, 1) == [None]
    shard.beat("new")
    assert shard.machine.offsets("g")[TopicPartition("t", 0)].offset == 5


def test_the_history_outlives_each_change_of_protocol(shard: ConsumerShard) -> None:
    (a,) = classic_group(shard, assigned(0, 1, 2, 3))
    count = len(shard.events())
    shard.beat("new")
    assert len(shard.events()) > count
    count = len(shard.events())
    shard.beat("new", LEAVES)
    assert len(shard.events()) > count
    shard.leave(a)
    shard.sleep(1)
    count = len(shard.events())
    shard.beat("m1")
    assert len(shard.events()) > count
    shard.beat("m1", LEAVES)
    count = len(shard.events())
    shard.join()
    assert len(shard.events()) > count
