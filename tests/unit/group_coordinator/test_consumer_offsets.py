"""Offsets of consumer groups: who may commit and fetch them, and when they are deleted."""

from __future__ import annotations

from typing import Any

import pytest
from consumer_groups import Client, ConsumerShard, partitions, settings, settle
from groups import EveryTopic, code, id_of

from ottla_core.coordination.shard import Entry
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.member import LEAVES
from ottla_group_coordinator.machines.membership import CallerIdentity
from ottla_group_coordinator.machines.offsets import (
    ToCommit,
    decide_commit,
    decide_delete_group,
    decide_delete_offsets,
)
from ottla_group_coordinator.machines.records import decode_key

WEEK_S = 7 * 24 * 3600


@pytest.fixture
def shard() -> ConsumerShard:
    return ConsumerShard(settings())


def commit(shard: ConsumerShard, member_id: str, epoch: int, *numbers: int, topic: str = "t", **more: Any) -> Any:
    wanted = [ToCommit(TopicPartition(topic, n), 5, -1, "") for n in numbers or (0,)]
    group = shard.machine.any_group("g") or ConsumerGroup("g")
    try:
        return shard.take(
            decide_commit(
                group, CallerIdentity(member_id), epoch, wanted, EveryTopic(), shard.settings, shard.now, **more
            )
        )
    except OttlaError as error:
        return error


def test_a_member_commits_in_its_epoch(shard: ConsumerShard) -> None:
    shard.beat("m1")
    assert commit(shard, "m1", 2) == [None]
    assert code(commit(shard, "m1", 3)) == ErrorCode.STALE_MEMBER_EPOCH
    assert code(commit(shard, "m1", 1)) == ErrorCode.STALE_MEMBER_EPOCH
    assert code(commit(shard, "m2", 2)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(commit(shard, "", -1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_in_an_older_epoch_is_accepted_for_partitions_owned_since_then(shard: ConsumerShard) -> None:
    first = Client(shard, "m1")
    settle(first)
    shard.known.put("t", 6)
    first.beat()
    assert first.epoch == 3
    assert commit(shard, "m1", 2, 0, 3) == [None, None]
    assert code(commit(shard, "m1", 2, 0, 5)) == ErrorCode.STALE_MEMBER_EPOCH, "it has 5 since epoch 3"
    assert code(commit(shard, "m1", 2, 0, topic="u")) == ErrorCode.STALE_MEMBER_EPOCH


def test_a_member_may_commit_partitions_that_it_has_yet_to_give_up(shard: ConsumerShard) -> None:
    first, second = Client(shard, "m1"), Client(shard, "m2")
    settle(first)
    shard.known.put("t", 6)
    settle(first)
    second.beat()
    first.beat()
    (number, *_) = shard.member("m1").current.revoking[id_of("t")]
    since = shard.member("m1").current.revoking[id_of("t")][number]
    assert commit(shard, "m1", first.epoch, number) == [None]
    assert commit(shard, "m1", since, number) == [None]
    first.settle()
    first.beat()
    assert code(commit(shard, "m1", since, number)) == ErrorCode.STALE_MEMBER_EPOCH


def test_a_client_without_member_epochs_can_not_commit_for_a_member(shard: ConsumerShard) -> None:
    shard.beat("m1")
    assert code(commit(shard, "m1", 2, knows_no_epochs=True)) == ErrorCode.UNSUPPORTED_VERSION


def test_a_producer_commits_with_the_members_epoch_or_without_a_member(shard: ConsumerShard) -> None:
    shard.beat("m1")
    assert commit(shard, "m1", 2, in_transaction=True) == [None]
    assert commit(shard, "", -1, in_transaction=True) == [None]
    assert code(commit(shard, "m1", 9, in_transaction=True)) == ErrorCode.STALE_MEMBER_EPOCH


def test_an_empty_group_accepts_commits_without_a_member(shard: ConsumerShard) -> None:
    shard.beat("m1")
    shard.beat("m1", LEAVES)
    assert commit(shard, "", -1) == [None]


def test_a_fetch_that_names_a_member_needs_its_epoch(shard: ConsumerShard) -> None:
    shard.beat("m1")
    check = shard.machine.check_reader
    check("g", CallerIdentity(""), -1)
    check("g", CallerIdentity("m1"), 2)
    for member_id, epoch, expected in (
        ("m1", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("m2", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(OttlaError) as caught:
            check("g", CallerIdentity(member_id), epoch)
        assert caught.value.code == expected


def test_offsets_of_topics_that_are_read_are_not_deleted(shard: ConsumerShard) -> None:
    shard.beat("m1")
    commit(shard, "m1", 2)
    commit(shard, "m1", 2, topic="u")
    requested = [TopicPartition("t", 0), TopicPartition("u", 0)]
    known = shard.machine.partitions("g")
    kept, gone = shard.take(decide_delete_offsets(shard.consumers(), known, requested))
    assert code(kept) == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert gone is None


def test_a_deleted_group_leaves_a_tombstone_for_each_of_its_records(shard: ConsumerShard) -> None:
    first = Client(shard, "m1", more={"topics": frozenset(), "regex": "t"})
    settle(first)
    commit(shard, "m1", first.epoch)
    with pytest.raises(OttlaError) as caught:
        decide_delete_group(shard.consumers(), shard.machine.partitions("g"))
    assert caught.value.code == ErrorCode.NON_EMPTY_GROUP
    first.leave()
    shard.take(decide_delete_group(shard.consumers(), shard.machine.partitions("g")))
    last = {entry.key: entry.value for entry in shard.log if isinstance(entry, Entry)}
    assert {type(decode_key(key)).__name__ for key, value in last.items() if value is not None} == set()
    assert list(shard.machine.groups()) == []
    assert shard.machine.history.of("g") == ()


def test_offsets_of_an_empty_group_expire_a_retention_time_after_its_last_member_left(shard: ConsumerShard) -> None:
    first = Client(shard, "m1")
    settle(first)
    commit(shard, "m1", first.epoch)
    for _ in range(2 * WEEK_S // 40):
        shard.at += 40
        shard.beat("m1", first.epoch)
    shard.sleep(1_000)
    assert not shard.consumers().members
    shard.sleep(WEEK_S - 2_000)
    assert shard.machine.offsets("g")
    shard.sleep(4_000)
    assert list(shard.machine.groups()) == []


def test_offsets_of_topics_that_no_member_reads_expire(shard: ConsumerShard) -> None:
    first = Client(shard, "m1")
    settle(first)
    commit(shard, "m1", first.epoch)
    commit(shard, "m1", first.epoch, topic="u")
    for _ in range((WEEK_S + 2_000) // 40):
        shard.sleep(40)
        shard.beat("m1", first.epoch)
    assert list(shard.machine.offsets("g")) == [TopicPartition("t", 0)]
    assert shard.consumers().members


@pytest.mark.story("offsets-expire-before-there-are-matches")
def test_no_offset_expires_while_an_expression_has_no_matches(shard: ConsumerShard) -> None:
    first = Client(shard, "m1", more={"topics": frozenset(), "regex": "t.*"})
    settle(first)
    commit(shard, "m1", first.epoch)
    for _ in range((WEEK_S + 2_000) // 40):
        shard.at += 40
        first.beat()
    first.leave()
    second = Client(shard, "m2", more={"topics": frozenset(), "regex": "t"})
    second.beat()
    shard.take(shard.machine._expire(shard.now))
    assert list(shard.machine.offsets("g")) == [TopicPartition("t", 0)]
    shard.resolve()
    shard.take(shard.machine._expire(shard.now))
    assert list(shard.machine.offsets("g")) == [TopicPartition("t", 0)]
    second.beat(regex="u")
    shard.resolve()
    shard.take(shard.machine._expire(shard.now))
    assert not shard.machine.offsets("g")


@pytest.mark.story("offsets-expire-before-there-are-matches")
def test_no_offset_is_deleted_while_an_expression_has_no_matches(shard: ConsumerShard) -> None:
    shard.beat("m1")
    commit(shard, "m1", 2)
    shard.beat("m2", topics=(), regex="t.*")
    shard.beat("m1", LEAVES)

    def delete() -> Any:
        known, requested = shard.machine.partitions("g"), [TopicPartition("t", 0)]
        return shard.take(decide_delete_offsets(shard.consumers(), known, requested))

    assert [code(outcome) for outcome in delete()] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    shard.resolve()
    shard.beat("m2", shard.member("m2").epoch, regex="u")
    shard.resolve()
    assert delete() == [None]


def test_an_empty_group_is_not_forgotten_while_it_has_offsets(shard: ConsumerShard) -> None:
    first = Client(shard, "m1")
    settle(first)
    commit(shard, "m1", first.epoch)
    first.leave()
    shard.sleep(3_600)
    assert shard.consumers().epoch == 3
    assert partitions(t=range(4)) == shard.beat("m2").assignment
