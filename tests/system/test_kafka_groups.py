"""Consumer groups of unchanged Kafka clients: members share partitions, commits last, and whoever dies is replaced."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest
from kafka_groups import Aio, Confluent, Python
from waiting import wait_until

import ottla
from ottla_stack.cluster import Cluster

pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

_names = (f"groups-{n}" for n in itertools.count())
Member = Confluent | Python | Aio
MAKERS: list[Callable[..., Member]] = [Confluent, Python, Aio]
ALL = [pytest.param(maker, id=maker.__name__.lower()) for maker in MAKERS]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, group_coordinators=2) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = next(_names)
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(name, partitions=4)
    return name


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """Those that a test has started; all are closed at its end."""
    started: list[Member] = []
    yield started
    for member in started:
        member.close()


def write(cluster: Cluster, topic: str, first: int, count: int) -> set[bytes]:
    values = [b"%d" % n for n in range(first, first + count)]
    with ottla.Producer(cluster.bootstrap) as producer:
        for n, value in enumerate(values):
            producer.send(value, topic=topic, partition=n % 4)
    return set(values)


def all_partitions(members: list[Member]) -> list[int]:
    return sorted(p for member in members for p in member.assignment())


@pytest.mark.feature(63)
@pytest.mark.parametrize("maker", ALL)
def test_two_members_share_and_one_that_leaves_is_replaced(
    cluster: Cluster, topic: str, members: list[Member], maker: Callable[..., Member]
) -> None:
    group = f"share-{topic}"
    members += [maker(cluster.kafka_bootstrap, topic, group) for _ in range(2)]
    wait_until(lambda: [len(m.assignment()) for m in members] == [2, 2], limit_s=40)  # the first may be alone at first
    assert all_partitions(members) == [0, 1, 2, 3]
    wanted = write(cluster, topic, 0, 40)
    wait_until(lambda: {v for m in members for v in m.values()} == wanted, limit_s=30)
    assert sum(len(m.values()) for m in members) == 40
    members[0].close()
    wait_until(lambda: sorted(members[1].assignment()) == [0, 1, 2, 3], limit_s=30)
    more = write(cluster, topic, 40, 20)
    wait_until(lambda: more <= set(members[1].values()), limit_s=30)


@pytest.mark.feature(76)
@pytest.mark.parametrize("maker", ALL)
def test_a_group_goes_on_where_it_has_committed(
    cluster: Cluster, topic: str, members: list[Member], maker: Callable[..., Member]
) -> None:
    group = f"resume-{topic}"
    write(cluster, topic, 0, 40)
    first = maker(cluster.kafka_bootstrap, topic, group)
    members.append(first)
    wait_until(lambda: len(first.values()) == 40, limit_s=40)
    first.commit()
    first.close()
    write(cluster, topic, 40, 12)
    again = maker(cluster.kafka_bootstrap, topic, group)
    members.append(again)
    wait_until(lambda: len(again.values()) >= 12, limit_s=40)
    assert sorted(map(int, again.values())) == list(range(40, 52))


@pytest.mark.feature(63)
def test_clients_of_different_makers_are_one_group(cluster: Cluster, topic: str, members: list[Member]) -> None:
    group = f"mixed-{topic}"
    members += [maker(cluster.kafka_bootstrap, topic, group) for maker in MAKERS]
    wait_until(lambda: all_partitions(members) == [0, 1, 2, 3] and all(m.assignment() for m in members), limit_s=60)
    wanted = write(cluster, topic, 0, 60)
    wait_until(lambda: {v for m in members for v in m.values()} == wanted, limit_s=30)
    assert sum(len(m.values()) for m in members) == 60


@pytest.mark.feature(70)
def test_a_cooperative_rebalance_leaves_what_does_not_move_with_its_reader(
    cluster: Cluster, topic: str, members: list[Member]
) -> None:
    group = f"cooperative-{topic}"
    first = Confluent(cluster.kafka_bootstrap, topic, group, assignor="cooperative-sticky")
    members.append(first)
    wait_until(lambda: len(first.assignment()) == 4, limit_s=40)
    members.append(Confluent(cluster.kafka_bootstrap, topic, group, assignor="cooperative-sticky"))
    wait_until(lambda: [len(m.assignment()) for m in members] == [2, 2], limit_s=40)
    assert len(first.revoked) == 2, "only what moved was taken away"


@pytest.mark.rule(45)
@pytest.mark.parametrize("maker", [ALL[0], ALL[1]])
def test_a_static_member_that_comes_back_in_time_moves_nothing(
    cluster: Cluster, topic: str, members: list[Member], maker: Callable[..., Member]
) -> None:
    group = f"static-{topic}"
    members += [maker(cluster.kafka_bootstrap, topic, group, instance=f"i{n}") for n in range(2)]
    wait_until(lambda: all_partitions(members) == [0, 1, 2, 3], limit_s=40)
    before = [sorted(m.assignment()) for m in members]
    generation = described(cluster, group)
    members[1].close()
    members[1] = maker(cluster.kafka_bootstrap, topic, group, instance="i1")
    wait_until(lambda: sorted(members[1].assignment()) == before[1], limit_s=40)
    assert sorted(members[0].assignment()) == before[0]
    assert described(cluster, group) == generation


def described(cluster: Cluster, group: str) -> list[tuple[str, list[int]]]:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
    told = admin.describe_consumer_groups([group])[group].result(20)
    return sorted((m.group_instance_id, [p.partition for p in m.assignment.topic_partitions]) for m in told.members)


@pytest.mark.feature(77)
@pytest.mark.parametrize("maker", ALL)
def test_a_coordinator_that_dies_is_replaced_and_no_commit_is_lost(maker: Callable[..., Member]) -> None:
    with Cluster(brokers=3, group_coordinators=2) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("t", partitions=4)
        write(cluster, "t", 0, 40)
        member = maker(cluster.kafka_bootstrap, "t", "g")
        try:
            wait_until(lambda: len(member.values()) == 40, limit_s=40)
            member.commit()
            for coordinator in cluster.group_coordinators:  # whichever has the group
                coordinator.kill()
                time.sleep(0.5)
                coordinator.restart()
            write(cluster, "t", 40, 20)
            wait_until(lambda: len(member.values()) >= 60, limit_s=60)
            assert sum(member.committed(4).values()) == 40
        finally:
            member.close()


# ---- administration -------------------------------------------------------------------------------------------------


@pytest.mark.feature(65)
def test_groups_are_listed_described_and_deleted(cluster: Cluster, topic: str, members: list[Member]) -> None:
    group = f"admin-{topic}"
    write(cluster, topic, 0, 8)
    member = Confluent(cluster.kafka_bootstrap, topic, group)
    members.append(member)
    wait_until(lambda: len(member.values()) == 8, limit_s=40)
    member.commit()
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
    listed = admin.list_consumer_groups().result(20)
    assert [g.group_id for g in listed.valid].count(group) == 1
    told = admin.describe_consumer_groups([group])[group].result(20)
    assert told.state.name == "STABLE"
    assert told.coordinator.id in range(3)
    assert [sorted(p.partition for p in m.assignment.topic_partitions) for m in told.members] == [[0, 1, 2, 3]]
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.delete_consumer_groups([group])[group].result(20)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.NON_EMPTY_GROUP
    member.close()
    python = kafka.KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap.split(","))
    offsets = python.list_group_offsets(group)
    assert sum(o.offset for o in _flat(offsets).values()) == 8
    admin.delete_consumer_groups([group])[group].result(20)
    assert group not in [g.group_id for g in admin.list_consumer_groups().result(20).valid]
    python.close()


def _flat(offsets: Any) -> dict[Any, Any]:
    """One group's offsets, whether the client keys its answer by groups or not."""
    first = next(iter(offsets.values()))
    return first if isinstance(first, dict) else offsets


def test_offsets_are_altered_by_an_administrator_while_nobody_reads(
    cluster: Cluster, topic: str, members: list[Member]
) -> None:
    group = f"alter-{topic}"
    write(cluster, topic, 0, 40)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
    wanted = [confluent_kafka.TopicPartition(topic, p, 5) for p in range(4)]
    asked = confluent_kafka.ConsumerGroupTopicPartitions(group, wanted)
    told = admin.alter_consumer_group_offsets([asked])[group].result(20)
    assert [p.error for p in told.topic_partitions] == [None] * 4
    member = Python(cluster.kafka_bootstrap, topic, group)
    members.append(member)
    wait_until(lambda: len(member.values()) == 20, limit_s=40)


def committed(cluster: Cluster, group: str, topic: str) -> int:
    asked = confluent_kafka.Consumer({"bootstrap.servers": cluster.kafka_bootstrap, "group.id": group})
    try:
        return int(asked.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=20)[0].offset)
    finally:
        asked.close()


def test_an_instance_that_chooses_its_partitions_itself_commits(cluster: Cluster, topic: str) -> None:
    """librdkafka names its group.instance.id then, without being a member."""
    write(cluster, topic, 0, 8)
    group = f"chosen-{topic}"
    settings = {"bootstrap.servers": cluster.kafka_bootstrap, "group.id": group, "group.instance.id": "one"}
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    place = confluent_kafka.TopicPartition(topic, 0, 2)
    consumer.assign([place])
    (done,) = consumer.commit(offsets=[place], asynchronous=False)
    assert done.error is None
    consumer.close()
    assert committed(cluster, group, topic) == 2


def test_what_was_committed_in_a_topic_goes_with_it(cluster: Cluster, topic: str) -> None:
    """Another topic of its name begins at 0, and so does the group in it."""
    group = f"gone-{topic}"
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.kafka_bootstrap, "group.id": group})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    assert committed(cluster, group, topic) == 2
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.delete(topic)
        admin.topics.create(topic, partitions=4)
    wait_until(lambda: committed(cluster, group, topic) == confluent_kafka.OFFSET_INVALID, limit_s=20)


def test_many_groups_at_once(cluster: Cluster, topic: str, members: list[Member]) -> None:
    """Groups of all shards, on both coordinators, side by side."""
    write(cluster, topic, 0, 8)
    found: list[Member] = []
    started = [
        threading.Thread(target=lambda n=n: found.append(Python(cluster.kafka_bootstrap, topic, f"many-{topic}-{n}")))
        for n in range(6)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(30)
    members += found
    wait_until(lambda: [len(m.values()) for m in members] == [8] * 6, limit_s=60)
