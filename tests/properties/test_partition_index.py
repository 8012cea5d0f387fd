"""The index against a walk through everything, after any change: of partitions, topics, brokers, configs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from images import topic_id
from partitions import broker

from ottla_controller.machines import partition_index
from ottla_controller.machines.election import needs_election
from ottla_controller.machines.partition_index import PartitionIndex
from ottla_core.cluster.image import Change, ClusterImage, Partition, ResourceConfigs, Restored, Topic
from ottla_core.model import NO_LEADER, PartitionId

BROKERS = 5
TOPICS = 4
STATES: tuple[Callable[[Partition], bool], ...] = (
    partition_index.leaderless,
    partition_index.unpreferred,
    partition_index.under_replicated,
    partition_index.with_elr,
    partition_index.without_eligible,
)


class Changes:
    """Whatever may change in an image, also what no controller would write."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.image = ClusterImage("test")

    def step(self) -> None:
        kinds = [self.partitions, self.partitions, self.brokers, self.topic, self.configs, self.restored, self.snapshot]
        changes = self.random.choice(kinds)()
        revision = self.image.revision + 1
        whole = self.random.random() < 0.1
        self.image = self.image.with_changes(changes, revision)
        if whole:
            self.image = replace(self.image, changed_partitions=None)

    def partitions(self) -> list[Change]:
        ids = {PartitionId(topic_id(self.random.randrange(TOPICS)), self.random.randrange(3)) for _ in range(3)}
        return [Change(("partition", id_), self.partition()) for id_ in ids]

    def partition(self) -> Partition | None:
        replicas = tuple(self.random.sample(range(BROKERS), 3))
        isr = replicas[: self.random.randrange(4)]
        elr = tuple(b for b in replicas if b not in isr and self.random.random() < 0.4)
        leader = self.random.choice([*isr, NO_LEADER])
        restored = self.image.restored.count
        made = Partition(replicas, leader, isr=isr, elr=elr, restored=restored, mod_revision=self.image.revision)
        return made if self.random.random() < 0.8 else None

    def brokers(self) -> list[Change]:
        ids = self.random.sample(range(BROKERS), self.random.randint(1, 2))
        return [Change(("broker", n), self.broker(n)) for n in ids]

    def broker(self, number: int) -> Any:
        fields: dict[str, Any] = {
            name: self.random.random() < 0.2 for name in ("fenced", "shutting_down", "read_only", "unclean")
        }
        ahead_of = self.image.revision if self.random.random() < 0.05 else None
        registered = broker(number, epoch=self.image.revision, ahead_of=ahead_of, **fields)
        return registered if self.random.random() < 0.8 else None

    def topic(self) -> list[Change]:
        number = self.random.randrange(TOPICS)
        configs = {"unclean.leader.election.enable": self.random.choice(["true", "false"])}
        made = Topic(f"t{number}", topic_id(number), 3, configs, self.image.revision)
        return [Change(("topic", made.name), made if self.random.random() < 0.8 else None)]

    def configs(self) -> list[Change]:
        values = {"unclean.leader.election.enable": self.random.choice(["true", "false"])}
        return [Change(("configs", "broker", ""), ResourceConfigs(values, self.image.revision))]

    def restored(self) -> list[Change]:
        if self.random.random() < 0.8:
            return []
        return [Change(("restored",), Restored(self.image.restored.count + 1, self.image.revision + 1))]

    def snapshot(self) -> list[Change]:
        return []


@pytest.mark.parametrize("seed", range(30))
def test_the_index_finds_what_a_walk_finds_and_all_that_may_need_an_election(seed: int) -> None:
    world, index = Changes(Random(seed)), PartitionIndex()
    due: set[PartitionId] = set()
    found = 0
    for _ in range(200):
        old = world.image
        world.step()
        index.follow(old, world.image)
        partitions = world.image.partitions
        for n in range(BROKERS):
            assert index.of(n) == {id_ for id_, p in partitions.items() if n in p.replicas}
        for state in STATES:
            assert index.where(state) == {id_ for id_, p in partitions.items() if state(p)}
        assert +index.preferred == Counter(p.replicas[0] for p in partitions.values())
        due |= index.concerned(old, world.image)
        left = set(needs_election(world.image))
        assert left <= due, f"seed {seed}"
        assert left == set(needs_election(world.image, among=due))
        found += len(left)
        due = left
    assert found, "or this shows nothing"


def test_an_image_that_was_missed_or_failed_half_way_is_made_up_for() -> None:
    ids = [PartitionId(topic_id(1), n) for n in range(4)]
    images = [ClusterImage("test")]
    for n, id_ in enumerate(ids):
        value = Partition((n, n + 1), n) if n != 2 else "no partition"
        images.append(images[-1].with_changes([Change(("partition", id_), value)], n))
    images.append(images[-1].with_changes([Change(("partition", ids[2]), None)], 5))
    index = PartitionIndex()
    index.follow(images[0], images[1])
    index.follow(images[1], images[2])
    with pytest.raises(AttributeError):
        index.follow(images[2], images[3])
    assert index.concerned(images[2], images[3]) == set(ids[:3])
    index.follow(images[4], images[5])
    assert {n: set(index.of(n)) for n in range(4)} == {0: {ids[0]}, 1: set(ids[:2]), 2: {ids[1]}, 3: {ids[3]}}


def test_what_did_not_change_is_not_looked_at() -> None:
    ids = [PartitionId(topic_id(1), n) for n in range(100)]
    changes = [Change(("broker", n), broker(n)) for n in range(4)]
    changes += [Change(("partition", id_), Partition((n % 4, (n + 1) % 4), n % 4)) for n, id_ in enumerate(ids)]
    image, index = ClusterImage("test").with_changes(changes, 1), PartitionIndex()
    index.follow(ClusterImage("test"), image)
    one = image.with_changes([Change(("partition", ids[7]), None)], 2)
    index.follow(image, one)
    assert index.concerned(image, one) == {ids[7]}
    death = one.with_changes([Change(("broker", 2), None)], 3)
    index.follow(one, death)
    assert index.concerned(one, death) == {id_ for id_ in ids if id_.partition % 4 in (1, 2)}
    configured = death.with_changes([Change(("configs", "group", "g"), ResourceConfigs({}))], 4)
    index.follow(death, configured)
    assert index.concerned(death, configured) == set()
