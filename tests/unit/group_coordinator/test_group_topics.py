"""What of the metadata makes groups look at their topics again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from images import image_of, topic_id, with_topic

from ottla_core.cluster.image import Change, ClusterImage
from ottla_core.event_loop.steps import finished
from ottla_core.model import PartitionId
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.topics import ImageTopics, hash_of

IMAGE = with_topic(with_topic(image_of(3, racks=["a", "b", "c"]), "t", 4, number=1), "u", 4, number=2)
PARTITION = PartitionId(topic_id(1), 0)


def changed(image: ClusterImage, *changes: Change) -> ClusterImage:
    return image.with_changes(changes, image.revision + 1)


def with_partition(image: ClusterImage, **fields: object) -> ClusterImage:
    partition = replace(image.partitions[PARTITION], **fields)  # type: ignore[arg-type]  # a test names the fields
    return changed(image, Change(("partition", PARTITION), partition))


def wider(image: ClusterImage) -> ClusterImage:
    """The topic has a fifth partition: first the partition, then the number."""
    added = PartitionId(topic_id(1), 4)
    image = changed(image, Change(("partition", added), image.partitions[PARTITION]))
    return changed(image, Change(("topic", "t"), replace(image.topics["t"], partition_count=5)))


def without_broker(image: ClusterImage) -> ClusterImage:
    return changed(image, Change(("broker", 0), None))


def moved_broker(image: ClusterImage) -> ClusterImage:
    return changed(image, Change(("broker", 0), replace(image.brokers[0], rack="z")))


def topics_of(image: ClusterImage) -> ImageTopics:
    """Return the topics of the image, all of them hashed."""
    topics = ImageTopics(image)
    finished(topics.renew())
    return topics


def take(topics: ImageTopics, old: ClusterImage, new: ClusterImage) -> None:
    topics.on_image(old, new)
    finished(topics.renew())


@pytest.mark.parametrize(
    ("change", "looks", "differs"),
    [
        (lambda image: with_partition(image, leader_epoch=9, isr=(1,)), False, False),
        (
            lambda image: with_partition(image, replicas=(7,)),
            True,
            True,
        ),
        (
            lambda image: changed(
                image, Change(("partition", PartitionId(topic_id(9), 0)), image.partitions[PARTITION])
            ),
            False,
            False,
        ),
        (wider, True, True),
        (without_broker, False, False),
        (moved_broker, True, True),
        (lambda image: with_topic(image, "other", 1, number=3), True, False),
        (lambda image: replace(image, changed_partitions=None), False, False),
    ],
    ids=[
        "a leader",
        "replicas",
        "a partition of a topic that is not there yet",
        "partitions",
        "a restart",
        "a rack",
        "another topic",
        "a snapshot",
    ],
)
def test_groups_look_again_if_their_topics_may_have_changed(
    change: Callable[[ClusterImage], ClusterImage], looks: bool, differs: bool
) -> None:
    topics = topics_of(IMAGE)
    version, before = topics.version, hash_of({"t"}, topics)
    new = change(IMAGE)
    old = IMAGE
    if change is wider:  # in two revisions, between which a group may look
        between = changed(IMAGE, Change(("partition", PartitionId(topic_id(1), 4)), IMAGE.partitions[PARTITION]))
        take(topics, IMAGE, between)
        hash_of({"t"}, topics)
        version, old = topics.version, between
        new = changed(between, Change(("topic", "t"), replace(between.topics["t"], partition_count=5)))
    take(topics, old, new)
    assert (topics.version > version) == looks
    assert (hash_of({"t"}, topics) != before) == differs


def test_a_topic_that_comes_or_goes_makes_expressions_look_again() -> None:
    topics = topics_of(IMAGE)
    version = topics.matches_version
    topics.on_image(IMAGE, with_partition(IMAGE, leader_epoch=9))
    assert topics.matches_version == version
    more = with_topic(IMAGE, "other", 1, number=3)
    topics.on_image(IMAGE, more)
    assert topics.matches_version == version + 1
    topics.on_image(more, IMAGE)
    assert topics.matches_version == version + 2


def test_the_hash_is_that_of_the_topics_in_any_order_and_0_without_any() -> None:
    topics = topics_of(IMAGE)
    both = hash_of({"t", "u"}, topics)
    assert both == hash_of({"u", "t", "unknown"}, topics)
    assert both not in (hash_of({"t"}, topics), hash_of({"u"}, topics))
    assert hash_of(set(), topics) == hash_of({"unknown"}, topics) == 0
    assert -(2**63) <= both < 2**63


def test_the_rack_of_a_broker_that_restarts_is_kept() -> None:
    topics = topics_of(IMAGE)
    before = hash_of({"t", "u"}, topics)
    without = without_broker(IMAGE)
    take(topics, IMAGE, without)
    take(topics, without, replace(without, changed_partitions=None))
    assert hash_of({"t", "u"}, topics) == before


def test_groups_look_again_once_all_that_has_changed_is_hashed() -> None:
    topics = topics_of(IMAGE)
    version, before = topics.version, hash_of({"t", "u"}, topics)
    topics.on_image(IMAGE, wider(IMAGE))
    assert topics.is_old
    assert (topics.version, hash_of({"t", "u"}, topics)) == (version, before)
    finished(topics.renew())
    assert not topics.is_old
    assert topics.version == version + 1
    assert hash_of({"t", "u"}, topics) != before


@pytest.mark.story("new-topic-without-readers")
def test_groups_look_at_a_new_topic_also_if_one_of_them_has_asked_for_its_hash_before() -> None:
    topics = topics_of(IMAGE)
    version, new = topics.version, with_topic(IMAGE, "new", 1, number=3)
    topics.on_image(IMAGE, new)
    assert hash_of({"new"}, topics) == 0, "no decision hashes topics"
    finished(topics.renew())
    assert topics.version == version + 1
    assert hash_of({"new"}, topics) != 0


def test_a_group_that_was_just_loaded_does_not_look_before_topics_are_hashed() -> None:
    assert ImageTopics(IMAGE).version == ConsumerGroup("g").seen.version
    assert topics_of(IMAGE).version > 0


def test_what_changes_while_topics_are_hashed_is_hashed_as_well() -> None:
    topics = topics_of(IMAGE)
    hash_of({"t", "u"}, topics)
    moved = moved_broker(IMAGE)
    topics.on_image(IMAGE, moved)
    renewing = topics.renew()
    next(renewing)
    between = changed(moved, Change(("partition", PARTITION), replace(moved.partitions[PARTITION], replicas=(7,))))
    topics.on_image(moved, between)
    finished(renewing)
    assert not topics.is_old
    fresh = topics_of(between)
    assert hash_of({"t", "u"}, topics) == hash_of({"t", "u"}, fresh)


def test_another_rack_concerns_only_topics_with_a_replica_there() -> None:
    apart = PartitionId(topic_id(2), 0)
    image = with_topic(with_topic(image_of(3, racks=["a", "b", "c"]), "t", 4, number=1), "u", 1, number=2)
    image = changed(image, Change(("partition", apart), replace(image.partitions[apart], replicas=(1,), isr=(1,))))
    topics = topics_of(image)
    before = [hash_of({name}, topics) for name in "tu"]
    topics.on_image(image, moved_broker(image))
    assert len(list(topics.renew())) == 1, "t alone is hashed again"
    assert [hash_of({name}, topics) != was for name, was in zip("tu", before, strict=True)] == [True, False]


def test_groups_do_not_look_again_if_every_hash_is_as_it_was() -> None:
    topics = topics_of(IMAGE)
    version, before = topics.version, hash_of({"t", "u"}, topics)
    moved = moved_broker(IMAGE)
    topics.on_image(IMAGE, moved)
    topics.on_image(moved, changed(moved, Change(("broker", 0), IMAGE.brokers[0])))
    finished(topics.renew())
    assert (topics.version, hash_of({"t", "u"}, topics)) == (version, before)


def test_groups_do_not_look_again_if_replicas_move_between_brokers_without_racks() -> None:
    image = with_topic(image_of(3), "t", 4, number=1)
    topics = topics_of(image)
    version = topics.version
    take(topics, image, with_partition(image, replicas=(7,)))
    assert topics.version == version


def test_a_topic_is_hashed_in_steps() -> None:
    wide = with_topic(IMAGE, "wide", 5_000, number=3)
    topics = topics_of(IMAGE)
    topics.on_image(IMAGE, wide)
    assert len(list(topics.renew())) > 5


def test_a_deleted_topic_has_no_hash() -> None:
    topics = topics_of(IMAGE)
    take(topics, IMAGE, replace(IMAGE, changed_partitions=None))
    hash_of({"t", "u"}, topics)
    take(topics, IMAGE, ClusterImage("c", revision=IMAGE.revision + 1))
    assert not topics._hashes
