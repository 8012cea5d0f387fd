"""The SDK's consumers in groups, over real coordinators: they share, take over, survive kills, and mix with others."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from group_members import Diary, Member
from tests.compat.kafka_groups import Confluent, Python
from waiting import wait_until

import ottla
from ottla.errors import WakeupError
from ottla_core.model import TopicPartition
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

WAIT = 60.0
PARTITIONS = 6
LEAST_SESSION_S = 6.0
_names = (f"shared-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, group_coordinators=2) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = next(_names)
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(name, partitions=PARTITIONS)
    return name


Start = Callable[..., Member]


@pytest.fixture
def start(bootstrap: str, topic: str) -> Iterator[Start]:
    """Starts members of the group that is named like the topic; those that run at the end are stopped."""
    started: list[Member] = []

    def begin(**arguments: Any) -> Member:
        started.append(Member(consumer_of(bootstrap, topic, **arguments)))
        return started[-1]

    yield begin
    for member in started:
        member.stop()


def consumer_of(bootstrap: str, topic: str, **arguments: Any) -> ottla.Consumer[Any, Any]:
    defaults = {
        "bootstrap": bootstrap,
        "group": topic,
        "auto_offset_reset": "earliest",
        "heartbeat_interval": 0.1,
        "session_timeout": LEAST_SESSION_S,
        "auto_commit_interval": 0.2,
        "value": "bytes",
    }
    topics = () if "pattern" in arguments else (topic,)
    return ottla.Consumer(*topics, **{**defaults, **arguments})


def write(bootstrap: str, topic: str, count: int) -> list[tuple[str, int, int]]:
    """So many records in all partitions; where they are."""
    with ottla.Producer(bootstrap, topic=topic) as producer:
        sent = [producer.send(b"%d" % n, partition=n % PARTITIONS) for n in range(count)]
        return [(topic, where.partition, where.offset) for where in (each.result() for each in sent)]


def shares(members: list[Member]) -> list[int]:
    return sorted(len(member.owned) for member in members)


def read_by(members: list[Member]) -> Counter[tuple[str, int, int]]:
    return Counter(place for member in members for place in member.got)


# ---- sharing --------------------------------------------------------------------------------------------------------


@pytest.mark.feature(37)
@pytest.mark.feature(63)
@pytest.mark.feature(71)
@pytest.mark.parametrize("assignors", ["range", "roundrobin", "sticky", "cooperative-sticky", None])
def test_members_share_the_partitions_and_each_record_is_read_once(
    bootstrap: str, topic: str, start: Start, assignors: str | None
) -> None:
    named = {} if assignors is None else {"assignors": assignors}
    members = [start(**named) for _ in range(2)]
    wait_until(lambda: shares(members) == [3, 3])
    places = write(bootstrap, topic, 200)
    wait_until(lambda: sum(read_by(members).values()) >= 200)
    members.append(start(**named))
    wait_until(lambda: shares(members) == [2, 2, 2])
    places += write(bootstrap, topic, 300)
    wait_until(lambda: sum(read_by(members).values()) >= 500)
    assert read_by(members) == Counter(places)
    assert {p for member in members for p in member.owned} == {TopicPartition(topic, n) for n in range(PARTITIONS)}


@pytest.mark.feature(68)
def test_who_is_closed_leaves_at_once_and_the_next_goes_on_after_its_last_record(
    bootstrap: str, topic: str, start: Start
) -> None:
    places = write(bootstrap, topic, 100)
    first = start(session_timeout=60, auto_commit_interval=60)
    wait_until(lambda: len(first.got) == 100)
    first.stop()
    second = start()
    wait_until(lambda: shares([second]) == [PARTITIONS], limit_s=10)
    places += write(bootstrap, topic, 50)
    wait_until(lambda: len(second.got) >= 50)
    assert read_by([first, second]) == Counter(places)


@pytest.mark.feature(68)
@pytest.mark.feature(73)
def test_who_falls_silent_is_replaced_after_its_session_and_nothing_is_lost(
    bootstrap: str, topic: str, start: Start
) -> None:
    silent, other = start(), start()
    wait_until(lambda: shares([silent, other]) == [3, 3])
    places = write(bootstrap, topic, 100)
    wait_until(lambda: sum(read_by([silent, other]).values()) >= 100)
    silent.die()
    places += write(bootstrap, topic, 100)
    wait_until(lambda: len(other.owned) == PARTITIONS)
    wait_until(lambda: set(read_by([silent, other])) == set(places))


@pytest.mark.feature(70)
@pytest.mark.feature(75)
@pytest.mark.rule(47)
def test_cooperative_members_give_up_only_what_moves(topic: str, start: Start) -> None:
    diary, newcomer = Diary(), Diary()
    first = start(assignors="cooperative-sticky", listener=diary)
    wait_until(lambda: shares([first]) == [PARTITIONS])
    second = start(assignors="cooperative-sticky", listener=newcomer)
    wait_until(lambda: shares([first, second]) == [3, 3])
    second.stop()
    wait_until(lambda: shares([first]) == [PARTITIONS])
    told = [(kind, len(some)) for kind, some in diary.entries if some]
    assert told == [("assigned", 6), ("revoked", 3), ("assigned", 3)]
    assert [(kind, len(some)) for kind, some in newcomer.entries if some] == [("assigned", 3), ("revoked", 3)]


@pytest.mark.feature(70)
def test_a_cooperative_member_reads_the_rest_while_a_rebalance_waits_for_another(
    cluster: Cluster, bootstrap: str, topic: str, start: Start
) -> None:
    """`slow` has a share and does not poll, so that the rebalance for the newcomer lasts as long as the test wants."""
    slow_got: list[tuple[str, int, int]] = []
    with consumer_of(bootstrap, topic, assignors="cooperative-sticky") as slow:

        def poll() -> bool:
            slow_got.extend((r.topic, r.partition, r.offset) for r in slow.poll(0.05))
            return True

        member = start(assignors="cooperative-sticky")
        wait_until(lambda: poll() and (len(slow.assignment()), len(member.owned)) == (3, 3))
        generation, owned = member.consumer.group_metadata.generation, set(member.owned)
        newcomer = start(assignors="cooperative-sticky")
        with ottla.Admin(cluster.bootstrap) as admin:
            wait_until(lambda: admin.groups.describe(topic).state == "PreparingRebalance")
            places = write(bootstrap, topic, 120)
            mine = [place for place in places if TopicPartition(*place[:2]) in owned]
            wait_until(lambda: len(member.got) >= len(mine))
            assert sorted(member.got) == sorted(mine)
            assert admin.groups.describe(topic).state == "PreparingRebalance", "it has not ended meanwhile"
        assert (member.consumer.group_metadata.generation, newcomer.owned) == (generation, [])
        wait_until(lambda: poll() and len(slow.assignment()) == 2 and shares([member, newcomer]) == [2, 2])
        places += write(bootstrap, topic, 120)
        wait_until(lambda: poll() and len(slow_got) + sum(read_by([member, newcomer]).values()) >= len(places))
        assert read_by([member, newcomer]) + Counter(slow_got) == Counter(places)


@pytest.mark.feature(69)
@pytest.mark.feature(75)
def test_eager_members_give_all_up_and_get_their_share_again(topic: str, start: Start) -> None:
    diary = Diary()
    first = start(assignors="range", listener=diary)
    wait_until(lambda: shares([first]) == [PARTITIONS])
    second = start(assignors="range")
    wait_until(lambda: shares([first, second]) == [3, 3])
    assert [(kind, len(some)) for kind, some in diary.entries] == [("assigned", 6), ("revoked", 6), ("assigned", 3)]


@pytest.mark.feature(80)
@pytest.mark.rule(45)
def test_a_static_member_restarts_without_a_rebalance(bootstrap: str, topic: str, start: Start) -> None:
    diary = Diary()
    other = start(group_instance_id="other", listener=diary)
    first = start(group_instance_id="one")
    wait_until(lambda: shares([other, first]) == [3, 3])
    before, told = (first.owned, other.consumer.group_metadata.generation), list(diary.entries)
    write(bootstrap, topic, 60)
    wait_until(lambda: len(first.got) == 30)
    first.stop()
    again = start(group_instance_id="one")
    wait_until(lambda: len(again.owned) == 3)
    write(bootstrap, topic, 60)
    wait_until(lambda: len(again.got) >= 30)
    assert (again.owned, again.consumer.group_metadata.generation) == before
    assert diary.entries == told
    assert not set(again.got) & set(first.got)


@pytest.mark.story("static-member-back-before-it-gave-up")
def test_a_static_member_that_ends_while_it_gives_partitions_up_leaves_none_without_a_reader(
    cluster: Cluster, topic: str, start: Start
) -> None:
    gives_up, may_go_on = threading.Event(), threading.Event()

    def on_revoked(partitions: list[TopicPartition]) -> None:
        gives_up.set()
        may_go_on.wait(WAIT)

    cooperative = {"assignors": "cooperative-sticky", "session_timeout": 60}
    first = start(group_instance_id="one", on_revoked=on_revoked, **cooperative)
    wait_until(lambda: shares([first]) == [PARTITIONS])
    other = start(group_instance_id="other", **cooperative)
    with ottla.Admin(cluster.bootstrap) as admin:
        wait_until(lambda: gives_up.is_set() and admin.groups.describe(topic).state == "Stable")
    again = start(group_instance_id="one", **cooperative)
    wait_until(lambda: shares([again, other]) == [3, 3])
    may_go_on.set()


def test_a_pattern_finds_topics_that_are_made_later(cluster: Cluster, bootstrap: str, topic: str, start: Start) -> None:
    member = start(pattern=f"{topic}(-.*)?", metadata_max_age=0.2)
    wait_until(lambda: len(member.owned) == PARTITIONS)
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(f"{topic}-later", partitions=PARTITIONS)
    places = write(bootstrap, topic, 12) + write(bootstrap, f"{topic}-later", 12)
    wait_until(lambda: set(member.got) == set(places))


@pytest.mark.feature(68)
def test_partitions_that_are_added_are_given_out(cluster: Cluster, topic: str, start: Start) -> None:
    members = [start(metadata_max_age=0.2) for _ in range(2)]
    wait_until(lambda: shares(members) == [3, 3])
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.add_partitions(topic, 8)
    wait_until(lambda: shares(members) == [4, 4])


# ---- with others ----------------------------------------------------------------------------------------------------


@pytest.mark.feature(63)
@pytest.mark.feature(71)
@pytest.mark.parametrize(
    ("maker", "assignor"),
    [(Python, "range"), (Confluent, "range"), (Confluent, "cooperative-sticky"), (Python, "cooperative-sticky")],
)
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_a_group_of_different_makers_shares_the_partitions(
    bootstrap: str, topic: str, start: Start, maker: Any, assignor: str, first: str
) -> None:
    places = {(partition, offset) for _, partition, offset in write(bootstrap, topic, 60)}
    ours = start(assignors=assignor) if first == "ours" else None
    if ours is not None:
        wait_until(lambda: len(ours.owned) == PARTITIONS)
    theirs = maker(bootstrap, topic, topic, assignor=assignor)
    try:
        if ours is None:
            wait_until(lambda: len(theirs.assignment()) == PARTITIONS)
        mine = ours or start(assignors=assignor)
        wait_until(lambda: (len(mine.owned), len(theirs.assignment())) == (3, 3))
        places |= {(partition, offset) for _, partition, offset in write(bootstrap, topic, 60)}

        def read() -> set[tuple[int, int]]:
            return {(p, offset) for _, p, offset in mine.got} | {(r.partition, r.offset) for r in theirs.records()}

        wait_until(lambda: read() == places)
        assert not {p.partition for p in mine.owned} & set(theirs.assignment())
    finally:
        theirs.close()


# ---- kills ----------------------------------------------------------------------------------------------------------

READER = """
import sys, ottla
bootstrap, topic, mode = sys.argv[1:]
consumer = ottla.Consumer(topic, bootstrap=bootstrap, group=topic, auto_offset_reset="earliest", value="bytes",
                          session_timeout=6, heartbeat_interval=0.5, auto_commit_interval=0.01, commit=mode,
                          max_poll_records=20)
for number, record in enumerate(consumer, 1):
    print(record.partition, record.offset, flush=True)
    if number == 250:
        sys.stdin.readline()
"""


@pytest.mark.feature(47)
@pytest.mark.feature(78)
@pytest.mark.feature(179)
@pytest.mark.parametrize("mode", ["at_least_once", "at_most_once"])
def test_a_consumer_that_is_killed_loses_nothing_or_repeats_nothing_as_it_was_told(
    cluster: Cluster, bootstrap: str, topic: str, start: Start, mode: str
) -> None:
    places = {(partition, offset) for _, partition, offset in write(bootstrap, topic, 600)}
    command = [sys.executable, "-c", READER, bootstrap, topic, mode]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        ottla.Admin(cluster.bootstrap) as admin,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(250)]
        wait_until(lambda: any(admin.groups.committed(topic).values()))
        print(file=process.stdin, flush=True)  # it goes on, and is killed in the midst of that
        process.kill()
        lines += process.stdout.readlines()
    killed = [
        (int(partition), int(offset)) for partition, offset in (line.split() for line in lines if line[-1:] == "\n")
    ]
    heir = start(commit=mode)
    wait_until(lambda: len(heir.owned) == PARTITIONS)
    write(bootstrap, topic, PARTITIONS)  # the last records: what came before was read, or never will be
    last = {partition: offset for _, partition, offset in read_to_end(bootstrap, topic)}
    wait_until(lambda: {p: o for _, p, o in heir.got if last[p] == o} == last)
    inherited = {(partition, offset) for _, partition, offset in heir.got}
    assert len(killed) >= 250
    assert len(inherited) == len(heir.got)
    if mode == "at_least_once":
        assert set(killed) | inherited >= places
        assert len(set(killed) & inherited) < len(killed), "it did commit"
    else:
        assert not set(killed) & inherited


def read_to_end(bootstrap: str, topic: str) -> list[tuple[str, int, int]]:
    with ottla.Consumer(topic, bootstrap=bootstrap, start="earliest", stop="end", value="bytes") as consumer:
        return [(r.topic, r.partition, r.offset) for r in consumer]


@pytest.mark.feature(65)
@pytest.mark.feature(76)
@pytest.mark.feature(77)
@pytest.mark.parametrize("how", ["kill", "pause"])
def test_a_coordinator_that_goes_costs_time_and_no_record(
    cluster: Cluster, bootstrap: str, topic: str, start: Start, how: str
) -> None:
    members = [start(session_timeout=30) for _ in range(2)]
    wait_until(lambda: shares(members) == [3, 3])
    places = write(bootstrap, topic, 120)
    wait_until(lambda: sum(read_by(members).values()) >= 120)
    gone = coordinator_of(cluster, topic)
    getattr(cluster.group_coordinators[gone], how)()
    try:
        places += write(bootstrap, topic, 120)
        wait_until(lambda: set(read_by(members)) == set(places))
        if how == "kill":
            members.append(start())
            wait_until(lambda: shares(members) == [2, 2, 2])
            places += write(bootstrap, topic, 120)
            wait_until(lambda: set(read_by(members)) == set(places))
            assert coordinator_of(cluster, topic) != gone
    finally:
        cluster.group_coordinators[gone].resume() if how == "pause" else cluster.group_coordinators[gone].restart()
    with consumer_of(bootstrap, topic) as consumer:
        partitions = [(topic, n) for n in range(PARTITIONS)]
        ends = {TopicPartition(*p): sum(place[1] == p[1] for place in places) for p in partitions}
        wait_until(lambda: {p: at and at.offset for p, at in consumer.committed(*partitions).items()} == ends)


@pytest.mark.feature(65)
@pytest.mark.feature(77)
def test_a_broker_that_speaks_for_the_coordinator_goes_and_costs_time_and_no_record(
    cluster: Cluster, bootstrap: str
) -> None:
    """To a client, a broker is the coordinator."""
    topic = next(_names)
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(topic, partitions=PARTITIONS, replicas=3)
    members = [Member(consumer_of(bootstrap, topic, session_timeout=30)) for _ in range(2)]
    try:
        wait_until(lambda: shares(members) == [3, 3])
        places = write(bootstrap, topic, 120)
        wait_until(lambda: sum(read_by(members).values()) >= 120)
        group = members[0].consumer._group
        assert group is not None
        address = group._coordinator._address
        gone = next((broker for broker in cluster.brokers if broker.kafka_address == address), cluster.brokers[0])
        gone.kill()
        try:
            places += write(bootstrap, topic, 120)
            wait_until(lambda: set(read_by(members)) == set(places))
            wait_until(lambda: committed_by(cluster, topic) == Counter(partition for _, partition, _ in places))
            assert shares(members) == [3, 3]
        finally:
            gone.restart()
    finally:
        for member in members:
            member.stop()


def committed_by(cluster: Cluster, group: str) -> dict[int, int]:
    with ottla.Admin(cluster.bootstrap) as admin:
        return {partition.partition: offset for partition, offset in admin.groups.committed(group).items()}


def coordinator_of(cluster: Cluster, group: str) -> int:
    """Return the instance that describes the group as its own."""
    with ottla.Admin(cluster.bootstrap) as admin:
        return admin.groups.describe(group, timeout=WAIT).coordinator


# ---- getting through ------------------------------------------------------------------------------------------------


@pytest.mark.feature(39)
@pytest.mark.feature(44)
def test_who_waits_for_a_member_that_does_not_poll_can_be_woken_and_closed(bootstrap: str, topic: str) -> None:
    with consumer_of(bootstrap, topic) as idle, consumer_of(bootstrap, topic) as waiting:
        while len(idle.assignment()) < PARTITIONS:
            idle.poll(0.1)
        threading.Timer(0.3, waiting.wakeup).start()
        with pytest.raises(WakeupError):
            waiting.poll(WAIT)
        threading.Timer(0.3, waiting.close).start()
        began_at = time.monotonic()
        assert not waiting.poll(WAIT)
        assert time.monotonic() - began_at < WAIT / 2
        while idle.group_metadata.generation < 2 or len(idle.assignment()) < PARTITIONS:  # who was waited for comes
            idle.poll(0.1)


@pytest.mark.feature(44)
def test_the_group_knows_why_a_member_left(cluster: Cluster, bootstrap: str, topic: str) -> None:
    with consumer_of(bootstrap, topic, max_poll_interval=0.5) as consumer, ottla.Admin(cluster.bootstrap) as admin:
        while not consumer.assignment():
            consumer.poll(0.1)

        def causes() -> list[str]:
            return [event.cause for event in admin.groups.explain(topic)]

        wait_until(lambda: any("did not poll for 0.5 s (max_poll_interval)" in cause for cause in causes()))
        assert any("the consumer begins" in cause for cause in causes())


# ---- administration -------------------------------------------------------------------------------------------------


def test_groups_are_listed_described_and_deleted(bootstrap: str, topic: str, start: Start) -> None:
    write(bootstrap, topic, 60)
    member = start(group_instance_id="one")
    with ottla.Admin(bootstrap) as admin:
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
        committed = {p.partition: at for p, at in admin.groups.committed(topic).items()}
        assert committed == {0: 3, 2: 10, 3: 10, 4: 10, 5: 10}
        admin.groups.delete(topic)
        assert not admin.groups.exists(topic)
        with pytest.raises(ottla.OttlaError, match="GROUP_ID_NOT_FOUND"):
            admin.groups.describe(topic)


# ---- where a group begins


@pytest.mark.story("group-skips-what-is-new-in-a-partition")
def test_partitions_that_are_added_after_a_group_began_are_read_from_their_start(
    cluster: Cluster, bootstrap: str, topic: str
) -> None:
    """While its member runs, and while it has none."""
    settings: dict[str, Any] = {"auto_offset_reset": "latest", "commit": "manual"}
    read: list[bytes] = []

    def say(value: bytes, partition: int) -> None:
        with ottla.Producer(bootstrap, topic=topic) as producer:
            producer.send(value, partition=partition).result()

    def have_read(consumer: ottla.Consumer[Any, Any], count: int) -> bool:
        read.extend(record.value for record in consumer.poll(0.1))
        return len(read) == count

    with ottla.Admin(cluster.bootstrap) as admin:
        say(b"old", 0)
        with consumer_of(bootstrap, topic, metadata_max_age=0.5, **settings) as consumer:
            wait_until(lambda: have_read(consumer, 0) and len(consumer.assignment()) == PARTITIONS)
            wait_until(lambda: have_read(consumer, 0) and len(admin.groups.committed(topic)) == PARTITIONS)
            admin.topics.add_partitions(topic, PARTITIONS + 1)
            say(b"first", PARTITIONS)
            wait_until(lambda: have_read(consumer, 1))
        admin.topics.add_partitions(topic, PARTITIONS + 2)
        say(b"second", PARTITIONS + 1)
        say(b"third", 0)
        with consumer_of(bootstrap, topic, **settings) as consumer:
            wait_until(lambda: have_read(consumer, 4))
    assert sorted(read) == [b"first", b"first", b"second", b"third"], "what was not committed comes again, and no more"


def test_members_that_begin_together_begin_where_the_topic_ends(
    cluster: Cluster, bootstrap: str, topic: str, start: Start
) -> None:
    write(bootstrap, topic, 60)
    members = [start(auto_offset_reset="latest") for _ in range(3)]
    with ottla.Admin(cluster.bootstrap) as admin:
        wait_until(lambda: shares(members) == [2, 2, 2])
        wait_until(lambda: len(admin.groups.committed(topic)) == PARTITIONS)
        assert set(admin.groups.committed(topic).values()) == {10}
