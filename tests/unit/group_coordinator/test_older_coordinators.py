"""A coordinator leaves the records that it does not know in the log, and a newer one goes on with them.

After a rollback, 0.2.0 serves a log of this release. It is this release without the consumer protocol (`older`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from consumer_groups import Client, ConsumerShard, flat, settings, settle
from groups import WAITS, EveryTopic, Shard, code, subscription

from ottla_core.coordination.shard import Entry, Record
from ottla_core.errors import ErrorCode
from ottla_core.kafka_formats.consumer_protocol import MemberAssignment, encode_assignment
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines import group as classic
from ottla_group_coordinator.machines import records
from ottla_group_coordinator.machines.consumer.records import GroupEpochKey, encode_consumer_key
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.members import Member
from ottla_group_coordinator.machines.membership import CallerIdentity
from ottla_group_coordinator.machines.offsets import NO_GENERATION, ToCommit, decide_commit
from ottla_group_coordinator.machines.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    encode_group,
    encode_key,
    encode_offset,
)
from ottla_group_coordinator.machines.states import GroupState

_DAY_S = 24 * 3600.0
_P = TopicPartition("t", 0)


@contextmanager
def older(shard: Shard) -> Iterator[Shard]:
    """Let a coordinator take over that does not know the records of consumer groups, nor what `DEPARTED` means."""
    read = [entry._replace(key=bytes(entry.key)) for entry in shard.log if isinstance(entry, Entry)]
    with (
        patch.object(records, "decode_consumer_key", lambda version, reader: None),
        patch.object(classic, "DEPARTED", replace(classic.DEPARTED, member_id="")),
    ):
        yield Shard(shard.settings, list(read))


def loaded(shard: Shard) -> ConsumerShard:
    """Let a coordinator of this release take over."""
    there = ConsumerShard(shard.settings, shard.log)
    there.at = shard.at
    return there


@pytest.fixture
def shard() -> ConsumerShard:
    return ConsumerShard(replace(settings(), initial_rebalance_delay_ms=0))


def kinds(log: list[Record]) -> list[int]:
    return [int.from_bytes(entry.key[:2]) for entry in log if isinstance(entry, Entry)]


def commit(shard: Shard, offset: int, member_id: str = "", epoch: int = NO_GENERATION) -> Any:
    """Commit in the group that there is, as the service does."""
    group = shard.machine.any_group("g") or shard.group()
    asked, identity = [ToCommit(_P, offset, -1, "")], CallerIdentity(member_id)
    return shard._try(lambda: decide_commit(group, identity, epoch, asked, shard.topics, shard.settings, shard.now))


def consumer_group(shard: ConsumerShard) -> tuple[Client, Client]:
    """Make a group with a regular expression and a committed offset."""
    a, b = Client(shard, "a"), Client(shard, "b", more={"topics": "", "regex": "u.*"})
    settle(a, b)
    assert commit(shard, 5, "a", a.epoch) == [None]
    assert {*kinds(shard.log)} == {1, 3, 5, 6, 7, 8, 16}
    return a, b


def join_alone(shard: Shard) -> tuple[str, int]:
    """Make a stable classic group of one member, and return the member with its generation."""
    assert shard.join(key="first") is WAITS
    joined = shard.answers["first"]
    made = {joined.member_id: encode_assignment(MemberAssignment((_P,)))}
    shard.sync(joined.member_id, joined.generation, made)
    assert shard.group().state is GroupState.STABLE
    return joined.member_id, joined.generation


# ---- after a rollback -----------------------------------------------------------------------------------------------


def test_an_older_coordinator_leaves_consumer_groups_as_they_are(shard: ConsumerShard) -> None:
    a, b = consumer_group(shard)
    with older(shard) as there:
        assert there.machine.unreadable == sum(kind > 2 for kind in kinds(shard.log))
        assert there.machine.offsets("g")[_P].offset == 5
        before = len(there.log)
        assert commit(there, 6) == [None]
        there.take(there.machine.forget_topics(EveryTopic("other"), None))
        there.sleep(6 * _DAY_S)
        assert kinds(there.log[before:]) == [1]
    again = loaded(there)
    for name in ("written", "assigned", "members", "targets", "resolved"):
        assert vars(again.consumers())[name] == vars(shard.consumers())[name]
    assert again.machine.offsets("g")[_P].offset == 6
    a.shard = b.shard = again
    settle(a, b)
    assert commit(again, 7, "a", a.epoch) == [None]


def test_an_older_coordinator_has_the_members_join_after_a_downgrade(shard: ConsumerShard) -> None:
    a, generation = join_alone(shard)
    new = Client(shard, "new", more={"topics": "u"})
    new.beat()
    assert shard.join(a, key="again").generation == generation + 1
    shard.sync(a, generation + 1)
    new.leave()
    with older(shard) as there:
        data = {"range": there.group().members[a].metadata("range")}
        assert there.heartbeat(a, generation + 1) is None
        assert there.join(a, protocols=data).member_id == a, "its response may have been lost"
        there.sleep(0)
        assert code(there.heartbeat(a, generation + 1)) == ErrorCode.REBALANCE_IN_PROGRESS
        assert there.join(a, key="once more", protocols=data) is WAITS
        joined = there.answers["once more"]
        assert (joined.generation, joined.leader) == (generation + 2, a)
        assert [member.member_id for member in joined.members] == [a]


def test_the_record_of_a_downgrade_is_known_by_its_departed_member(shard: ConsumerShard) -> None:
    """Later releases have to know it by these bytes."""
    departed = (
        "0008" + b"departed".hex() + "ffff" + "002f" + b"a member of the consumer protocol that has gone".hex() + "0000"
        + "00000000" + "00000000"
        + "00000014" + "0003" + "00000000" + "00000000" + "00000000" + "ffffffff" + "ffff"
        + "0000000a" + "0000" + "00000000" + "00000000"
    )  # fmt: skip
    group = Group("g", GroupState.STABLE, "consumer", 3, "range")
    group.members.put(Member("m", None, "", "", 60_000, 10_000, {"range": subscription("t")}))
    written = encode_group(group.record())
    assert written.endswith(bytes.fromhex(departed))
    there = ConsumerShard(shard.settings, [Entry(encode_key(GroupKey("g")), bytes(written))])
    assert (there.group().state, list(there.group().members)) == (GroupState.PREPARING_REBALANCE, ["m"])


@pytest.mark.story("older-release-leaves-a-consumer-group")
def test_a_classic_group_of_an_older_coordinator_goes_on_in_place_of_a_consumer_group(shard: ConsumerShard) -> None:
    consumer_group(shard)
    with older(shard) as there:
        member, generation = join_alone(there)
        assert commit(there, 6, member, generation) == [None]
    again = loaded(there)
    assert again.machine.any_group("g") is again.group()
    assert again.heartbeat(member, generation) is None
    assert commit(again, 7, member, generation) == [None]
    assert code(again.beat("new")) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    before = len(again.log)
    again.sleep(0)
    assert {*kinds(again.log[before:])} == {3, 4, 5, 6, 7, 8, 16}
    assert again.machine._consumers == {}
    again.take_over()
    assert again.heartbeat(member, generation) is None
    assert again.machine.offsets("g")[_P].offset == 7
    answer = again.beat("new")
    assert set(again.consumers().members) == {member, "new"}
    assert answer.epoch == generation + 1
    again.take_over()
    assert {number for _, number in flat(again.member(member).current.assigned)} == {0}


def test_a_large_consumer_group_that_is_left_behind_is_deleted_in_parts(shard: ConsumerShard) -> None:
    for n in range(60):
        shard.beat(f"{n:2000}")
    with older(shard) as there:
        member, generation = join_alone(there)
    again = loaded(there)
    again.largest_bytes = 0
    again.sleep(0)
    assert again.machine._consumers != {}
    assert again.heartbeat(member, generation) is None
    again.sleep(5)
    assert again.machine._consumers == {}
    assert again.largest_bytes < 300_000


# ---- what this release does not know --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [
        Entry(b"\0\x11\0\1h", b"\0\0"),
        Entry(bytes(encode_consumer_key(GroupEpochKey("h"))), bytes.fromhex("0001" + "00000007" + "00")),
        Entry(encode_key(OffsetKey("h", _P)), b"\0\5" + encode_offset(CommittedOffset(9))[2:]),
        Entry(
            encode_key(GroupKey("h")),
            bytes.fromhex("0005" + "09636f6e73756d6572" + "00000003" + "00" + "00" + "0000000000000001" + "01" + "00"),
        ),
    ],
    ids=["another kind", "a later group epoch", "a later offset", "a later classic group"],
)
def test_a_record_that_is_not_known_stays_in_the_log_and_is_counted(shard: ConsumerShard, entry: Entry) -> None:
    assert commit(shard, 5) == [None]
    there = ConsumerShard(shard.settings, [entry, *shard.log])
    assert there.machine.unreadable == 1
    there.sleep(8 * _DAY_S)
    there.take(there.machine.forget_topics(EveryTopic("t"), None))
    assert there.machine.offsets("g") == {}
    assert [each for each in there.log if isinstance(each, Entry) and each.key == entry.key] == [entry]
    assert there.machine.unreadable == 1
