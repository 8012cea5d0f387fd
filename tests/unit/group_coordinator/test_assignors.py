"""The assignors of consumer groups: balanced, complete, and as sticky as that allows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from groups import id_of

from ottla_core.event_loop.steps import finished
from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer import assignors
from ottla_group_coordinator.machines.consumer.assignors import ASSIGNORS, AssignedMember, Counts
from ottla_group_coordinator.machines.consumer.partitions import Partitions, count, each

T, U = id_of("t"), id_of("u")


def uniform(those: Mapping[str, AssignedMember], counts: Counts) -> Mapping[str, Partitions]:
    return finished(assignors.uniform(those, counts))


def range_(those: Mapping[str, AssignedMember], counts: Counts) -> Mapping[str, Partitions]:
    return finished(assignors.range_(those, counts))


def members(*names: str, topics: Any = (T,)) -> dict[str, AssignedMember]:
    return {name: AssignedMember(tuple(sorted(topics))) for name in names}


def after(found: Mapping[str, Partitions], those: Mapping[str, AssignedMember]) -> dict[str, AssignedMember]:
    return {name: member._replace(former=found.get(name, {})) for name, member in those.items()}


def check(found: Mapping[str, Partitions], those: Mapping[str, AssignedMember], counts: Counts) -> None:
    assert found.keys() == those.keys()
    given = [p for partitions in found.values() for p in each(partitions)]
    assert len(given) == len(set(given))
    read = {topic_id for member in those.values() for topic_id in member.topics}
    assert set(given) == {(topic_id, n) for topic_id in read for n in range(counts[topic_id])}
    for name, partitions in found.items():
        assert partitions.keys() <= set(those[name].topics)
        assert all(partitions.values()), "a topic without partitions is not named"


def moved(before: Mapping[str, Partitions], now: Mapping[str, Partitions]) -> int:
    had = {p: name for name, partitions in before.items() for p in each(partitions)}
    return sum(had.get(p, name) != name for name, partitions in now.items() for p in each(partitions))


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", range(20))
def test_every_partition_has_one_reader_that_reads_its_topic(name: str, seed: int) -> None:
    chance = random.Random(seed)
    topics = [TopicId(bytes([n] * 16)) for n in range(5)]
    those: dict[str, AssignedMember] = {}
    for step in range(15):
        counts = {topic_id: chance.randrange(1, 9) for topic_id in topics}
        if step % 3 == 0:
            those = {
                f"m{n}": AssignedMember(tuple(sorted(chance.sample(topics, chance.randrange(1, 5)))), former=former)
                for n in range(chance.randrange(1, 7))
                for former in [those[f"m{n}"].former if f"m{n}" in those else {}]
            }
        read = frozenset[TopicId]().union(*(member.topics for member in those.values()))
        counts = {topic_id: most for topic_id, most in counts.items() if topic_id in read}
        found = finished(ASSIGNORS[name](those, counts))
        check(found, those, counts)
        again = finished(ASSIGNORS[name](dict(reversed(those.items())), counts))
        assert found == again, "the order of members does not matter"
        those = after(found, those)


def test_uniform_gives_equal_members_equally_many() -> None:
    those = members("a", "b", "c", topics=(T, U))
    found = uniform(those, {T: 5, U: 6})
    check(found, those, {T: 5, U: 6})
    assert sorted(map(count, found.values())) == [3, 4, 4]


def test_uniform_moves_only_what_a_new_member_gets() -> None:
    first = uniform(members("a", "b"), {T: 9})
    those = after(first, members("a", "b", "c"))
    found = uniform(those, {T: 9})
    assert sorted(map(count, found.values())) == [3, 3, 3]
    assert moved(first, found) == 3
    assert uniform(after(found, those), {T: 9}) == found


def test_uniform_moves_nothing_of_those_that_stay() -> None:
    first = uniform(members("a", "b", "c"), {T: 10})
    found = uniform(after(first, members("b", "c")), {T: 10})
    assert all(set(each(first[name])) <= set(each(found[name])) for name in "bc")


def test_uniform_balances_members_that_read_different_topics() -> None:
    those = {**members("a", topics=(T,)), **members("b", "c", topics=(T, U))}
    found = uniform(those, {T: 4, U: 4})
    check(found, those, {T: 4, U: 4})
    assert sorted(map(count, found.values())) == [2, 3, 3]


def test_range_gives_co_partitioned_topics_to_one_member() -> None:
    found = range_(members("b", "a", topics=(T, U)), {T: 5, U: 5})
    assert found["a"] == {T: frozenset(range(3)), U: frozenset(range(3))}
    assert found["b"] == {T: frozenset({3, 4}), U: frozenset({3, 4})}


def test_range_keeps_the_place_of_a_static_member() -> None:
    those = {"z": AssignedMember((T,), "i1"), "a": AssignedMember((T,), "i2")}
    assert range_(those, {T: 2})["z"] == {T: frozenset({0})}
    again = {"b": AssignedMember((T,), "i1"), "a": those["a"]}
    assert range_(again, {T: 2})["b"] == {T: frozenset({0})}


def test_a_partition_that_two_members_had_goes_to_one() -> None:
    both = {T: frozenset({0, 1})}
    those = {name: AssignedMember((T,), former=both) for name in "ab"}
    check(uniform(those, {T: 2}), those, {T: 2})
