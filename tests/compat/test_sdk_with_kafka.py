"""Groups of the SDK's consumers with Apache Kafka itself, over Kafka's protocol."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from group_members import Member
from peers.kafka.server import KafkaServer
from tests.compat.cells import DIFFERS
from waiting import wait_until

import ottla
from ottla.client.kafka.transport import KafkaTransport

PARTITIONS = 6
_names = (f"of-the-sdk-{n}" for n in itertools.count())

Start = Callable[..., Member]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with KafkaServer(tmp_path_factory.mktemp("kafka") / "node", settings=settings, heap="512m") as server:
        yield server.bootstrap


@pytest.fixture
def topic(kafka: str) -> str:
    name = next(_names)
    client = AdminClient({"bootstrap.servers": kafka})
    (made,) = client.create_topics([NewTopic(name, PARTITIONS, 1)]).values()
    made.result()
    return name


@pytest.fixture
def start(kafka: str, topic: str) -> Iterator[Start]:
    """Starts members of the group that is named like the topic; those that run at the end are stopped."""
    started: list[Member] = []

    def begin(**arguments: Any) -> Member:
        started.append(Member(consumer_of(kafka, topic, **arguments)))
        return started[-1]

    yield begin
    for member in started:
        member.stop()


@pytest.fixture
def admin(kafka: str) -> Iterator[ottla.Admin]:
    with ottla.Admin(kafka, _transport=KafkaTransport("admin")) as admin:
        yield admin


def consumer_of(kafka: str, topic: str, **arguments: Any) -> ottla.Consumer[Any, Any]:
    defaults: dict[str, Any] = {
        "group": topic,
        "auto_offset_reset": "earliest",
        "heartbeat_interval": 0.1,
        "session_timeout": 6.0,
        "auto_commit_interval": 0.2,
        "value": "bytes",
    }
    settings = {**defaults, **arguments}
    return ottla.Consumer(topic, bootstrap=kafka, _transport=KafkaTransport("member"), **settings)


def write(kafka: str, topic: str, count: int) -> list[tuple[str, int, int]]:
    """Write so many records in all partitions, and return where they are."""
    with ottla.Producer(kafka, topic=topic, _transport=KafkaTransport("writer")) as producer:
        sent = [producer.send(b"%d" % n, partition=n % PARTITIONS) for n in range(count)]
        return [(topic, where.partition, where.offset) for where in (each.result() for each in sent)]


def shares(members: list[Member]) -> list[int]:
    return sorted(len(member.owned) for member in members)


def read_by(members: list[Member]) -> Counter[tuple[str, int, int]]:
    return Counter(place for member in members for place in member.got)


@DIFFERS.cell
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_members_share_the_partitions_commit_and_leave(kafka: str, topic: str, start: Start, assignor: str) -> None:
    members = [start(assignors=assignor) for _ in range(2)]
    wait_until(lambda: shares(members) == [3, 3])
    places = write(kafka, topic, 200)
    wait_until(lambda: sum(read_by(members).values()) >= 200)
    members.append(start(assignors=assignor))
    wait_until(lambda: shares(members) == [2, 2, 2])
    places += write(kafka, topic, 100)
    wait_until(lambda: sum(read_by(members).values()) >= 300)
    assert read_by(members) == Counter(places)
    for member in members[1:]:
        member.stop()
    wait_until(lambda: shares(members[:1]) == [PARTITIONS], limit_s=5.0)  # before their sessions would end
    members[0].stop()
    with consumer_of(kafka, topic) as consumer:
        committed = consumer.committed(*((topic, n) for n in range(PARTITIONS)))
    ends = Counter(partition for _, partition, _ in places)
    assert {p.partition: at and at.offset for p, at in committed.items()} == ends


@DIFFERS.cell
def test_a_static_member_comes_back_without_a_rebalance(kafka: str, topic: str, start: Start) -> None:
    other, first = start(group_instance_id="other"), start(group_instance_id="one")
    wait_until(lambda: shares([other, first]) == [3, 3])
    before = (first.owned, other.consumer.group_metadata.generation)
    first.stop()
    again = start(group_instance_id="one")
    wait_until(lambda: len(again.owned) == 3)
    write(kafka, topic, 60)
    wait_until(lambda: len(again.got) >= 30)
    assert (again.owned, again.consumer.group_metadata.generation) == before


@DIFFERS.cell
def test_a_group_begins_where_the_topic_ends(kafka: str, topic: str, start: Start) -> None:
    write(kafka, topic, 60)
    members = [start(auto_offset_reset="latest") for _ in range(2)]
    wait_until(lambda: shares(members) == [3, 3])
    with consumer_of(kafka, topic, commit="manual") as asker:
        partitions = [(topic, n) for n in range(PARTITIONS)]
        wait_until(lambda: [at and at.offset for at in asker.committed(*partitions).values()] == [10] * PARTITIONS)
    places = write(kafka, topic, 60)
    wait_until(lambda: sum(read_by(members).values()) >= 60)
    assert read_by(members) == Counter(places)


@DIFFERS.cell
def test_groups_are_listed_described_and_deleted(kafka: str, topic: str, start: Start, admin: ottla.Admin) -> None:
    write(kafka, topic, 60)
    member = start(group_instance_id="one")
    wait_until(lambda: len(member.got) == 60 and len(admin.groups.committed(topic)) == PARTITIONS)
    (listed,) = [group for group in admin.groups.list() if group.name == topic]
    assert (listed.state, listed.protocol_type) == ("Stable", "consumer")
    assert topic not in [group.name for group in admin.groups.list(states=["Empty"])]
    described = admin.groups.describe(topic)
    (of_member,) = described.members
    assert (described.state, of_member.instance_id, len(of_member.partitions)) == ("Stable", "one", PARTITIONS)
    with pytest.raises(ottla.OttlaError, match="can't be deleted while it has members"):
        admin.groups.delete(topic)
    member.stop()
    assert admin.groups.kick(topic, "one", reason="it has ended").instance_id == "one"
    admin.groups.commit(topic, {(topic, 0): 3})
    assert len(admin.groups.delete_offsets(topic, partitions=[(topic, 1)])) == 1
    assert {p.partition: at for p, at in admin.groups.committed(topic).items()} == {0: 3, 2: 10, 3: 10, 4: 10, 5: 10}
    admin.groups.delete(topic)
    assert not admin.groups.exists(topic)
