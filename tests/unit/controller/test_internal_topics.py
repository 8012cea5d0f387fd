"""The topics of coordinators: made when one registers, and grown with the cluster step by step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from images import after, image_of, topic_id

from ottla_controller.machines.configs import Op, OpKind, Resource, ResourceKind, decide_alter_configs
from ottla_controller.machines.internal_topics import decide_internal_topic, unfinished
from ottla_controller.machines.topics import NewTopic, decide_create_topic, decide_delete_topic
from ottla_core.cluster import keys
from ottla_core.cluster.image import Broker, Change, ClusterImage, Coordinator, ResourceConfigs, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import INTERNAL_TOPICS

OFFSETS = "__consumer_offsets"


def registered(image: ClusterImage, kind: str = "group") -> ClusterImage:
    return changed(image, Change(keys.coordinator(kind, 1), Coordinator(kind, 1, 501, "host-1:9660")))


def changed(image: ClusterImage, *changes: Change) -> ClusterImage:
    return image.with_changes(changes, image.revision + 1)


def step(image: ClusterImage, kind: str) -> ClusterImage:
    """The next step, which must be one: what is unfinished for ever would be looked at for ever."""
    decision = decide_internal_topic(image, kind, topic_id=topic_id(1 + len(image.topics)))
    assert decision.response
    assert decision.writes
    return after(image, decision)


def grown(image: ClusterImage) -> ClusterImage:
    while kinds := unfinished(image):
        image = step(image, kinds[0])
    return image


def joined(image: ClusterImage) -> ClusterImage:
    """Every replica has caught up and is in the ISR."""
    return changed(image, *(Change(keys.partition(i), replace(p, isr=p.replicas)) for i, p in image.partitions.items()))


def offsets(image: ClusterImage) -> Topic:
    return image.topics[OFFSETS]


def test_no_topic_before_a_coordinator_of_its_kind_and_a_broker_are_there() -> None:
    assert unfinished(image_of()) == []
    assert unfinished(registered(image_of(0))) == []
    assert unfinished(registered(image_of())) == ["group"]
    assert unfinished(registered(image_of(), "txn")) == ["txn"]


@pytest.mark.parametrize(("kind", "name"), [("group", OFFSETS), ("txn", "__transaction_state")])
def test_the_topic_of_a_kind(kind: str, name: str) -> None:
    image = grown(registered(image_of(4), kind))
    assert image.topics.keys() == {name}
    assert image.topics[name].partition_count == 50
    assert image.topics[name].configs == {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
        "segment.bytes": str(100 << 20),
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    }
    assert {len(p.replicas) for p in image.partitions.values()} == {3}


def test_the_clusters_configs_say_how_many_partitions_and_replicas() -> None:
    wanted = {"offsets.topic.num.partitions": "7", "offsets.topic.replication.factor": "2"}
    image = grown(registered(changed(image_of(3), Change(keys.configs("broker", ""), ResourceConfigs(wanted)))))
    assert offsets(image).partition_count == 7
    assert {len(p.replicas) for p in image.partitions.values()} == {2}
    assert offsets(image).configs["min.insync.replicas"] == "1"
    more = {**wanted, "offsets.topic.num.partitions": "9"}
    assert unfinished(changed(image, Change(keys.configs("broker", ""), ResourceConfigs(more)))) == [], (
        "the number is for ever"
    )


def test_a_name_that_looks_alike_does_not_keep_it_from_being_made() -> None:
    image = image_of()
    image = after(image, decide_create_topic(image, NewTopic("__consumer.offsets", 1, 1), topic_id=topic_id(9)))
    assert OFFSETS in grown(registered(image)).topics


def test_replicas_follow_the_brokers_and_min_isr_follows_the_replicas() -> None:
    image = grown(registered(image_of(1)))
    assert {p.replicas for p in image.partitions.values()} == {(0,)}
    assert offsets(image).configs["min.insync.replicas"] == "1"
    for n in (1, 2):
        image = grown(changed(image, Change(keys.broker(n), Broker(n, 100 + n, f"d-{n}", f"h-{n}:1", fenced=False))))
        assert {len(p.replicas) for p in image.partitions.values()} == {n + 1}
        assert {p.leader for p in image.partitions.values()} == {0}
        assert {p.isr for p in image.partitions.values()} == {(0,)}, "who is added has still to copy"
        assert {p.partition_epoch for p in image.partitions.values()} == {n}
    preferred = Counter(p.replicas[0] for p in image.partitions.values())
    assert min(preferred[n] for n in range(3)) > 10, "who was there first is not to lead them all"
    assert offsets(image).configs["min.insync.replicas"] == "1", "or nothing could be committed meanwhile"
    image = grown(joined(image))
    assert offsets(image).configs["min.insync.replicas"] == "2"
    assert all(p.leader == p.replicas[0] for p in image.partitions.values()), "the work is spread, too"
    alone = changed(image, *(Change(keys.broker(n), None) for n in (1, 2)))
    assert unfinished(alone) == [], "nothing of it is taken back"


def test_new_replicas_are_spread() -> None:
    wanted = {"offsets.topic.num.partitions": "9"}
    image = grown(registered(changed(image_of(1), Change(keys.configs("broker", ""), ResourceConfigs(wanted)))))
    brokers = (Broker(n, 100 + n, f"d-{n}", f"h-{n}:1", fenced=False) for n in (1, 2, 3))
    image = grown(changed(image, *(Change(keys.broker(b.id), b) for b in brokers)))
    held = [b for p in image.partitions.values() for b in p.replicas]
    assert sum(held.count(n) for n in (1, 2, 3)) == 18
    assert all(5 <= held.count(n) <= 7 for n in (1, 2, 3))


def code_of(error: pytest.ExceptionInfo[OttlaError]) -> int:
    return error.value.code


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
def test_clients_neither_make_nor_delete_one(name: str) -> None:
    image = grown(registered(registered(image_of()), "txn"))
    with pytest.raises(OttlaError) as refused:
        decide_delete_topic(image, name)
    assert code_of(refused) == ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(OttlaError) as refused:
        decide_create_topic(image_of(), NewTopic(name), topic_id=topic_id(1))
    assert code_of(refused) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_what_keeps_commits_safe_can_not_be_altered() -> None:
    image = grown(registered(image_of()))
    resource = Resource(ResourceKind.TOPIC, OFFSETS)
    for name, value in (
        ("min.insync.replicas", "1"),
        ("unclean.leader.election.enable", "true"),
        ("cleanup.policy", "delete"),
        ("message.timestamp.type", "LogAppendTime"),
    ):
        for op in (Op(name, OpKind.SET, value), Op(name, OpKind.DELETE)):
            with pytest.raises(OttlaError) as refused:
                decide_alter_configs(image, resource, [op])
            assert code_of(refused) == ErrorCode.POLICY_VIOLATION
    assert decide_alter_configs(image, resource, [Op("segment.bytes", OpKind.SET, "1000000")]).writes
