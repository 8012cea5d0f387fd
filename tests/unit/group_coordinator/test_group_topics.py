"""What of the metadata makes groups look at their topics again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from images import image_of, topic_id, with_topic

from ottla_core.cluster.image import Change, ClusterImage
from ottla_core.model import PartitionId
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


@pytest.mark.parametrize(
    ("change", "looks", "differs"),
    [
        (lambda image: with_partition(image, leader_epoch=9, isr=(1,)), False, False),
        (
            lambda image: with_partition(image, replicas=(7,)),
            True,
            None,
        ),
        (wider, True, True),
        (without_broker, False, False),
        (moved_broker, True, None),
        (lambda image: with_topic(image, "other", 1, number=3), True, False),
        (lambda image: replace(image, changed_partitions=None), True, False),
    ],
    ids=[
        "a leader",
        "replicas",
        "partitions",
        "a restart",
        "a rack",
        "another topic",
        "a snapshot",
    ],
)
def test_groups_look_again_if_their_topics_may_have_changed(
    change: Callable[[ClusterImage], ClusterImage], looks: bool, differs: bool | None
) -> None:
    topics = ImageTopics(IMAGE)
    version, before = topics.version, hash_of({"t"}, topics)
    new = change(IMAGE)
    old = IMAGE
    if change is wider:  # in two revisions, between which a group may look
        between = changed(IMAGE, Change(("partition", PartitionId(topic_id(1), 4)), IMAGE.partitions[PARTITION]))
        topics.on_image(IMAGE, between)
        hash_of({"t"}, topics)
        version, old = topics.version, between
        new = changed(between, Change(("topic", "t"), replace(between.topics["t"], partition_count=5)))
    topics.on_image(old, new)
    assert (topics.version > version) == looks
    if differs is not None:
        assert (hash_of({"t"}, topics) != before) == differs


def test_a_topic_that_comes_or_goes_makes_expressions_look_again() -> None:
    topics = ImageTopics(IMAGE)
    version = topics.matches_version
    topics.on_image(IMAGE, with_partition(IMAGE, leader_epoch=9))
    assert topics.matches_version == version
    more = with_topic(IMAGE, "other", 1, number=3)
    topics.on_image(IMAGE, more)
    assert topics.matches_version == version + 1
    topics.on_image(more, IMAGE)
    assert topics.matches_version == version + 2


def test_the_hash_is_that_of_the_topics_in_any_order_and_0_without_any() -> None:
    topics = ImageTopics(IMAGE)
    both = hash_of({"t", "u"}, topics)
    assert both == hash_of({"u", "t", "unknown"}, topics)
    assert both not in (hash_of({"t"}, topics), hash_of({"u"}, topics))
    assert hash_of(set(), topics) == hash_of({"unknown"}, topics) == 0
    assert -(2**63) <= both < 2**63


def test_the_rack_of_a_broker_that_restarts_is_kept() -> None:
    topics = ImageTopics(IMAGE)
    before = hash_of({"t", "u"}, topics)
    without = without_broker(IMAGE)
    topics.on_image(IMAGE, without)
    topics.on_image(without, replace(without, changed_partitions=None))
    assert hash_of({"t", "u"}, topics) == before
