"""Groups as an operator meets them: lag, history, reset, removal; with unchanged Kafka clients as members."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cli_fakes import ottla as command
from scraped import samples
from tests.compat.kafka_groups import Confluent
from tests.walk.pages import programs, promised, section
from waiting import LIMIT_S, wait_until

import ottla
from ottla.client.cluster import ClusterClient as Way
from ottla.client.coordinators import Coordinators
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.transport import KafkaTransport
from ottla.consumer.group.joining import join, sync
from ottla.errors import ErrorCode
from ottla.machines.membership import MemberIdentity, MemberSettings
from ottla_core.kafka.messages import JoinGroupResponse
from ottla_core.kafka_formats.consumer_protocol import Subscription, encode_subscription
from ottla_core.model import TopicPartition
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PARTITIONS = 4
APART_MS = 60_000
"""From one record of a partition to the next: a test may take a while to ask for a time between two."""
_names = (f"watched-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, group_coordinators=2) as cluster:
        yield cluster


@pytest.fixture
def topic(admin: ottla.Admin) -> str:
    name = next(_names)
    admin.topics.create(name, partitions=PARTITIONS)
    return name


@pytest.fixture
def members() -> Iterator[list[Any]]:
    """Those that a test has started; all are closed at its end."""
    started: list[Any] = []
    yield started
    for member in started:
        member.close()


def join_of(
    group: str, topic: str, session_timeout_ms: int, member_id: str = "", *, reason: str = ""
) -> Exchange[JoinGroupResponse]:
    """The request of a member that reads one topic."""
    settings = MemberSettings(session_timeout_s=session_timeout_ms / 1000, max_poll_interval_s=60.0)
    offers = {"range": encode_subscription(Subscription((topic,)))}
    return join(group, MemberIdentity(member_id), settings, offers, reason)


class Silent:
    """A member that makes its calls itself, and says nothing once it has been assigned something."""

    def __init__(self, cluster: Cluster, topic: str, group: str, *, session_timeout_ms: int = 6_000) -> None:
        self._way = Way(cluster.bootstrap.split(","), KafkaTransport("silent"))
        coordinators = Coordinators(self._way)
        asked = join_of(group, topic, session_timeout_ms, reason="to be silent")
        # The first response has nothing but an id for the new member (KIP-394).
        self.member_id = coordinators.exchange(group, asked, timeout=LIMIT_S).member_id
        asked = join_of(group, topic, session_timeout_ms, self.member_id, reason="to be silent")
        joined = coordinators.exchange(group, asked, timeout=LIMIT_S)
        who = MemberIdentity(self.member_id, joined.generation_id)
        coordinators.exchange(group, sync(group, who, "range", {}), timeout=LIMIT_S)

    def close(self) -> None:
        self._way.close()


def reader(cluster: Cluster, topic: str, group: str, members: list[Any], **settings: Any) -> Confluent:
    """A member that has read and committed the 8 records of each partition; kafka-python may lose an assignment to a
    poll that ends while it rejoins."""
    member = Confluent(cluster.bootstrap, topic, group, **settings)
    members.append(member)
    wait_until(lambda: len(member.values()) == 8 * PARTITIONS)
    member.commit()
    return member


def write(cluster: Cluster, topic: str, count: int, first_ms: int) -> None:
    """`count` records in each partition; partition n's are n ms later."""
    with ottla.Producer(cluster.bootstrap) as producer:
        for number, partition in itertools.product(range(count), range(PARTITIONS)):
            when = first_ms + number * APART_MS + partition
            producer.send(b"%d" % number, topic=topic, partition=partition, timestamp=when)


def hour_ago_ms() -> int:
    return time.time_ns() // 1_000_000 - 3_600_000


def stopped(cluster: Cluster, admin: ottla.Admin, topic: str, group: str, members: list[Any]) -> int:
    """A group that has committed 8 records of each partition and has no members; when the first was written."""
    first_ms = hour_ago_ms()
    write(cluster, topic, 8, first_ms)
    reader(cluster, topic, group, members).close()
    wait_until(lambda: not admin.groups.members(group))
    return first_ms


# ---- look -----------------------------------------------------------------------------------------------------------


@pytest.mark.feature(63)
def test_lag_is_exact_in_records(cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any]) -> None:
    group = f"lag-{topic}"
    write(cluster, topic, 8, hour_ago_ms())
    reader(cluster, topic, group, members)
    assert [(p.records, p.seconds, p.committed) for p in admin.groups.lag(group).partitions] == [(0, 0.0, 8)] * 4
    write(cluster, topic, 3, hour_ago_ms())
    wait_until(lambda: admin.groups.lag(group).records)  # the first answer is that of a whole second
    lag = admin.groups.lag(group)
    assert [(p.topic, p.partition, p.start, p.end, p.records) for p in lag.partitions] == [
        (topic, n, 0, 11, 3) for n in range(PARTITIONS)
    ]
    assert lag.records == 12
    (member,) = admin.groups.members(group)
    assert {p.member_id for p in lag.partitions} == {member.member_id}


@pytest.mark.feature(63)
def test_lag_is_exact_in_seconds(cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any]) -> None:
    group = f"seconds-{topic}"
    write(cluster, topic, 8, hour_ago_ms())
    reader(cluster, topic, group, members)
    first_ms = hour_ago_ms() + 60_000
    write(cluster, topic, 3, first_ms)
    asked_at = time.time()
    lag = admin.groups.lag(group)
    told_at = time.time()
    assert [p.oldest_unread_ms for p in lag.partitions] == [first_ms + n for n in range(PARTITIONS)]
    for partition in lag.partitions:
        assert partition.oldest_unread_ms is not None
        assert partition.seconds is not None
        age_at = partition.oldest_unread_ms / 1000
        assert asked_at - age_at - 0.01 <= partition.seconds <= told_at - age_at + 0.01
    assert lag.seconds == lag.partitions[0].seconds


@pytest.mark.feature(64)
@pytest.mark.feature(65)
def test_groups_are_listed_and_described_wherever_they_are(
    cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any]
) -> None:
    names = [f"{letter}-{topic}" for letter in "abcdef"]  # six groups over the shards of two coordinators
    for name in names:
        admin.groups.reset(name, to="earliest", topics=[topic], if_missing="ok", dry_run=False)
    assert [g.name for g in admin.groups.list() if g.name in names] == names
    assert {admin.groups.describe(name).coordinator for name in names} == {0, 1}
    members.append(Confluent(cluster.bootstrap, topic, names[0]))
    wait_until(lambda: admin.groups.describe(names[0]).state == "Stable")
    wait_until(lambda: len(members[0].assignment()) == PARTITIONS)
    (member,) = admin.groups.members(names[0])
    assert member.topics == (topic,)
    assert member.partitions == tuple(TopicPartition(topic, n) for n in range(PARTITIONS))
    assert [g.name for g in admin.groups.list(states=["Stable"]) if g.name in names] == names[:1]
    with pytest.raises(ottla.OttlaError, match="does not exist") as unknown:
        admin.groups.describe(f"bb-{topic}")
    assert unknown.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert f"b-{topic}" in unknown.value.hint


@pytest.mark.feature(68)
@pytest.mark.feature(73)
def test_a_member_that_falls_silent_is_evicted_and_its_partitions_move(
    cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    group = f"explain-{topic}"
    write(cluster, topic, 8, hour_ago_ms())
    stays = reader(cluster, topic, group, members)
    silent = Silent(cluster, topic, group)
    members.append(silent)
    wait_until(lambda: len(stays.assignment()) == 2)
    wait_until(lambda: len(stays.assignment()) == 4)
    wait_until(lambda: admin.groups.describe(group).state == "Stable")
    events = admin.groups.explain(group)
    assert events[0].kind == "joined"
    joined = next(n for n, e in enumerate(events) if e.member_id == silent.member_id and e.kind == "joined")
    assert events[joined].cause == "to be silent"
    assert [e.kind for e in events[joined : joined + 4]] == ["joined", "rebalance-began", "generation", "assigned"]
    assert events[joined + 3].partitions_moved == 2
    evicted = next(n for n, e in enumerate(events) if e.kind == "evicted")
    assert (events[evicted].member_id, events[evicted].client_id) == (silent.member_id, "silent")
    assert events[evicted].cause == "sent no heartbeat for 6000 ms (session.timeout.ms)"
    after = events[evicted + 1 :]
    assert [e.kind for e in after[:3]] == ["rebalance-began", "generation", "assigned"]
    assert "sent no heartbeat" in after[0].cause
    assert after[2].partitions_moved == 2, "what the one who has gone had"
    assert after[2].duration >= (after[2].timestamp - after[0].timestamp) / 1000 - 0.001
    assert after[2].generation == events[evicted].generation + 1
    assert command(f"group explain {group} -b {cluster.bootstrap} -o table") == 0
    told = capsys.readouterr().out
    assert f"{silent.member_id} at /127.0.0.1 was evicted: sent no heartbeat for 6000 ms" in told
    assert "1 eviction" in told


@pytest.mark.feature(68)
def test_a_leader_that_sees_new_partitions_is_told_as_the_cause(
    cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any]
) -> None:
    group = f"grown-{topic}"
    silent = Silent(cluster, topic, group, session_timeout_ms=60_000)
    members.append(silent)
    way = Way(cluster.bootstrap.split(","), KafkaTransport("silent"))
    reason = f"{topic} has 6 partitions, but the last assignment covered 4"
    Coordinators(way).exchange(group, join_of(group, topic, 60_000, silent.member_id, reason=reason), timeout=LIMIT_S)
    way.close()
    causes = [e.cause for e in admin.groups.explain(group) if e.kind == "rebalance-began"]
    assert causes[-1] == f"silent asked to join again: {topic} has 6 partitions, but the last assignment covered 4"


@pytest.mark.story("configs-of-groups-without-effect")
def test_what_is_set_for_groups_holds_from_then_on(cluster: Cluster, admin: ottla.Admin, topic: str) -> None:
    way = Way(cluster.bootstrap.split(","), KafkaTransport("silent"))
    names = (f"set-{topic}-{n}" for n in itertools.count())

    def refused() -> bool:
        """Or let into a group of its own."""
        group = next(names)
        try:
            Coordinators(way).exchange(group, join_of(group, topic, 6_000), timeout=LIMIT_S)
        except ottla.OttlaError as error:
            return error.code == ErrorCode.INVALID_SESSION_TIMEOUT
        return False

    admin.configs.set({"group.min.session.timeout.ms": "7s"})
    wait_until(refused)
    admin.configs.unset("group.min.session.timeout.ms")
    wait_until(lambda: not refused())
    assert admin.configs.get()["group.min.session.timeout.ms"].enforced
    with pytest.raises(ottla.OttlaError, match="one value for the whole cluster"):
        admin.configs.set({"group.min.session.timeout.ms": "7s"}, broker=0)
    way.close()


# ---- change ---------------------------------------------------------------------------------------------------------


@pytest.mark.feature(56)
def test_every_kind_of_reset(cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any]) -> None:
    group = f"reset-{topic}"
    first_ms = stopped(cluster, admin, topic, group, members)
    third = datetime.fromtimestamp((first_ms + 2 * APART_MS - 500) / 1000, UTC)

    def reset(**where: Any) -> list[int]:
        resets = admin.groups.reset(group, dry_run=False, **where)
        committed = admin.groups.committed(group)
        assert [committed[TopicPartition(r.topic, r.partition)] for r in resets] == [r.after for r in resets]
        return [r.after for r in resets]

    assert reset(to="earliest") == [0] * 4
    assert reset(to="latest") == [8] * 4
    assert reset(shift=-3) == [5] * 4
    assert reset(shift=1, partitions=[(topic, 2)]) == [6]
    assert list(admin.groups.committed(group).values()) == [5, 5, 6, 5]
    assert reset(to=3, topics=[topic]) == [3] * 4
    assert reset(to=third) == [2] * 4
    ago = timedelta(milliseconds=first_ms + 5 * APART_MS + 500 - time.time_ns() // 1_000_000)
    assert reset(to=ago) == [6] * 4
    assert reset(to=100) == [8] * 4, "its nearest end"
    assert [r.wanted for r in admin.groups.reset(group, shift=-100)] == [-92] * 4
    assert [r.after for r in admin.groups.reset(group, shift=-100)] == [0] * 4
    assert list(admin.groups.committed(group).values()) == [8] * 4, "a dry run moves nothing"
    again = Confluent(cluster.bootstrap, topic, group)
    members.append(again)
    wait_until(lambda: len(again.assignment()) == 4)
    for refused in (lambda: admin.groups.reset(group, to="earliest"), lambda: admin.groups.delete(group)):
        with pytest.raises(ottla.OttlaError, match=admin.groups.members(group)[0].member_id) as raised:
            refused()
        assert raised.value.code == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.feature(160)
def test_the_command_line_has_it_all(
    cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """kafka-consumer-groups' --list, --describe with --members and --state, --reset-offsets, --delete[-offsets]."""
    group, at = f"commanded-{topic}", f"-b {cluster.bootstrap} -o json"
    stopped(cluster, admin, topic, group, members)

    def items(line: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        assert command(f"group {line} {at}") == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
        return found

    def state() -> str:
        (shown,) = items(f"show {group}")
        return str(shown["state"])

    assert [(g["name"], g["members"]) for g in items("ls") if g["name"] == group] == [(group, 0)]
    assert (state(), items(f"members {group}")) == ("Empty", [])
    assert {p["after"] for p in items(f"reset {group} --to earliest")} == {0}
    assert set(admin.groups.committed(group).values()) == {8}, "a dry run"
    items(f"reset {group} --to earliest --execute")
    (shown,) = items(f"show {group}")
    assert [(p["committed"], p["records"]) for p in shown["partitions"]] == [(0, 8)] * PARTITIONS
    member = reader(cluster, topic, group, members)
    (told,) = items(f"members {group}")
    assert told["client_id"] == admin.groups.members(group)[0].client_id
    assert command(f"group rm {group} --yes {at}") == 1, "it has a member"
    member.close()
    wait_until(lambda: state() == "Empty")
    items(f"rm-offsets {group} -t {topic} --yes")
    assert admin.groups.committed(group) == {}
    assert command(f"group rm {group} --yes {at}") == 0
    assert group not in {g["name"] for g in items("ls")}


@pytest.mark.feature(65)
def test_offsets_and_groups_are_forgotten(
    cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    group = f"gone-{topic}"
    stopped(cluster, admin, topic, group, members)
    at = f"-b {cluster.bootstrap}"
    assert command(f"group rm-offsets {group} -t {topic} -p 1 --yes {at}") == 0
    assert [p.partition for p in admin.groups.committed(group)] == [0, 2, 3]
    assert command(f"group show {group} -o json {at}") == 0
    (shown,) = json.loads(capsys.readouterr().out)["items"]
    assert [p["partition"] for p in shown["partitions"]] == [0, 2, 3]
    assert command(f"group rm {group} --yes {at}") == 0
    assert not admin.groups.exists(group)
    assert command(f"group rm {group} --yes {at}") == 4
    assert f"the group '{group}' does not exist" in capsys.readouterr().err


@pytest.mark.feature(80)
def test_a_member_is_kicked_by_either_of_its_names(
    cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any]
) -> None:
    group = f"kick-{topic}"
    members.append(Confluent(cluster.bootstrap, topic, group, instance="i0"))
    wait_until(lambda: len(members[0].assignment()) == 4)
    silent = Silent(cluster, topic, group, session_timeout_ms=60_000)
    members.append(silent)
    assert admin.groups.kick(group, silent.member_id, reason="it hangs").client_id == "silent"
    wait_until(lambda: len(members[0].assignment()) == 4)
    before = admin.groups.members(group)
    kicked = admin.groups.kick(group, "i0")
    assert (kicked.instance_id, kicked.member_id) == ("i0", before[0].member_id)
    with pytest.raises(ottla.OttlaError, match="no member 'i9'"):
        admin.groups.kick(group, "i9")


def test_a_groups_story_has_who_was_kicked_and_why(
    cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any]
) -> None:
    group = f"kicked-{topic}"
    kicked = []
    for reason in ("it hangs", ""):
        silent = Silent(cluster, topic, group, session_timeout_ms=60_000)
        members.append(silent)
        admin.groups.kick(group, silent.member_id, reason=reason)
        kicked.append((silent.member_id, reason or "removed by an administrator"))
    assert [(e.member_id, e.cause) for e in admin.groups.explain(group) if e.kind == "left"] == kicked


# ---- metrics --------------------------------------------------------------------------------------------------------


def scraped(cluster: Cluster) -> dict[str, dict[tuple[str, ...], float]]:
    """What both coordinators tell, by name and the values of the labels in the order of their names."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in samples(cluster.group_coordinators):
        values = found.setdefault(sample.name, {})
        key = tuple(value for _, value in sorted(sample.labels.items()))
        values[key] = values.get(key, 0) + sample.value
    return found


@pytest.mark.feature(63)
def test_prometheus_is_told_the_same_without_waiting(
    cluster: Cluster, admin: ottla.Admin, topic: str, members: list[Any]
) -> None:
    group = f"metrics-{topic}"
    first_ms = stopped(cluster, admin, topic, group, members)
    admin.groups.reset(group, to=5, dry_run=False)
    wait_until(lambda: (group, "0", topic) in scraped(cluster).get("ottla_group_lag_records", {}))
    asked_at = time.time()
    told = scraped(cluster)
    told_at = time.time()
    assert {key: n for key, n in told["ottla_group_lag_records"].items() if key[0] == group} == {
        (group, str(n), topic): 3.0 for n in range(PARTITIONS)
    }
    read_until = (first_ms + 5 * APART_MS) / 1000
    age_s = told["ottla_group_lag_seconds"][group, "0", topic]
    assert asked_at - read_until - 0.01 <= age_s <= told_at - read_until + 0.01
    assert told["ottla_group_members"][(group,)] == 0
    assert told["ottla_groups"][("Empty", "classic")] >= 1
    assert told["ottla_group_lag_left_out"][()] == 0
    assert told["ottla_group_commits_total"][()] >= 2
    assert told["ottla_group_rebalances_total"][("left",)] >= 1


# ---- a coordinator goes ---------------------------------------------------------------------------------------------


@pytest.mark.feature(77)
def test_who_asks_follows_a_group_to_its_next_coordinator(cluster: Cluster, admin: ottla.Admin, topic: str) -> None:
    names = [f"{letter}-moves-{topic}" for letter in "abcdef"]
    for name in names:
        admin.groups.reset(name, to="earliest", topics=[topic], if_missing="ok", dry_run=False)
    cluster.group_coordinators[0].stop()
    try:
        assert {admin.groups.describe(name).coordinator for name in names} == {1}
        assert {group.name for group in admin.groups.list()} >= set(names)
        assert admin.groups.lag(names[0]).records == 0
    finally:
        cluster.group_coordinators[0].restart()


# ---- the page -------------------------------------------------------------------------------------------------------


def test_the_section_of_the_sdks_page_prints_what_it_says(
    cluster: Cluster, admin: ottla.Admin, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *_ = programs(section("docs/use/sdk.md", "Consumer groups from outside"))
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
    admin.topics.create("orders", partitions=3)
    exec(program, {})
    assert capsys.readouterr().out.splitlines() == promised(program)


def test_the_listener_of_the_sdks_page_says_what_is_new(
    cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's one poll is enough for a machine that is not busy."""
    (program,) = [p for p in programs(section("docs/use/sdk.md", "Consumer groups")) if "RebalanceListener" in p]
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
    joining = "while not consumer.assignment():\n    consumer.poll(timeout=0.2)"
    exec(program.replace('"orders"', repr(topic)).replace("consumer.poll(timeout=10)", joining), {})
    (line,) = capsys.readouterr().out.splitlines()[:1]
    assert line.startswith("new: ")
    assert line.count(repr(topic)) == PARTITIONS
