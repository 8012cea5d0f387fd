"""Whatever the group looks like, every partition has one reader, and shares are as even as they can be."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from ottla.machines.assignors import ASSIGNORS, Assignments, Subscriber
from ottla_core.kafka_formats.consumer_protocol import Subscription
from ottla_core.model import TopicPartition

TOPICS = ["a", "b", "c"]
partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)
one_of_all = pytest.mark.parametrize("name", sorted(ASSIGNORS))
sticky = pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])


@st.composite
def groups(draw: st.DrawFn, alike: bool = False) -> list[Subscriber]:
    ids = draw(st.lists(st.text("xyz123", min_size=1, max_size=4), min_size=1, max_size=7, unique=True))
    some = st.lists(st.sampled_from(TOPICS), unique=True)
    same = draw(some)
    return [
        Subscriber(
            member_id,
            Subscription(tuple(same if alike else draw(some))),
            f"static-{n}" if draw(st.booleans()) else None,
        )
        for n, member_id in enumerate(ids)
    ]


def there(partitions_of: Mapping[str, int], members: list[Subscriber]) -> dict[str, int]:
    wanted = {topic for m in members for topic in m.subscription.topics}
    return {topic: count for topic, count in partitions_of.items() if topic in wanted}


def rejoining(members: list[Subscriber], made: Assignments, name: str, generation: int = 1) -> list[Subscriber]:
    """The members as they come back from a round in which they were given `made`."""
    return [
        m._replace(
            subscription=Subscription(
                m.subscription.topics,
                ASSIGNORS[name].user_data(made[m.member_id], generation),
                tuple(made[m.member_id]),
                generation,
            )
        )
        for m in members
    ]


def settled(name: str, partitions_of: Mapping[str, int], members: list[Subscriber]) -> tuple[Assignments, int]:
    """What the group comes to, and in how many rounds: a cooperative one needs one more for what moves."""
    made = ASSIGNORS[name].assign(partitions_of, members)
    for round_ in range(1, 5):
        again = ASSIGNORS[name].assign(partitions_of, rejoining(members, made, name, round_))
        if again == made:
            return made, round_
        made = again
    raise AssertionError("it never settles")


@pytest.mark.feature(71)
@one_of_all
@given(partitions_of=partition_counts, members=groups())
def test_every_partition_has_one_reader_who_wants_it(
    name: str, partitions_of: dict[str, int], members: list[Subscriber]
) -> None:
    made = ASSIGNORS[name].assign(there(partitions_of, members), members)
    given_out = [partition for some in made.values() for partition in some]
    assert set(made) == {m.member_id for m in members}
    assert sorted(given_out) == [
        TopicPartition(t, n) for t, count in sorted(there(partitions_of, members).items()) for n in range(count)
    ]
    assert all(p.topic in m.subscription.topics for m in members for p in made[m.member_id])
    assert made == ASSIGNORS[name].assign(there(partitions_of, members), members[::-1])


@pytest.mark.story("topics-searched-in-lists")
@one_of_all
def test_no_topic_is_searched_in_a_members_list_of_topics(name: str) -> None:
    class Unsearchable(tuple[str, ...]):
        def __contains__(self, topic: object) -> bool:
            raise AssertionError("each of n topics would be compared with n others")

    members = [Subscriber(member_id, Subscription(Unsearchable(TOPICS))) for member_id in "xy"]
    made = ASSIGNORS[name].assign(dict.fromkeys(TOPICS, 2), members)
    assert {member_id: len(some) for member_id, some in made.items()} == {"x": 3, "y": 3}


@pytest.mark.parametrize("name", ["roundrobin", "sticky", "cooperative-sticky"])
@given(partitions_of=partition_counts, members=groups(alike=True))
def test_shares_differ_by_one_where_all_read_the_same(
    name: str, partitions_of: dict[str, int], members: list[Subscriber]
) -> None:
    shares = [len(some) for some in ASSIGNORS[name].assign(there(partitions_of, members), members).values()]
    assert max(shares) - min(shares) <= 1


@sticky
@given(partitions_of=partition_counts, members=groups())
def test_a_sticky_share_can_not_be_made_more_even_by_one_move(
    name: str, partitions_of: dict[str, int], members: list[Subscriber]
) -> None:
    made = ASSIGNORS[name].assign(there(partitions_of, members), members)
    for fuller in members:
        for partition in made[fuller.member_id]:
            for emptier in members:
                if partition.topic in emptier.subscription.topics:
                    assert len(made[fuller.member_id]) - len(made[emptier.member_id]) <= 1


@sticky
@given(partitions_of=partition_counts, members=groups(alike=True), gone=st.integers(0, 6))
def test_who_stays_keeps_what_it_has(
    name: str, partitions_of: dict[str, int], members: list[Subscriber], gone: int
) -> None:
    partitions_of = there(partitions_of, members)
    made = ASSIGNORS[name].assign(partitions_of, members)
    left = [m for n, m in enumerate(members) if n != gone % len(members)]
    after = ASSIGNORS[name].assign(partitions_of, rejoining(left, made, name))
    for m in left:
        assert set(made[m.member_id]) <= set(after[m.member_id])


@sticky
@given(partitions_of=partition_counts, members=groups(alike=True))
def test_a_newcomer_takes_no_more_than_its_share(
    name: str, partitions_of: dict[str, int], members: list[Subscriber]
) -> None:
    partitions_of = there(partitions_of, members)
    made = ASSIGNORS[name].assign(partitions_of, members)
    newcomer = Subscriber("~new", members[0].subscription)
    after, _ = settled(name, partitions_of, [*rejoining(members, made, name), newcomer])
    moved = [p for m in members for p in made[m.member_id] if p not in after[m.member_id]]
    assert sorted(moved) == after["~new"]
    assert len(moved) == sum(partitions_of.values()) // (len(members) + 1)


@pytest.mark.feature(70)
@given(partitions_of=partition_counts, before=groups(), after=groups())
def test_cooperative_gives_nothing_that_another_still_owns(
    partitions_of: dict[str, int], before: list[Subscriber], after: list[Subscriber]
) -> None:
    name = "cooperative-sticky"
    made = ASSIGNORS[name].assign(there(partitions_of, before), before)
    held = {m.member_id: made.get(m.member_id, []) for m in after}
    coming = rejoining(after, held, name)
    given_out = ASSIGNORS[name].assign(there(partitions_of, after), coming)
    for m in after:
        others = {p for other, some in held.items() if other != m.member_id for p in some}
        assert not others & set(given_out[m.member_id])
    whole, _ = settled(name, there(partitions_of, after), coming)
    assert sorted(p for some in whole.values() for p in some) == sorted(
        TopicPartition(t, n) for t, count in there(partitions_of, after).items() for n in range(count)
    )


@sticky
def test_a_stale_claim_gives_way_to_a_newer_one(name: str) -> None:
    mine = (TopicPartition("a", 0), TopicPartition("a", 1))
    assignor = ASSIGNORS[name]

    def member(member_id: str, generation: int) -> Subscriber:
        return Subscriber(member_id, Subscription(("a",), assignor.user_data(mine, generation), mine, generation))

    made = assignor.assign({"a": 2}, [member("old", 3), member("young", 5)])
    assert len(made["young"]) == 1
    assert len(made["old"]) == (0 if assignor.cooperative else 1)  # for it is the other one's until that gives it up
    unreadable = Subscriber("odd", Subscription(("a",), b"\0\0\0\x7f"))
    assert sum(map(len, assignor.assign({"a": 2}, [unreadable, member("m", 1)]).values())) in (1, 2)


@pytest.mark.parametrize("theirs", [RangePartitionAssignor, RoundRobinPartitionAssignor])
@given(partitions_of=partition_counts, members=groups(alike=True))
def test_another_clients_leader_would_say_the_same(
    theirs: type[Any], partitions_of: dict[str, int], members: list[Subscriber]
) -> None:
    """With all members subscribed alike and static ones first: on others it goes wrong by itself."""
    partitions_of = there(partitions_of, members)
    cluster = SimpleNamespace(
        partitions_for_topic=lambda t: set(range(partitions_of[t])) if t in partitions_of else None
    )
    asked = [
        SimpleNamespace(
            member_id=m.member_id,
            group_instance_id=m.instance_id,
            metadata=SimpleNamespace(topics=list(m.subscription.topics)),
        )
        for m in sorted(members, key=lambda m: m.rank)
    ]
    said = {
        member_id: sorted(TopicPartition(t, n) for t, some in made.assigned_partitions for n in some)
        for member_id, made in theirs.assign(cluster, asked).items()
    }
    assert said == {m: sorted(some) for m, some in ASSIGNORS[theirs.name].assign(partitions_of, members).items()}
