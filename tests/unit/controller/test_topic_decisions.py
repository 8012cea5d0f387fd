"""Creating, growing and deleting a topic: what is written, in which order, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from images import after, image_of, topic_id, with_topic

from ottla_controller.machines.decision import ReliedOn
from ottla_controller.machines.topics import (
    NewTopic,
    check_no_duplicates,
    decide_create_partitions,
    decide_create_topic,
    decide_delete_topic,
    decide_delete_topic_by_id,
    decide_remove_orphans,
)
from ottla_core.cluster.image import Change, ClusterImage, Partition, ResourceConfigs
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId

ID = topic_id(1)


def with_cluster_configs(image: ClusterImage, **configs: str) -> ClusterImage:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return image.with_changes([Change(("configs", "broker", ""), ResourceConfigs(named, mod_revision=150))], 210)


def refusal(image: ClusterImage, new: NewTopic) -> OttlaError:
    with pytest.raises(OttlaError) as refused:
        decide_create_topic(image, new, topic_id=ID)
    return refused.value


@pytest.mark.feature(81)
def test_a_topic_is_its_partition_keys_and_then_its_topic_key() -> None:
    decision = decide_create_topic(image_of(3), NewTopic("orders", 3, 1, {"retention.ms": "7d"}), topic_id=ID)
    *partitions, commit = [w.change for w in decision.writes]
    assert [c.key for c in partitions] == [("partition", PartitionId(ID, n)) for n in range(3)]
    assert [c.value for c in partitions] == [
        Partition((n,), n, 0, (n,), 0, directories={n: f"directory-{n}"}) for n in range(3)
    ]
    assert commit.key == ("topic", "orders")
    assert (commit.value.id, commit.value.partition_count) == (ID, 3)
    assert commit.value.configs == {"retention.ms": "604800000"}
    assert (decision.response.partitions, decision.response.replication_factor) == (3, 1)


def test_a_creation_relies_on_the_free_name_and_on_the_brokers_it_chose() -> None:
    decision = decide_create_topic(image_of(3), NewTopic("orders", 2, 1), topic_id=ID)
    first, second, commit = [w.relied_on for w in decision.writes]
    assert first == (ReliedOn(("broker", 0), create_revision=100),)
    assert second == (ReliedOn(("broker", 1), create_revision=101),)
    assert ReliedOn(("topic", "orders"), mod_revision=0) in commit
    assert ReliedOn(("configs", "broker", ""), mod_revision=0) in commit


def test_counts_that_are_left_open_come_from_the_clusters_configs() -> None:
    image = with_cluster_configs(image_of(3), num_partitions="5")
    assert decide_create_topic(image, NewTopic("orders"), topic_id=ID).response.partitions == 5
    assert decide_create_topic(image_of(3), NewTopic("orders"), topic_id=ID).response.partitions == 1
    three = with_cluster_configs(image_of(3), default_replication_factor="3")
    assert decide_create_topic(three, NewTopic("orders"), topic_id=ID).response.replication_factor == 3


@pytest.mark.feature(113)
def test_many_small_topics_spread_over_the_live_brokers() -> None:
    image = image_of(4, fenced=[3])
    for n in range(6):
        image = with_topic(image, f"topic{n}", number=n + 1)
    assert sorted(p.leader for p in image.partitions.values()) == [0, 0, 1, 1, 2, 2]


def test_explicit_replicas_stand_instead_of_the_counts() -> None:
    decision = decide_create_topic(image_of(3), NewTopic("t", assignments=[(1, (0,)), (0, (2,))]), topic_id=ID)
    assert [w.change.value.leader for w in decision.writes[:2]] == [2, 0]
    assert refusal(image_of(3), NewTopic("t", 2, -1, {}, [(0, (0,))])).code == ErrorCode.INVALID_REQUEST
    assert refusal(image_of(3), NewTopic("t", assignments=[(0, (9,))])).code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    two = decide_create_topic(image_of(3, fenced=[0]), NewTopic("t", assignments=[(0, (0, 1, 2))]), topic_id=ID)
    assert two.writes[0].change.value == Partition(
        (0, 1, 2), 1, 0, (1, 2), directories={1: "directory-1", 2: "directory-2"}
    )


@pytest.mark.feature(81)
def test_every_live_replica_of_a_new_partition_is_in_sync_and_the_first_leads() -> None:
    decision = decide_create_topic(image_of(3), NewTopic("t", 3, 3), topic_id=ID)
    partitions = [w.change.value for w in decision.writes[:3]]
    assert [p.leader for p in partitions] == [0, 1, 2]
    assert all(p.isr == p.replicas and sorted(p.replicas) == [0, 1, 2] for p in partitions)
    assert decision.response.replication_factor == 3


def test_more_replicas_than_live_brokers_are_refused() -> None:
    for image in (image_of(2), image_of(3, fenced=[1])):
        refused = refusal(image, NewTopic("t", 1, 3))
        assert (refused.code, "live brokers is 2" in refused.message) == (ErrorCode.INVALID_REPLICATION_FACTOR, True)


@pytest.mark.rule(9)
def test_min_insync_replicas_above_the_replication_factor_is_refused() -> None:
    refused = refusal(image_of(3), NewTopic("t", 1, 2, {"min.insync.replicas": "3"}))
    assert refused.code == ErrorCode.INVALID_CONFIG
    assert "above the replication factor of 2" in refused.message
    assert decide_create_topic(image_of(3), NewTopic("t", 1, 2, {"min.insync.replicas": "2"}), topic_id=ID).writes
    by_default = with_cluster_configs(image_of(3), min_insync_replicas="2")
    assert decide_create_topic(by_default, NewTopic("t", 1, 1), topic_id=ID).writes


@pytest.mark.parametrize(
    ("new", "code", "words"),
    [
        (NewTopic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "not valid"),
        (NewTopic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "not valid"),
        (NewTopic("x" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "250 characters"),
        (NewTopic("__consumer_offsets", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "internal"),
        (NewTopic("there.is", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        (NewTopic("there_is", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with there.is"),
        (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS, "0 partitions"),
        (NewTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS, "-2 partitions"),
        (NewTopic("t", 10_001, 1), ErrorCode.INVALID_PARTITIONS, "10001 partitions"),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "factor 0"),
        (NewTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR, "live brokers is 3"),
        (NewTopic("t", 1, 1, {"retention.hours": "1"}), ErrorCode.INVALID_CONFIG, "no topic config 'retention.hours'"),
        (NewTopic("t", 1, 1, {"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG, "retention.ms='soon'"),
    ],
)
def test_a_creation_that_can_not_be_is_refused_in_words(new: NewTopic, code: ErrorCode, words: str) -> None:
    error = refusal(with_topic(image_of(3), "there.is"), new)
    assert error.code == code
    assert words in error.message
    assert error.hint


def test_without_a_live_broker_nothing_is_created() -> None:
    error = refusal(image_of(2, fenced=[0, 1]), NewTopic("t", 1, 1))
    assert (error.code, error.hint) == (ErrorCode.INVALID_REPLICATION_FACTOR, "start a broker")


@pytest.mark.feature(165)
def test_partitions_are_added_after_the_old_ones_with_a_warning_that_keys_move() -> None:
    image = with_topic(image_of(3), "orders", 2)
    decision = decide_create_partitions(image, "orders", 4)
    assert [w.change.key for w in decision.writes] == [
        ("partition", PartitionId(ID, 2)),
        ("partition", PartitionId(ID, 3)),
        ("topic", "orders"),
    ]
    grown = after(image, decision)
    assert [p.leader for _, p in grown.partitions_of(grown.topics["orders"])] == [0, 1, 2, 0]
    assert "another partition than before" in decision.response.warning
    assert decision.writes[-1].relied_on == (ReliedOn(("topic", "orders"), mod_revision=201),)


@pytest.mark.feature(165)
@pytest.mark.parametrize(
    ("total", "words"),
    [(2, "already has 2 partitions"), (1, "the requested total is 1"), (0, "the requested total is 0")],
)
def test_partitions_are_never_taken_away(total: int, words: str) -> None:
    with pytest.raises(OttlaError, match=words) as refused:
        decide_create_partitions(with_topic(image_of(3), "orders", 2), "orders", total)
    assert refused.value.code == ErrorCode.INVALID_PARTITIONS


def test_added_partitions_lie_where_they_are_assigned() -> None:
    image = with_topic(image_of(3), "orders", 2)
    decision = decide_create_partitions(image, "orders", 4, [(2,), (0,)])
    grown = after(image, decision)
    assert [p.replicas for _, p in grown.partitions_of(grown.topics["orders"])][2:] == [(2,), (0,)]
    for assignments in ([(2,)], [(2,), (0,), (1,)], [(2, 0), (0, 1)], [(2,), (0, 1)], [(2,), (7,)], [(), ()]):
        with pytest.raises(OttlaError) as refused:
            decide_create_partitions(image, "orders", 4, assignments)
        assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_adding_partitions_to_what_is_not_there_or_too_many_is_refused() -> None:
    image = with_topic(image_of(3), "orders", 2)
    for name, total, code in [
        ("other", 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 10_001, ErrorCode.INVALID_PARTITIONS),
        ("__transaction_state", 60, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]:
        with pytest.raises(OttlaError) as refused:
            decide_create_partitions(image, name, total)
        assert refused.value.code == code


def test_a_deletion_takes_the_topic_key_first() -> None:
    image = with_topic(image_of(3), "orders", 2)
    decision = decide_delete_topic(image, "orders")
    assert [w.change for w in decision.writes] == [
        Change(("topic", "orders"), None),
        Change(("partition", PartitionId(ID, 0)), None),
        Change(("partition", PartitionId(ID, 1)), None),
    ]
    assert decision.writes[0].relied_on[0] == ReliedOn(("topic", "orders"), mod_revision=201)
    assert (after(image, decision).topics, after(image, decision).partitions) == ({}, {})


def test_a_deletion_by_id_takes_that_topic_whatever_its_name_is_now() -> None:
    image = with_topic(image_of(3), "orders", 2)
    assert decide_delete_topic_by_id(image, ID) == decide_delete_topic(image, "orders")
    with pytest.raises(OttlaError) as refused:
        decide_delete_topic_by_id(image, topic_id(9))
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_deletion_is_refused_where_there_is_nothing_or_it_is_switched_off() -> None:
    image = with_topic(image_of(3), "orders", 2)
    for state, name, code in [
        (image, "other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (image, "__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (with_cluster_configs(image, delete_topic_enable="false"), "orders", ErrorCode.TOPIC_DELETION_DISABLED),
    ]:
        with pytest.raises(OttlaError) as refused:
            decide_delete_topic(state, name)
        assert refused.value.code == code


def test_partitions_that_no_topic_has_are_orphans() -> None:
    image = with_topic(image_of(3), "orders", 2)
    half_created = PartitionId(topic_id(9), 0)
    half_grown = PartitionId(ID, 2)
    left = [Change(("partition", p), Partition((0,), 0, 0, (0,))) for p in (half_created, half_grown)]
    decision = decide_remove_orphans(image.with_changes(left, 300))
    assert {w.change for w in decision.writes} == {Change(c.key, None) for c in left}
    assert decision.response == 2
    assert decide_remove_orphans(image).writes == ()


@pytest.mark.rule(23)
def test_a_topic_that_is_created_again_has_another_id_and_none_of_the_old_partitions() -> None:
    image = with_topic(image_of(3), "orders", 2)
    gone = after(image, decide_delete_topic(image, "orders"))
    again = with_topic(gone, "orders", 1, number=2)
    assert again.topics["orders"].id == topic_id(2)
    assert set(again.partitions) == {PartitionId(topic_id(2), 0)}


def test_a_request_names_a_topic_once() -> None:
    check_no_duplicates(["a", "b"])
    with pytest.raises(OttlaError, match="'a' twice"):
        check_no_duplicates(["a", "b", "a"])


def test_a_broker_that_restarted_is_another_one() -> None:
    image = image_of(1)
    reborn = image.with_changes([Change(("broker", 0), replace(image.brokers[0], epoch=250))], 250)
    decision = decide_create_topic(reborn, NewTopic("t", 1, 1), topic_id=ID)
    assert decision.writes[0].relied_on == (ReliedOn(("broker", 0), create_revision=250),)
