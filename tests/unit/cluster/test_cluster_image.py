"""An image is a value: a change makes the next one and leaves it as it was."""

from __future__ import annotations

from random import Random

from ottla_core.cluster import keys
from ottla_core.cluster.image import (
    Broker,
    BrokerIds,
    Change,
    ClusterImage,
    Controller,
    Coordinator,
    Partition,
    ProducerIds,
    ResourceConfigs,
    Shard,
    Topic,
)
from ottla_core.model import PartitionId, TopicId

OLD, NEW = TopicId(b"o" * 16), TopicId(b"n" * 16)


def put_topic(name: str, topic_id: TopicId, partitions: int = 1) -> list[Change]:
    """As a controller creates one: the partitions first and the topic last."""
    of_partitions = [
        Change(keys.partition(PartitionId(topic_id, n)), Partition(replicas=(1,), leader=1)) for n in range(partitions)
    ]
    return [*of_partitions, Change(keys.topic(name), Topic(name, topic_id, partitions))]


def test_changes_make_a_new_image_and_leave_the_old_one() -> None:
    empty = ClusterImage("c")
    one = empty.with_changes(put_topic("t", OLD, 2), revision=5)
    two = one.with_changes([Change(keys.broker(1), Broker(1, 6, "d", "h:1"))], revision=6)
    assert (empty.revision, empty.topics, empty.partitions) == (0, {}, {})
    assert (one.revision, list(one.topics), one.brokers) == (5, ["t"], {})
    assert [p.partition for p, _ in two.partitions_of(two.topics["t"])] == [0, 1]
    assert two.topics is one.topics, "what did not change is shared"


def test_a_topic_that_was_created_again_is_another_one() -> None:
    """Deleted and recreated within one batch: the old id finds nothing, though the name is back (KIP-516)."""
    image = ClusterImage("c").with_changes(put_topic("t", OLD), revision=5)
    again = image.with_changes([Change(keys.topic("t"), None), *put_topic("t", NEW, 3)], revision=9)
    assert again.topic_by_id(OLD) is None
    assert again.topic_by_id(NEW) == again.topics["t"]
    assert len(again.partitions_of(again.topics["t"])) == 3
    assert PartitionId(OLD, 0) in again.partitions, "until the controller has swept it up"
    swept = again.with_changes([Change(keys.partition(PartitionId(OLD, 0)), None)], revision=10)
    assert {p.topic_id for p in swept.partitions} == {NEW}


def test_a_topic_put_over_another_id_takes_the_name_along() -> None:
    """A follower that took a snapshot in between sees no deletion."""
    image = ClusterImage("c").with_changes([*put_topic("t", OLD), *put_topic("t", NEW)], revision=5)
    assert image.topic_names == {NEW: "t"}


def test_what_is_deleted_is_as_if_it_had_never_been() -> None:
    changes = [
        Change(keys.CONTROLLER, Controller(1, "h:1", 3)),
        Change(keys.SEQ, 7),
        Change(keys.PRODUCER_IDS, ProducerIds(1000, 3)),
        Change(keys.BROKER_IDS, BrokerIds(3, {"d": 2}, 3)),
        Change(keys.broker(2), Broker(2, 3, "d", "h:2", fenced=False)),
        Change(keys.configs("broker", ""), ResourceConfigs({"a": "b"})),
        Change(keys.coordinator("group", 1), Coordinator("group", 1, 3, "h:4")),
        Change(keys.shard("group", 7), Shard(1, 3, 1)),
        *put_topic("t", OLD),
    ]
    full = ClusterImage("c").with_changes(changes, revision=3)
    assert full.live_brokers().keys() == {2}
    assert full.configs["broker", ""].values == {"a": "b"}
    assert full.with_changes([Change(change.key, None) for change in changes], revision=4) == ClusterImage("c", 4)
    assert full.with_changes([Change(keys.broker(9), None)], revision=4).brokers == full.brokers


def test_a_fenced_broker_is_registered_and_not_live() -> None:
    image = ClusterImage("c").with_changes([Change(keys.broker(1), Broker(1, 3, "d", "h:1"))], revision=3)
    assert image.brokers[1].fenced
    assert image.live_brokers() == {}


def test_a_shard_is_owned_by_one_life_of_a_coordinator() -> None:
    here = Change(keys.coordinator("group", 1), Coordinator("group", 1, 3, "h:4"))
    image = ClusterImage("c").with_changes([here, Change(keys.shard("group", 7), Shard(1, 3, 1))], revision=3)
    owner = image.owner_of("group", 7)
    assert owner is not None
    assert owner.address == "h:4"
    assert image.owner_of("group", 8) is image.owner_of("txn", 7) is None
    reborn = Change(here.key, Coordinator("group", 1, 9, "h:4"))
    assert image.with_changes([reborn], revision=9).owner_of("group", 7) is None
    assert image.with_changes([Change(here.key, None)], revision=9).owner_of("group", 7) is None


def test_an_image_knows_which_partitions_may_differ_from_the_one_before() -> None:
    random = Random(7)
    image, names = ClusterImage("c"), ("t", "u", "v")
    assert image.changed_partitions is None, "of the first one nothing is known"
    for revision in range(1, 400):
        changes: list[Change] = []
        for _ in range(random.randrange(1, 4)):
            name, count = random.choice(names), random.randrange(1, 5)
            topic_id = TopicId((name + random.choice("ab")).encode() * 8)
            partition = Partition(replicas=(1,), leader=random.randrange(2), leader_epoch=revision)
            changes += random.choice(
                [
                    put_topic(name, topic_id, count),
                    [Change(keys.topic(name), None)],
                    [Change(keys.partition(PartitionId(topic_id, count)), random.choice([partition, None]))],
                    [Change(keys.broker(1), Broker(1, revision, "d", "h:1"))],
                ]
            )
        before, image = image, image.with_changes(changes, revision)
        everywhere = {*before.partitions, *image.partitions}
        differ = {id_ for id_ in everywhere if seen_in(before, id_) is not seen_in(image, id_)}
        differ |= {id_ for id_ in everywhere if before.partitions.get(id_) is not image.partitions.get(id_)}
        assert image.changed_partitions is not None
        assert differ <= image.changed_partitions.keys()
        changed_topics = {id_.topic_id for id_ in differ} & image.topic_names.keys()
        assert all(image.topic_revisions[topic_id] == revision for topic_id in changed_topics)
        assert image.topic_revisions.keys() <= image.topic_names.keys(), "what is deleted takes no room"
        if all(change.key[0] == "broker" for change in changes):
            assert not image.changed_partitions
            assert image.topic_revisions is before.topic_revisions
            assert image.topics_revision == before.topics_revision
        assert image.topics_revision == revision or not differ


def seen_in(image: ClusterImage, partition_id: PartitionId) -> Topic | None:
    """The topic by which it is there."""
    topic = image.topic_by_id(partition_id.topic_id)
    return topic if topic is not None and partition_id.partition < topic.partition_count else None
