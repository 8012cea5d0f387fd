"""A consumer of a group against scripted brokers: joining, rebalances, and who is told what when."""

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from group_members import Diary, Member
from scripted_groups import WAIT, BrokenError, T, committed, consumer_of, fill, filled, ghost, number, until_joined
from waiting import LIMIT_S, wait_until

import ottla.aio
from ottla.client.kafka.apis import JOIN_GROUP, OFFSET_COMMIT, OFFSET_FETCH, SYNC_GROUP
from ottla.client.offsets import GroupMetadata, OffsetAndMetadata
from ottla.consumer.group.joining import Claims, JoinFailure, Joining
from ottla.errors import (
    CommitFailedError,
    ConfigError,
    ErrorCode,
    FatalError,
    FencedInstanceError,
    OttlaError,
    UnknownTopicError,
    WakeupError,
)
from ottla.fakes.scripted import Hang, Reject, ScriptedCluster
from ottla.machines.assignors import Assignments, Assignor, Subscriber
from ottla.machines.membership import MemberIdentity
from ottla_core.kafka.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from ottla_core.model import TopicPartition

# ---- joining --------------------------------------------------------------------------------------------------------


@pytest.mark.feature(36)
@pytest.mark.feature(65)
@pytest.mark.feature(66)
@pytest.mark.rule(44)
def test_the_first_poll_finds_the_coordinator_joins_and_reads_what_it_is_given() -> None:
    cluster = filled({0: 3, 1: 2})
    with consumer_of(cluster) as consumer:
        assert consumer.assignment() == set()
        assert consumer.group_metadata.generation == -1
        count = 0
        while count < 5:
            count += len(consumer.poll(WAIT))
        assert consumer.assignment() == {T[0], T[1]}
        assert consumer.group_metadata == GroupMetadata("g", 1, "member-1", None)
    joins = cluster.requests(JoinGroupRequest)
    assert [join.member_id for join in joins] == ["", "member-1"]
    assert [p.name for p in joins[1].protocols] == ["range", "cooperative-sticky"]
    assert len(cluster.requests(SyncGroupRequest)[0].assignments) == 1


def test_nothing_is_joined_before_the_first_reading() -> None:
    cluster = filled({0: 1})
    consumer_of(cluster).close()
    assert cluster.seen == []


@pytest.mark.parametrize("method", [JOIN_GROUP, SYNC_GROUP, OFFSET_FETCH], ids=lambda m: m.name)
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    ],
)
def test_trouble_with_the_coordinator_is_waited_out(method: Any, code: ErrorCode) -> None:
    cluster = filled({0: 3})
    cluster.will(method, Reject(code), Reject(code))
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(WAIT)) == 3


@pytest.mark.parametrize(
    ("method", "code"),
    [
        (JOIN_GROUP, ErrorCode.UNKNOWN_MEMBER_ID),
        (JOIN_GROUP, ErrorCode.REBALANCE_IN_PROGRESS),
        (SYNC_GROUP, ErrorCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_who_is_left_behind_while_it_joins_begins_anew(method: Any, code: int) -> None:
    cluster = filled({0: 3})
    cluster.will(method, Reject(code))
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(WAIT)) == 3


@pytest.mark.parametrize("code", [ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.INCONSISTENT_GROUP_PROTOCOL])
def test_what_does_not_mend_is_raised(code: ErrorCode) -> None:
    cluster = filled({0: 3})
    cluster.will(JOIN_GROUP, Reject(code, "no"))
    with consumer_of(cluster) as consumer:
        with pytest.raises(ConfigError, match="no"):
            consumer.poll(WAIT)
        assert len(consumer.poll(WAIT)) == 3


def test_a_group_that_nobody_coordinates_is_an_error_that_says_so() -> None:
    cluster = filled({0: 3})
    cluster.will(JOIN_GROUP, *[Reject(ErrorCode.NOT_COORDINATOR, "not mine")] * 100)
    with consumer_of(cluster, request_timeout=0.4) as consumer, pytest.raises(OttlaError, match="not mine"):
        consumer.poll(WAIT)


def test_topics_that_are_not_there_are_named() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, "tt", request_timeout=0.2) as consumer, pytest.raises(UnknownTopicError, match="tt"):
        consumer.poll(WAIT)


@pytest.mark.feature(39)
def test_a_wake_up_gets_through_while_others_are_waited_for_and_the_join_goes_on() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster) as consumer:
        with ghost(cluster):
            threading.Timer(0.1, consumer.wakeup).start()
            began_at = time.monotonic()
            with pytest.raises(WakeupError):
                consumer.poll(WAIT)
            assert time.monotonic() - began_at < WAIT / 2
            assert len(consumer.poll(0.05)) == 0
            before = len(cluster.requests(JoinGroupRequest))
        with cluster.changed:
            cluster.groups._complete(cluster.groups.group("g"))
        assert len(consumer.poll(WAIT)) == 3
        assert len(cluster.requests(JoinGroupRequest)) == before, "the join that was under way is the one that counts"


def test_closing_gets_through_while_others_are_waited_for_and_the_group_is_told() -> None:
    cluster = filled({0: 3})
    consumer = consumer_of(cluster)
    with ghost(cluster):
        reader = threading.Thread(target=consumer.poll, args=(60.0,))
        reader.start()
        cluster.until(lambda: "member-1" in cluster.groups.group("g").members)
        began_at = time.monotonic()
        consumer.close()
        reader.join(WAIT)
        assert not reader.is_alive()
        assert time.monotonic() - began_at < WAIT / 2
        assert cluster.groups.group("g").left == [("member-1", "the consumer was closed")]


def test_a_loop_ends_when_another_thread_closes_however_long_that_takes() -> None:
    cluster = filled({0: 1000})
    closing = threading.Event()

    def on_revoked(partitions: Any) -> None:
        closing.set()
        time.sleep(0.2)

    consumer = consumer_of(cluster, on_revoked=on_revoked)
    count = 0
    for _ in consumer:
        if count == 0:
            threading.Thread(target=consumer.close).start()
            assert closing.wait(WAIT)
        count += 1
    assert 0 < count <= 1000


def test_whoever_was_closed_does_not_join_any_more() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster) as consumer:
        group = consumer._group
        assert group is not None
        claims = Claims(frozenset({"t"}), (), (), -1, "the consumer begins")
        joining = Joining(group._coordinator, group._context.cluster, group.options, group.member, group.lock, claims)
        group.member.leave()
        assert isinstance(joining.run(), JoinFailure)
    assert cluster.requests(JoinGroupRequest) == []


@pytest.mark.feature(75)
def test_a_member_has_the_group_assign_anew_when_it_knows_more() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster) as consumer:
        consumer.poll(WAIT)
        consumer.enforce_rebalance("the loads have changed")
        while consumer.group_metadata.generation < 2:
            consumer.poll(0.05)
        assert cluster.requests(JoinGroupRequest)[-1].reason == "the loads have changed"


# ---- heartbeats and polls -------------------------------------------------------------------------------------------


@pytest.mark.feature(75)
def test_who_is_left_behind_is_told_what_it_lost_and_joins_as_somebody_new() -> None:
    cluster = filled({0: 3})
    diary = Diary()
    with consumer_of(cluster, listener=diary) as consumer:
        consumer.poll(WAIT)
        cluster.groups.forget("g", "member-1")
        while len(diary.entries) < 3:
            consumer.poll(0.05)
        assert diary.entries == [("assigned", [T[0]]), ("lost", [T[0]]), ("assigned", [T[0]])]
        assert consumer.group_metadata.member_id == "member-2"


@pytest.mark.rule(46)
@pytest.mark.story("evicted-member-that-committed-as-nobody")
def test_who_was_left_behind_commits_as_whom_it_was() -> None:
    """A transaction of its own, too: without a generation its offsets pass for those of one outside the group."""
    cluster = filled({0: 3})
    with consumer_of(cluster, commit="manual", heartbeat_interval=0.05) as consumer:
        consumer.poll(WAIT)
        before, group = consumer.group_metadata, consumer._group
        assert group is not None
        cluster.groups.forget("g", "member-1")
        wait_until(lambda: bool(group.member.lost))
        assert consumer.group_metadata == before
        with pytest.raises(ottla.CommitFailedError):
            consumer.commit()
        assert committed(cluster) == {}
        while consumer.group_metadata == before:
            consumer.poll(0.05)
        assert consumer.group_metadata.member_id == "member-2"


@pytest.mark.feature(75)
@pytest.mark.rule(47)
@pytest.mark.parametrize("assignors", ["range", "cooperative-sticky"])
def test_who_hears_by_its_last_commit_that_it_was_left_behind_keeps_nothing(assignors: str) -> None:
    cluster = filled({0: 3})
    diary = Diary()
    with consumer_of(cluster, listener=diary, assignors=assignors, heartbeat_interval=30) as consumer:
        assert len(consumer.poll(WAIT)) == 3
        cluster.groups.forget("g", "member-1")
        assert consumer._group is not None
        consumer._group.member.rejoin("the topics have changed")
        while len(diary.entries) < 3:
            consumer.poll(0.05)
        assert diary.entries == [("assigned", [T[0]]), ("lost", [T[0]]), ("assigned", [T[0]])]
        assert cluster.requests(JoinGroupRequest)[-1].member_id == "member-2"


@pytest.mark.feature(75)
@pytest.mark.rule(47)
def test_an_eager_member_gives_all_up_before_it_joins_again() -> None:
    cluster = filled({0: 3, 1: 3})
    diary = Diary()
    commits: list[Any] = []

    def on_revoked(partitions: Any) -> None:
        diary.on_revoked(partitions)
        consumer.commit()
        commits.append(committed(cluster))

    calls = {"on_assigned": diary.on_assigned, "on_lost": diary.on_lost, "on_revoked": on_revoked}
    with consumer_of(cluster, commit="manual", **calls) as consumer:
        until_joined(consumer, 2)
        while len(consumer.poll(0.2)):
            pass
        cluster.groups.rebalance("g")
        while len(diary.entries) < 3:
            consumer.poll(0.05)
        assert diary.entries == [("assigned", T[:2]), ("revoked", T[:2]), ("assigned", T[:2])]
        assert commits == [{0: 3, 1: 3}], "what is revoked may still be committed"
        owned = cluster.requests(JoinGroupRequest)
        assert consumer.group_metadata.generation == 2
        assert owned[-1].reason == "the group rebalances"


@pytest.mark.feature(70)
def test_a_cooperative_member_keeps_what_does_not_move() -> None:
    cluster = filled({0: 3, 1: 3})
    diary = Diary()
    with consumer_of(cluster, assignors="cooperative-sticky", listener=diary) as consumer:
        until_joined(consumer, 2)
        cluster.groups.rebalance("g")
        while len(diary.entries) < 2:
            consumer.poll(0.05)
        assert diary.entries == [("assigned", T[:2]), ("assigned", [])]


@pytest.mark.feature(70)
def test_a_cooperative_member_reads_on_while_the_others_are_waited_for() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, assignors="cooperative-sticky") as consumer:
        assert len(consumer.poll(WAIT)) == 3
        with ghost(cluster):
            cluster.groups.rebalance("g")
            while len(cluster.requests(JoinGroupRequest)) < 3:
                consumer.poll(0.02)
            fill(cluster, {0: 4})
            assert len(consumer.poll(WAIT)) == 4
            assert cluster.groups.group("g").generation == 1


@pytest.mark.feature(39)
@pytest.mark.parametrize("step", [1, 2], ids=["before joining", "after"])
def test_a_wake_up_between_two_steps_of_a_rebalance_leaves_none_out(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = filled({0: 3, 1: 3})
    diary = Diary()
    with consumer_of(cluster, assignors="cooperative-sticky", listener=diary) as consumer:
        until_joined(consumer, 2)
        group, calls = consumer._group, []
        assert group is not None
        commit = group.committer.commit_before_rebalance

        def interrupted() -> None:
            calls.append(step)
            if len(calls) == step:
                raise WakeupError
            commit()

        monkeypatch.setattr(group.committer, "commit_before_rebalance", interrupted)
        other = Member(consumer_of(cluster, assignors="cooperative-sticky"))
        woken = 0
        while len(consumer.assignment()) != 1 or len(other.owned) != 1:
            try:
                consumer.poll(0.05)
            except WakeupError:
                woken += 1
        assert woken == 1
        assert [(kind, len(some)) for kind, some in diary.entries if some] == [("assigned", 2), ("revoked", 1)]
        other.stop()


def test_what_was_committed_of_a_partition_is_forgotten_once_that_is_given_up() -> None:
    cluster = filled({0: 3, 1: 3})
    with consumer_of(cluster, assignors="cooperative-sticky", commit="manual") as consumer:
        until_joined(consumer, 2)
        consumer.commit(dict.fromkeys(T[:2], 1))
        group = consumer._group
        assert group is not None
        assert set(group.commits.known) == set(T[:2])
        other = Member(consumer_of(cluster, assignors="cooperative-sticky"))
        while len(consumer.assignment()) != 1 or len(other.owned) != 1:
            consumer.poll(0.05)
        assert set(group.commits.known) == set(consumer.assignment())
        other.stop()


@pytest.mark.feature(44)
def test_who_does_not_poll_leaves_says_why_and_comes_back() -> None:
    cluster = filled({0: 3})
    diary = Diary()
    with consumer_of(cluster, max_poll_interval=0.3, listener=diary, commit="manual") as consumer:
        consumer.poll(WAIT)
        cluster.until(lambda: bool(cluster.groups.group("g").left))
        ((member_id, reason),) = cluster.groups.group("g").left
        assert (member_id, "did not poll for 0.3 s (max_poll_interval)" in reason) == ("member-1", True)
        with pytest.raises(CommitFailedError, match=r"did not poll for 0.3 s"):
            consumer.commit()
        while len(diary.entries) < 3:
            consumer.poll(0.05)
        assert [kind for kind, _ in diary.entries] == ["assigned", "lost", "assigned"]


@pytest.mark.feature(80)
@pytest.mark.rule(45)
def test_a_static_member_comes_back_without_a_rebalance_and_who_was_replaced_is_told() -> None:
    cluster = filled({0: 3})
    first = consumer_of(cluster, group_instance_id="one")
    assert len(first.poll(WAIT)) == 3
    second = consumer_of(cluster, group_instance_id="one")
    until_joined(second, 1)
    wait_until(lambda: first._group is not None and first._group._heartbeats.error is not None)
    with pytest.raises(FencedInstanceError, match="a different group_instance_id for each consumer"):
        first.poll(WAIT)
    assert second.group_metadata.generation == 1
    second.close()
    assert cluster.groups.group("g").left == []
    first.close()


@pytest.mark.story("partitions-added-while-a-static-leader-was-away")
@pytest.mark.timeout(30)
def test_a_static_leader_that_comes_back_gives_out_partitions_that_were_added_meanwhile() -> None:
    cluster = filled({0: 3})
    first = consumer_of(cluster, group_instance_id="one")
    assert len(first.poll(WAIT)) == 3
    first.close()
    cluster.add_topic("t", 2)
    with consumer_of(cluster, group_instance_id="one", metadata_max_age=0.05) as again:
        until_joined(again, 2)
        assert "partitions" in cluster.requests(JoinGroupRequest)[-1].reason


def test_what_a_callback_raises_is_raised_and_the_group_goes_on() -> None:
    cluster = filled({0: 3})
    calls: list[str] = []

    def fail(partitions: Any) -> None:
        calls.append("assigned")
        if len(calls) == 1:
            raise ValueError("of the user's own")

    with consumer_of(cluster, on_assigned=fail) as consumer:
        with pytest.raises(ValueError, match="of the user's own"):
            consumer.poll(WAIT)
        assert len(consumer.poll(WAIT)) == 3
    with consumer_of(cluster, on_revoked=lambda _: 1 / 0, group="h") as consumer:
        assert len(consumer.poll(WAIT)) == 3
        with pytest.raises(ZeroDivisionError):
            consumer.close()
    assert cluster.groups.group("h").left == [("member-2", "the consumer was closed")]


@pytest.mark.feature(68)
def test_the_leader_gives_out_partitions_that_are_added() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, metadata_max_age=0.05) as consumer:
        assert len(consumer.poll(WAIT)) == 3
        cluster.add_topic("t", 2)
        until_joined(consumer, 2)
        assert "partitions" in cluster.requests(JoinGroupRequest)[-1].reason


@pytest.mark.story("partition-without-a-leader-stops-the-others")
@pytest.mark.timeout(30)
def test_a_partition_without_a_leader_is_read_when_it_has_one_and_stops_no_other() -> None:
    cluster = filled({0: 3, 1: 2})
    cluster.move_leader("t", 1, broker=-1, epoch=0)
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(WAIT)) == 3
        cluster.move_leader("t", 1, broker=0, epoch=1)
        got = [record.value for record in consumer.poll(WAIT)]
        while len(got) < 2:
            got += [record.value for record in consumer.poll(WAIT)]
        assert got == [0, 1]


@pytest.mark.story("partition-without-a-leader-is-read-again")
@pytest.mark.timeout(30)
def test_a_group_that_begins_at_the_end_begins_there_too_in_a_partition_that_has_no_leader_yet() -> None:
    cluster = filled({0: 3, 1: 2})
    cluster.move_leader("t", 1, broker=-1, epoch=0)
    with consumer_of(cluster, auto_offset_reset="latest") as consumer:
        while committed(cluster) != {0: 3}:
            consumer.poll(0.05)
        fill(cluster, {0: 1})
        assert len(consumer.poll(WAIT)) == 1
        cluster.move_leader("t", 1, broker=0, epoch=1)
        while committed(cluster).get(1) != 2:
            assert not consumer.poll(0.05), "records from before the group began"
        fill(cluster, {1: 1})
        assert len(consumer.poll(WAIT)) == 1


@pytest.mark.story("topic-away-at-a-rebalance-is-read-by-nobody")
@pytest.mark.timeout(30)
def test_a_topic_that_is_away_at_a_rebalance_is_read_when_it_is_there_again() -> None:
    cluster = filled({0: 3})
    cluster.add_topic("u", 1)
    with consumer_of(cluster, "t", "u", metadata_max_age=0.05) as consumer:
        until_joined(consumer, 2)
        cluster.drop_topic("u")
        cluster.groups.rebalance("g")
        while consumer.assignment() != {T[0]}:
            consumer.poll(0.05)
        cluster.add_topic("u", 2)
        until_joined(consumer, 3)
        fill(cluster, {0: 2, 1: 2}, topic="u")
        got: list[Any] = []
        while len([r for r in got if r.topic == "u"]) < 4:
            got += consumer.poll(WAIT)


@pytest.mark.story("deleted-topic-stops-a-member")
@pytest.mark.timeout(30)
def test_a_deleted_topic_keeps_no_other_partition_from_starting() -> None:
    cluster = filled({0: 3})
    cluster.add_topic("u", 1)
    with consumer_of(cluster, "t", "u", metadata_max_age=0.05, commit="manual") as consumer:
        until_joined(consumer, 2)
        cluster.drop_topic("u")
        consumer.seek_to_committed()
        got: list[Any] = []
        while len(got) < 3:
            got += consumer.poll(WAIT)


@pytest.mark.story("position-that-is-waited-for")
@pytest.mark.timeout(30)
def test_the_position_in_a_partition_without_a_leader_is_not_waited_for_longer_than_a_request() -> None:
    cluster = filled({0: 3, 1: 2})
    cluster.move_leader("t", 1, broker=-1, epoch=0)
    with consumer_of(cluster, request_timeout=1) as consumer:
        until_joined(consumer, 2)
        with pytest.raises(OttlaError, match=r"t-1 has neither a committed offset nor a leader"):
            consumer.position(T[1])


def test_a_pattern_follows_topics_that_are_new() -> None:
    cluster = filled({0: 3})
    cluster.add_topic("other", 1)
    with consumer_of(cluster, pattern="t.*", metadata_max_age=0.05) as consumer:
        assert len(consumer.poll(WAIT)) == 3
        assert consumer.assignment() == {T[0]}
        cluster.add_topic("t2", 1)
        until_joined(consumer, 2)
        fill(cluster, {0: 2}, topic="t2")
        assert len(consumer.poll(WAIT)) == 2


@pytest.mark.story("leader-that-forgets-no-topic")
@pytest.mark.timeout(60)
def test_a_leader_asks_no_more_for_topics_that_are_gone_and_sees_them_when_they_are_made_anew() -> None:
    cluster = filled({0: 3})
    cluster.add_topic("t2", 1)
    with consumer_of(cluster, pattern="t.*", metadata_max_age=0.05) as consumer:
        until_joined(consumer, 2)
        cluster.drop_topic("t2")
        while asked_for(cluster) != {"t"}:
            consumer.poll(0.05)
        assert consumer.assignment() == {T[0]}
        cluster.add_topic("t2", 2)
        until_joined(consumer, 3)
        fill(cluster, {0: 1, 1: 1}, topic="t2")
        got: list[Any] = []
        while len([r for r in got if r.topic == "t2"]) < 2:
            got += consumer.poll(WAIT)


@pytest.mark.story("leader-that-forgets-no-topic")
@pytest.mark.timeout(60)
def test_a_leader_asks_no_more_for_what_a_member_read_that_has_left() -> None:
    cluster = filled({0: 3})
    cluster.add_topic("u", 1)
    with consumer_of(cluster, metadata_max_age=0.05, client_id="leader") as leader:
        until_joined(leader, 1)
        other = Member(consumer_of(cluster, "u"))
        while set(other.owned) != {TopicPartition("u", 0)}:
            leader.poll(0.05)
        while asked_for(cluster) != {"t", "u"}:
            leader.poll(0.05)
        other.stop()
        while asked_for(cluster) != {"t"}:
            leader.poll(0.05)


def asked_for(cluster: ScriptedCluster) -> set[str]:
    """The topics in the last requests for the metadata, more than joinings make in a row."""
    requests = cluster.requests(MetadataRequest)
    return {topic.name for request in requests[-10:] for topic in request.topics or ()}


class Odd(Assignor):
    """Raises at first; then it gives out all but the last partition."""

    name = "odd"

    def __init__(self, failure: type[BaseException]) -> None:
        self.calls = 0
        self.failure = failure

    def assign(self, partitions_of: Mapping[str, int], members: Iterable[Subscriber]) -> Assignments:
        self.calls += 1
        if self.calls == 1:
            raise self.failure
        return {m.member_id: [TopicPartition("t", n) for n in range(partitions_of["t"] - 1)] for m in members}


@pytest.mark.feature(72)
@pytest.mark.story("assignor-that-exits")
@pytest.mark.parametrize("failure", [BrokenError, SystemExit])
def test_an_assignor_of_ones_own_may_fail_and_forget_something_and_the_group_goes_on(
    failure: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = filled({0: 3, 1: 3})
    with consumer_of(cluster, assignors=Odd(failure)) as consumer:
        with pytest.raises(failure):
            consumer.poll(WAIT)
        assert len(consumer.poll(WAIT)) == 3
        assert consumer.assignment() == {T[0]}
    assert "'odd' left 1 partition unassigned, such as t-1" in caplog.text


# ---- several --------------------------------------------------------------------------------------------------------


@pytest.mark.feature(62)
def test_groups_read_independently_and_take_nothing_away() -> None:
    cluster = filled({0: 30, 1: 20})

    def read(group: str, count: int) -> list[tuple[int, int]]:
        """So many records from where the group left off; it commits as its block ends."""
        got: list[tuple[int, int]] = []
        with consumer_of(cluster, group=group) as consumer:
            while len(got) < count:
                got += [(r.partition, r.offset) for r in consumer.poll(WAIT, max_records=count - len(got))]
        return got

    everything = {(0, n) for n in range(30)} | {(1, n) for n in range(20)}
    begun = read("slow", 10)
    assert set(read("fast", 50)) == everything, "what another group has read is there"
    rest = read("slow", 40)
    assert set(begun + rest) == everything
    assert len(begun + rest) == 50, "and it goes on where it was itself"
    assert cluster.values("t", 0) == [b"%d" % n for n in range(30)]


@pytest.mark.feature(63)
@pytest.mark.feature(64)
@pytest.mark.feature(67)
@pytest.mark.parametrize("assignors", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_share_the_partitions_and_whoever_is_one_too_many_has_none(assignors: str) -> None:
    cluster = filled(dict.fromkeys(range(2), 50))
    members = [Member(consumer_of(cluster, assignors=assignors)) for _ in range(3)]
    try:
        wait_until(lambda: sorted(len(m.owned) for m in members) == [0, 1, 1])
        wait_until(lambda: sum(len(m.got) for m in members) >= 100)
        leaders = {each.member_id for each in cluster.requests(SyncGroupRequest) if each.assignments}
        told = [join.member_id for join in cluster.requests(SyncGroupRequest) if not join.assignments]
        assert told
        assert leaders == {"member-1"}, "it came first, and nobody else sees what everybody has"
        members[0].stop()
        members[1].stop()
        wait_until(lambda: len(members[2].owned) == 2)
    finally:
        for member in members:
            member.stop()


async def test_the_same_with_asyncio() -> None:
    cluster = filled({0: 10})
    told: list[Any] = []
    arguments: dict[str, Any] = {
        "bootstrap": "b0:1",
        "group": "g",
        "auto_offset_reset": "earliest",
        "value": number,
        "fetch_max_wait": 0.05,
        "_transport": cluster.connect,
    }
    async with ottla.aio.Consumer("t", **arguments) as consumer:
        async for record in consumer:
            if record.value == 4:
                await consumer.commit()
                await consumer.commit_async(lambda offsets, error: told.append(error))
                break
        assert consumer.group_metadata.generation == 1
        assert (await consumer.committed())[T[0]] == OffsetAndMetadata(5)
        assert len(await consumer.poll(WAIT, max_records=2)) == 2
        async for record in consumer:
            if record.value == 8:
                break
    assert told == [None]
    assert committed(cluster) == {0: 8}


@pytest.mark.story("consumers-thread-dies-unmissed")
def test_heartbeats_that_fail_are_raised_once_and_begin_anew(caplog: pytest.LogCaptureFixture) -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(WAIT)) == 3
        assert consumer._group is not None
        heartbeats: Any = consumer._group._heartbeats
        failures = [MemoryError("no more")]
        send = heartbeats._send_heartbeat

        def send_or_fail(who: MemberIdentity) -> None:
            if failures:
                raise failures.pop()
            send(who)

        heartbeats._send_heartbeat = send_or_fail
        with pytest.raises(FatalError, match="one of the consumer's threads failed") as caught:
            consumer.poll(LIMIT_S)
        assert isinstance(caught.value.__cause__, MemoryError)
        sent = len(cluster.requests(HeartbeatRequest))
        fill(cluster, {0: 2})
        got: list[Any] = []
        while len(got) < 2 or len(cluster.requests(HeartbeatRequest)) <= sent:
            got += consumer.poll(0.05)
    assert "a consumer thread failed" in caplog.text


@pytest.mark.story("stop-in-a-topic-that-is-gone")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("count", [5, 20])
def test_a_group_that_reads_to_the_end_begins_a_topic_that_was_made_anew_at_its_beginning(count: int) -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster, stop="end") as consumer:
        assert len(list(consumer)) == 10
    cluster.drop_topic("t")
    cluster.add_topic("t", 1)
    fill(cluster, {0: count})
    with consumer_of(cluster, stop="end") as consumer:
        assert [record.offset for record in consumer] == list(range(count))


def test_a_consumer_that_nobody_has_any_more_leaves() -> None:
    cluster = filled({0: 3})
    for _ in consumer_of(cluster):
        break
    cluster.until(lambda: bool(cluster.groups.group("g").left))


def test_a_coordinator_that_hangs_is_left_for_the_one_that_took_over() -> None:
    cluster = ScriptedCluster({"t": 1}, brokers=2)
    fill(cluster, {0: 3})
    cluster.will(OFFSET_COMMIT, Hang())
    with consumer_of(cluster, commit="manual") as consumer:
        assert len(consumer.poll(WAIT)) == 3
        cluster.coordinator = 1
        consumer.commit()
    assert committed(cluster) == {0: 3}
    assert [a for a, body in cluster.seen if isinstance(body, OffsetCommitRequest)] == ["b0:1", "b1:1"]
