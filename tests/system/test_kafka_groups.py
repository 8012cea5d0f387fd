"""Groups of unchanged Kafka clients beside what tests/compat tells of each: deaths, administration, many at once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest
from tests.compat.kafka_groups import Aio, Confluent, Python
from waiting import LIMIT_S, wait_until

import ottla
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

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


@pytest.mark.feature(77)
@pytest.mark.parametrize("maker", ALL)
def test_a_coordinator_that_dies_is_replaced_and_no_commit_is_lost(maker: Callable[..., Member]) -> None:
    with Cluster(brokers=3, group_coordinators=2) as cluster, ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create("t", partitions=4)
        write(cluster, "t", 0, 40)
        member = maker(cluster.bootstrap, "t", "g")
        try:
            wait_until(lambda: len(member.values()) == 40)
            member.commit()
            for coordinator in cluster.group_coordinators:  # whichever has the group
                coordinator.kill()
                wait_until(lambda c=coordinator: admin.groups.describe("g").coordinator != c.id)
                coordinator.restart()
            write(cluster, "t", 40, 20)
            wait_until(lambda: len(member.values()) >= 60)
            assert sum(member.committed(4).values()) == 40
        finally:
            member.close()


# ---- administration -------------------------------------------------------------------------------------------------


@pytest.mark.feature(65)
def test_groups_are_listed_described_and_deleted(cluster: Cluster, topic: str, members: list[Member]) -> None:
    group = f"admin-{topic}"
    write(cluster, topic, 0, 8)
    member = Confluent(cluster.bootstrap, topic, group)
    members.append(member)
    wait_until(lambda: len(member.values()) == 8)
    member.commit()
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    listed = admin.list_consumer_groups().result(LIMIT_S)
    assert [g.group_id for g in listed.valid].count(group) == 1
    told = admin.describe_consumer_groups([group])[group].result(LIMIT_S)
    assert told.state.name == "STABLE"
    assert told.coordinator.id in range(3)
    assert [sorted(p.partition for p in m.assignment.topic_partitions) for m in told.members] == [[0, 1, 2, 3]]
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.delete_consumer_groups([group])[group].result(LIMIT_S)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.NON_EMPTY_GROUP
    member.close()
    python = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    offsets = python.list_group_offsets(group)
    assert sum(o.offset for o in _flat(offsets).values()) == 8
    admin.delete_consumer_groups([group])[group].result(LIMIT_S)
    assert group not in [g.group_id for g in admin.list_consumer_groups().result(LIMIT_S).valid]
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
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = [confluent_kafka.TopicPartition(topic, p, 5) for p in range(4)]
    asked = confluent_kafka.ConsumerGroupTopicPartitions(group, wanted)
    told = admin.alter_consumer_group_offsets([asked])[group].result(LIMIT_S)
    assert [p.error for p in told.topic_partitions] == [None] * 4
    member = Python(cluster.bootstrap, topic, group)
    members.append(member)
    wait_until(lambda: len(member.values()) == 20)


def committed(cluster: Cluster, group: str, topic: str) -> int:
    asked = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        return int(asked.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=20)[0].offset)
    finally:
        asked.close()


def test_an_instance_that_chooses_its_partitions_itself_commits(cluster: Cluster, topic: str) -> None:
    """librdkafka names its group.instance.id then, without being a member."""
    write(cluster, topic, 0, 8)
    group = f"chosen-{topic}"
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "group.instance.id": "one"}
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
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    assert committed(cluster, group, topic) == 2
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.delete(topic)
        admin.topics.create(topic, partitions=4)
    wait_until(lambda: committed(cluster, group, topic) == confluent_kafka.OFFSET_INVALID)


def test_many_groups_at_once(cluster: Cluster, topic: str, members: list[Member]) -> None:
    """Groups of all shards, on both coordinators, side by side."""
    written = write(cluster, topic, 0, 8)
    found: list[Member] = []
    started = [
        threading.Thread(target=lambda n=n: found.append(Python(cluster.bootstrap, topic, f"many-{topic}-{n}")))
        for n in range(6)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(LIMIT_S)
    members += found
    assert len(found) == 6, "each has become a member"
    wait_until(lambda: [len(m.values()) for m in members] == [8] * 6)
    assert [sorted(m.values()) for m in members] == [sorted(written)] * 6
