"""A consumer of a group against scripted brokers: joining, commits, and who is told what when."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest
from group_members import Diary, Member
from waiting import wait_until

import ottla.aio
from ottla.consumer import Consumer
from ottla.errors import (
    CommitFailedError,
    ConfigError,
    ErrorCode,
    FencedInstanceError,
    OffsetOutOfRangeError,
    OttlaError,
    RebalanceInProgressError,
    SerializationError,
    UnknownTopicError,
    WakeupError,
)
from ottla.group.joining import Claims, Joining, Refused
from ottla.group.offsets import OffsetAndMetadata
from ottla.machines.assignors import Assignments, Assignor, Subscriber
from ottla.producer import Producer
from ottla.reading import Reader
from ottla.scripted import Hang, Refuse, ScriptedCluster
from ottla.scripted_group import ScriptedMember
from ottla_core.model import TopicPartition
from ottla_proto import broker_pb2 as b
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group

WAIT = 10.0
T = [TopicPartition("t", n) for n in range(4)]


class BrokenError(Exception):
    """Of the user's own."""


def number(data: bytes) -> int:
    return int(data)


def filled(counts: dict[int, int], *, batch_size: int = 1000) -> ScriptedCluster:
    cluster = ScriptedCluster({"t": len(counts)})
    fill(cluster, counts, batch_size=batch_size)
    cluster.seen.clear()
    return cluster


def fill(cluster: ScriptedCluster, counts: dict[int, int], *, topic: str = "t", batch_size: int = 1000) -> None:
    with Producer[Any, Any](
        "b0:1", topic=topic, value="bytes", batch_size=batch_size, _transport=cluster.connect
    ) as producer:
        for partition, count in counts.items():
            for n in range(count):
                producer.send(b"%d" % n, partition=partition)


def consumer_of(cluster: ScriptedCluster, *topics: str, **arguments: Any) -> Consumer[Any, Any]:
    defaults = {
        "bootstrap": "b0:1",
        "group": "g",
        "auto_offset_reset": "earliest",
        "fetch_max_wait": 0.05,
        "heartbeat_interval": 0.05,
        "value": number,
    }
    named = topics or (() if "pattern" in arguments else ("t",))
    return Consumer(*named, **{**defaults, "_transport": cluster.connect, **arguments})


def committed(cluster: ScriptedCluster) -> dict[int, int]:
    with cluster.changed:
        return {p.partition: place.offset for p, place in cluster.groups.group("g").offsets.items()}


def until_joined(consumer: Consumer[Any, Any], partitions: int) -> None:
    while len(consumer.assignment()) < partitions:
        consumer.poll(0.05)


@contextmanager
def ghost(cluster: ScriptedCluster) -> Iterator[None]:
    """A member that never joins again: whoever joins waits for it."""
    with cluster.changed:
        cluster.groups.group("g").members["ghost"] = ScriptedMember("ghost", None, {"range": b""})
    yield
    with cluster.changed:
        cluster.groups.group("g").members.pop("ghost", None)


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
        assert consumer.group_metadata == ("g", 1, "member-1", None)
    asked = [body for _, body in cluster.seen]
    assert any(isinstance(body, b.MetadataRequest) and body.shards for body in asked)
    joins = cluster.requests(pb.JoinRequest)
    assert [join.member.member_id for join in joins] == ["", "member-1"]
    assert [p.name for p in joins[1].protocols] == ["range", "cooperative-sticky"]
    assert len(cluster.requests(pb.SyncRequest)[0].assignments) == 1


def test_nothing_is_joined_before_the_first_reading() -> None:
    cluster = filled({0: 1})
    consumer_of(cluster).close()
    assert cluster.seen == []


@pytest.mark.parametrize("method", [Group.JOIN, Group.SYNC, Group.FETCH_OFFSETS], ids=lambda m: m.name)
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
    cluster.will(method, Refuse(code), Refuse(code))
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(WAIT)) == 3


@pytest.mark.parametrize(
    ("method", "code"),
    [
        (Group.JOIN, ErrorCode.UNKNOWN_MEMBER_ID),
        (Group.JOIN, ErrorCode.REBALANCE_IN_PROGRESS),
        (Group.SYNC, ErrorCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_who_is_left_behind_while_it_joins_begins_anew(method: Any, code: int) -> None:
    cluster = filled({0: 3})
    cluster.will(method, Refuse(code))
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(WAIT)) == 3


@pytest.mark.parametrize("code", [ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.INCONSISTENT_GROUP_PROTOCOL])
def test_what_does_not_mend_is_raised(code: ErrorCode) -> None:
    cluster = filled({0: 3})
    cluster.will(Group.JOIN, Refuse(code, "no"))
    with consumer_of(cluster) as consumer:
        with pytest.raises(ConfigError, match="no"):
            consumer.poll(WAIT)
        assert len(consumer.poll(WAIT)) == 3


def test_a_group_that_nobody_coordinates_is_an_error_that_says_so() -> None:
    cluster = filled({0: 3})
    cluster.will(Group.JOIN, *[Refuse(ErrorCode.NOT_COORDINATOR, "not mine")] * 100)
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
            before = len(cluster.requests(pb.JoinRequest))
        with cluster.changed:
            cluster.groups._complete(cluster.groups.group("g"))
        assert len(consumer.poll(WAIT)) == 3
        assert len(cluster.requests(pb.JoinRequest)) == before, "the join that was under way is the one that counts"


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
        joining = Joining(group._coordinator, group._cluster, group.options, group.member, group.lock, claims)
        group.member.leave()
        assert isinstance(joining.run(), Refused)
    assert cluster.requests(pb.JoinRequest) == []


# ---- what is committed ----------------------------------------------------------------------------------------------


@pytest.mark.feature(78)
def test_a_loop_that_is_left_has_not_processed_the_record_at_hand() -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster) as consumer:
        for record in consumer:
            if record.value == 4:
                break
        assert consumer.position(T[0]) == 5
    assert committed(cluster) == {0: 4}


@pytest.mark.feature(78)
@pytest.mark.parametrize("batch_size", [70, 1000], ids=["single", "batched"])
def test_an_error_in_a_loop_keeps_what_was_not_processed(batch_size: int) -> None:
    cluster = filled({0: 10, 1: 10}, batch_size=batch_size)
    seen: list[tuple[int, int]] = []

    def read() -> None:
        with consumer_of(cluster) as consumer:
            for record in consumer:
                seen.append((record.partition, record.offset))
                if len(seen) == 14:
                    raise BrokenError

    with pytest.raises(BrokenError):
        read()
    done = seen[:-1]
    assert committed(cluster) == {p: sum(partition == p for partition, _ in done) for p in (0, 1)}
    with consumer_of(cluster) as again:
        rest = again.poll(WAIT).values()
        while len(rest) < 7:
            rest += again.poll(WAIT).values()
    assert len(rest) == 7


def test_whoever_goes_on_after_a_break_gets_the_next_record() -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster, stop=10) as consumer:
        first = [record.value for record in islice(consumer, 3)]
        batch = consumer.poll(WAIT, max_records=2).values()
        rest = [record.value for record in consumer]
    assert first + batch + rest == list(range(10))


def test_a_poll_is_processed_when_the_next_one_comes_or_the_block_ends_well() -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(WAIT, max_records=3)) == 3
        consumer.poll(WAIT, max_records=2)
    assert committed(cluster) == {0: 5}

    def read() -> None:
        with consumer_of(cluster) as consumer:
            assert consumer.poll(WAIT, max_records=1).values() == [5]
            consumer.poll(WAIT, max_records=1)
            raise BrokenError

    with pytest.raises(BrokenError):
        read()
    assert committed(cluster) == {0: 6}
    consumer = consumer_of(cluster)
    assert consumer.poll(WAIT, max_records=1).values() == [6]
    consumer.close()
    assert committed(cluster) == {0: 6}, "nobody can tell whether it was processed"


@pytest.mark.feature(47)
@pytest.mark.feature(48)
@pytest.mark.feature(49)
def test_auto_commits_come_from_time_to_time_and_of_what_earlier_polls_gave() -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster, auto_commit_interval=0.0) as consumer:
        consumer.poll(WAIT, max_records=3)
        consumer.poll(WAIT, max_records=3)
        wait_until(lambda: committed(cluster) == {0: 3})
        consumer.poll(WAIT, max_records=3)
        wait_until(lambda: committed(cluster) == {0: 6})
    with consumer_of(cluster, auto_commit_interval=60.0) as consumer:
        for _ in range(3):
            consumer.poll(0.1, max_records=3)
        assert committed(cluster) == {0: 9}, "which the end of the block before has committed"


@pytest.mark.feature(47)
@pytest.mark.parametrize("assignors", ["range", "cooperative-sticky"])
def test_what_is_processed_is_committed_before_the_others_are_joined_again(assignors: str) -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, assignors=assignors, auto_commit_interval=60.0) as consumer:
        assert len(consumer.poll(WAIT)) == 3
        cluster.groups.rebalance("g")
        while consumer.group_metadata.generation < 2:
            consumer.poll(0.05)
        assert committed(cluster) == {0: 3}
        asked = [type(body) for _, body in cluster.seen if isinstance(body, pb.JoinRequest | pb.CommitOffsetsRequest)]
        assert asked == [pb.JoinRequest, pb.JoinRequest, pb.CommitOffsetsRequest, pb.JoinRequest]


@pytest.mark.parametrize("when", ["while it waits for more", "at once"])
def test_what_was_gathered_is_handed_out_before_its_partitions_are_given_up(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = filled({0: 3})
    diary = Diary()
    with consumer_of(cluster, listener=diary) as consumer:
        until_joined(consumer, 1)
        consumer.seek(T[0], 0)
        take, group = Reader._take, consumer._group
        assert group is not None

        def take_and_rebalance(*arguments: Any) -> Any:
            monkeypatch.undo()
            part = take(*arguments)
            group.member.rejoin("news")
            return part

        if when == "at once":
            monkeypatch.setattr(Reader, "_take", take_and_rebalance)
        else:
            threading.Timer(0.2, cluster.groups.rebalance, ["g"]).start()
        batch = next(consumer.batches(max_records=10, max_wait=1.0))
        assert batch.values() == [0, 1, 2]
        assert diary.entries == [("assigned", [T[0]])]
        assert committed(cluster) == {}
        while len(diary.entries) < 3:
            consumer.poll(0.05)
        assert committed(cluster) == {0: 3}


def test_what_others_have_committed_meanwhile_is_not_taken_for_ones_own() -> None:
    cluster = filled({0: 3})
    places = iter([0, 3])
    with consumer_of(cluster, on_assigned=lambda some: consumer.seek(some[0], next(places))) as consumer:
        assert len(consumer.poll(WAIT)) == 3
        cluster.groups.rebalance("g")
        while consumer.group_metadata.generation < 2:
            if not consumer.poll(0.05) and committed(cluster) == {0: 3}:
                with cluster.changed:
                    cluster.groups.group("g").offsets[T[0]].offset = 1
    assert committed(cluster) == {0: 3}


def test_a_reader_that_waits_commits_in_time_too() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, auto_commit_interval=0.2) as consumer:
        member = threading.Thread(target=lambda: [None for _ in consumer])
        member.start()
        wait_until(lambda: committed(cluster) == {0: 3})
        consumer.close()
        member.join(WAIT)


@pytest.mark.feature(78)
def test_at_most_once_commits_before_anything_is_handed_out() -> None:
    cluster = filled({0: 10})

    def read() -> None:
        with consumer_of(cluster, commit="at_most_once") as consumer:
            for record in consumer:
                assert committed(cluster)[0] > record.offset
                if record.value == 4:
                    raise BrokenError

    with pytest.raises(BrokenError):
        read()
    assert committed(cluster) == {0: 5}, "what it did not come to is there for the next"
    with consumer_of(cluster, commit="at_most_once") as consumer:
        assert consumer.poll(WAIT, max_records=2).values() == [5, 6]
        assert committed(cluster) == {0: 7}


def test_at_most_once_hands_out_nothing_that_it_could_not_commit() -> None:
    cluster = filled({0: 3})
    cluster.will(Group.COMMIT_OFFSETS, Refuse(ErrorCode.REBALANCE_IN_PROGRESS))
    with consumer_of(cluster, commit="at_most_once") as consumer:
        assert consumer.poll(WAIT, max_records=1).values() == [0]
        cluster.groups.forget("g", "member-1")
        with cluster.changed:  # another one has read on meanwhile
            cluster.groups.group("g").offsets[T[0]].offset = 2
        assert consumer.poll(WAIT).values() == [2]
        assert committed(cluster) == {0: 3}


def test_manual_means_that_nothing_else_commits() -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster, commit="manual", auto_commit_interval=0.0) as consumer:
        for _ in range(3):
            consumer.poll(WAIT, max_records=2)
        consumer.commit()
        consumer.poll(WAIT, max_records=2)
    assert committed(cluster) == {0: 6}


@pytest.mark.feature(50)
@pytest.mark.feature(53)
@pytest.mark.rule(67)
def test_a_commit_is_of_all_that_was_handed_out_or_of_what_it_is_given() -> None:
    cluster = filled({0: 10, 1: 0})
    with consumer_of(cluster, commit="manual") as consumer:
        for record in consumer:
            if record.value == 4:
                consumer.commit()
                break
        assert consumer.committed()[T[0]] == OffsetAndMetadata(5)
        consumer.poll(WAIT, max_records=5)
        consumer.commit()
        assert consumer.committed(T[0]) == {T[0]: OffsetAndMetadata(10, "", 0)}, "with its epoch, where that is known"
        consumer.commit({T[0]: 2, ("t", 1): OffsetAndMetadata(0, "a note", 3)})
        assert consumer.committed() == {T[0]: OffsetAndMetadata(2), T[1]: OffsetAndMetadata(0, "a note", 3)}
        with pytest.raises(ConfigError, match="is no offset"):
            consumer.commit({T[0]: -1})
        consumer.commit({})
        with pytest.raises(ConfigError, match="no group"):
            Consumer("t", bootstrap="b0:1").commit()


@pytest.mark.feature(50)
def test_a_commit_is_tried_until_it_succeeds() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, commit="manual") as consumer:
        consumer.poll(WAIT)
        steps = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NETWORK_EXCEPTION)
        cluster.will(Group.COMMIT_OFFSETS, *map(Refuse, steps))
        consumer.commit()
    assert committed(cluster) == {0: 3}


@pytest.mark.feature(50)
def test_a_commit_that_can_not_succeed_says_why_and_what_to_do() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, commit="manual") as consumer:
        with pytest.raises(CommitFailedError, match="not in the group"):
            consumer.commit({T[0]: 1})
        consumer.poll(WAIT)
        cluster.will(Group.COMMIT_OFFSETS, Refuse(ErrorCode.OFFSET_METADATA_TOO_LARGE, "too much"))
        with pytest.raises(OttlaError, match="too much"):
            consumer.commit()
        cluster.will(Group.COMMIT_OFFSETS, Refuse(ErrorCode.REBALANCE_IN_PROGRESS, "it rebalances"))
        with pytest.raises(RebalanceInProgressError, match="read on"):
            consumer.commit()
        cluster.will(Group.COMMIT_OFFSETS, *[Refuse(ErrorCode.NOT_COORDINATOR, "elsewhere")] * 50)
        with pytest.raises(OttlaError, match=r"elsewhere|within"):
            consumer.commit(timeout=0.3)
        cluster.forget(Group.COMMIT_OFFSETS)
        cluster.groups.forget("g", "member-1")
        with pytest.raises(CommitFailedError) as caught:
            consumer.commit()
        for words in ("has rebalanced without this consumer", "reads again from the last commit", "max_poll_records"):
            assert words in str(caught.value)
    assert committed(cluster) == {}


@pytest.mark.feature(39)
def test_whoever_waits_for_a_commit_can_be_woken_and_closed() -> None:
    cluster = filled({0: 3})
    consumer = consumer_of(cluster, commit="manual")
    consumer.poll(WAIT)
    cluster.will(Group.COMMIT_OFFSETS, *[Refuse(ErrorCode.NOT_COORDINATOR)] * 1000)
    began_at = time.monotonic()
    threading.Timer(0.2, consumer.wakeup).start()
    with pytest.raises(WakeupError):
        consumer.commit()
    closer = threading.Timer(0.2, consumer.close)
    closer.start()
    with pytest.raises(ConfigError, match="closed"):
        consumer.commit()
    closer.join(WAIT)
    assert not closer.is_alive()
    assert time.monotonic() - began_at < WAIT / 2


@pytest.mark.feature(51)
@pytest.mark.feature(52)
def test_an_async_commit_is_tried_once_told_of_and_never_overtaken() -> None:
    cluster = filled({0: 10})
    told: list[Any] = []

    def on_committed(offsets: Any, error: OttlaError | None) -> None:
        told.append((offsets[T[0]].offset, error and error.code))

    with consumer_of(cluster, commit="manual") as consumer:
        consumer.poll(WAIT, max_records=2)
        cluster.will(Group.COMMIT_OFFSETS, Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        consumer.commit_async(on_committed)
        for offset in (3, 4, 5):
            consumer.commit_async(on_committed, offsets={T[0]: offset})
        consumer.commit_async()
        consumer.poll(WAIT, max_records=2)
        consumer.commit()
        consumer.poll(0.05)
        assert told == [(2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), (3, None), (4, None), (5, None)]
        consumer.commit_async(on_committed)
        wait_until(lambda: consumer.poll(0.05) is not None and len(told) == 5)
    offsets = [each.offsets[0].offset for each in cluster.requests(pb.CommitOffsetsRequest)]
    assert offsets == [2, 3, 4, 5, 2, 4, 10]
    assert committed(cluster) == {0: 10}


def test_a_seek_within_a_loop_counts() -> None:
    cluster = filled({0: 10, 1: 10})
    with consumer_of(cluster, commit="manual", stop=15) as consumer:
        values: dict[int, list[int]] = {0: [], 1: []}
        for record in consumer:
            values[record.partition].append(record.value)
            if record.value == 2 and not (values[0] and values[1]):
                consumer.seek((record.topic, record.partition), 8)
    assert sorted(values.values()) == [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 1, 2, 8, 9]]


@pytest.mark.parametrize("each", [5, 10], ids=["all of it fetched", "some left"])
def test_a_pause_within_a_loop_counts_at_once(each: int) -> None:
    cluster = filled({0: each, 1: each})
    with consumer_of(cluster, stop=2 * each) as consumer:
        places = []
        for record in consumer:
            places.append((record.partition, record.offset))
            if len(places) == 3:  # in the middle of a step
                consumer.pause((record.topic, paused := record.partition))
            if len(places) >= 8 and consumer.paused():
                consumer.resume()
    assert paused not in [partition for partition, _ in places[3:8]]
    assert sorted(places) == [(partition, offset) for partition in (0, 1) for offset in range(each)]


def test_a_record_that_can_not_be_read_is_not_passed_over() -> None:
    cluster = filled({0: 2})
    with Producer[Any, Any]("b0:1", topic="t", value="bytes", _transport=cluster.connect) as producer:
        producer.send(b"poison", partition=0)
        producer.send(b"3", partition=0)
    with consumer_of(cluster) as consumer:
        values: list[int] = []
        for _ in range(2):
            with pytest.raises(SerializationError, match="offset 2"):
                values.extend(record.value for record in consumer)
        consumer.seek(T[0], 3)
        assert next(iter(consumer)).value == 3
        assert values == [0, 1]
    with consumer_of(cluster, on_bad_record="skip", group="h") as consumer:
        assert consumer.poll(WAIT).values() == [0, 1, 3]


# ---- where it begins ------------------------------------------------------------------------------------------------


@pytest.mark.feature(46)
def test_without_a_commit_it_begins_where_it_is_told() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, auto_offset_reset=None) as consumer:
        until_joined(consumer, 1)
        assert consumer.position(T[0]) == 3
    with consumer_of(cluster, group="h", auto_offset_reset="none") as consumer:
        with pytest.raises(OffsetOutOfRangeError, match=r"'h' has committed nothing for t-0.*seek"):
            consumer.poll(WAIT)
        consumer.seek(T[0], 1)
        assert consumer.poll(WAIT).values() == [1, 2]


@pytest.mark.feature(54)
@pytest.mark.feature(75)
def test_whoever_seeks_when_it_is_assigned_begins_there() -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster, on_assigned=lambda some: [consumer.seek(p, 7) for p in some]) as consumer:
        assert consumer.poll(WAIT).values() == [7, 8, 9]


def test_whoever_seeks_while_it_is_looked_up_where_to_begin_stays_there() -> None:
    cluster = filled({0: 10})
    cluster.will(Group.FETCH_OFFSETS, *[Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 4)
    with consumer_of(cluster) as consumer:
        while not consumer.assignment():
            consumer.poll(0.01)
        consumer.seek(T[0], 7)
        cluster.until(lambda: len(cluster.requests(pb.FetchOffsetsRequest)) == 5)
        assert consumer.poll(WAIT).values() == [7, 8, 9]


@pytest.mark.rule(67)
def test_a_log_that_was_truncated_below_the_committed_offset_is_noticed() -> None:
    cluster = filled({0: 10}, batch_size=70)
    with consumer_of(cluster) as consumer:
        count = 0
        while count < 10:
            count += len(consumer.poll(WAIT))
    assert cluster.groups.group("g").offsets[T[0]].leader_epoch == 0
    cluster.lose("t", 0, after=5)
    cluster.move_leader("t", 0, broker=0, epoch=1)
    fill(cluster, {0: 8}, batch_size=70)
    with consumer_of(cluster) as consumer:
        assert consumer.poll(WAIT).values()[0] == 0, "what is there from 5 on was never read"
        assert consumer.metrics["truncation-total"] == 1


def test_a_member_reads_to_the_end_and_stops() -> None:
    cluster = filled({0: 5, 1: 7})
    with consumer_of(cluster, stop="end") as consumer:
        assert len(list(consumer)) == 12
        assert consumer.finished
    assert committed(cluster) == {0: 5, 1: 7}
    with consumer_of(cluster, stop=3, group="h") as consumer:
        assert len(list(consumer)) == 3


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
        assert cluster.requests(pb.JoinRequest)[-1].member.member_id == "member-2"


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
        owned = cluster.requests(pb.JoinRequest)
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
            while len(cluster.requests(pb.JoinRequest)) < 3:
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
        commit = group._commit_before_rebalance

        def interrupted() -> None:
            calls.append(step)
            if len(calls) == step:
                raise WakeupError
            commit()

        monkeypatch.setattr(group, "_commit_before_rebalance", interrupted)
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
    with pytest.raises(FencedInstanceError, match="group_instance_id of its own"):
        first.poll(WAIT)
    assert second.group_metadata.generation == 1
    second.close()
    assert cluster.groups.group("g").left == []
    first.close()


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
        assert "partitions" in cluster.requests(pb.JoinRequest)[-1].reason


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


class Odd(Assignor):
    """Raises at first; then it gives out all but the last partition."""

    name = "odd"

    def __init__(self) -> None:
        self.calls = 0

    def assign(self, partitions_of: Mapping[str, int], members: Iterable[Subscriber]) -> Assignments:
        self.calls += 1
        if self.calls == 1:
            raise BrokenError
        return {m.member_id: [TopicPartition("t", n) for n in range(partitions_of["t"] - 1)] for m in members}


@pytest.mark.feature(72)
def test_an_assignor_of_ones_own_may_fail_and_forget_something_and_the_group_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = filled({0: 3, 1: 3})
    with consumer_of(cluster, assignors=Odd()) as consumer:
        with pytest.raises(BrokenError):
            consumer.poll(WAIT)
        assert len(consumer.poll(WAIT)) == 3
        assert consumer.assignment() == {T[0]}
    assert "'odd' gives 1 partitions to nobody, such as t-1" in caplog.text


# ---- several --------------------------------------------------------------------------------------------------------


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
        leaders = {each.member.member_id for each in cluster.requests(pb.SyncRequest) if each.assignments}
        told = [join.member.member_id for join in cluster.requests(pb.SyncRequest) if not join.assignments]
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
    arguments = {
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


def test_a_consumer_that_nobody_has_any_more_leaves() -> None:
    cluster = filled({0: 3})
    for _ in consumer_of(cluster):
        break
    cluster.until(lambda: bool(cluster.groups.group("g").left))


def test_a_coordinator_that_hangs_is_left_for_the_one_that_took_over() -> None:
    cluster = ScriptedCluster({"t": 1}, brokers=2)
    fill(cluster, {0: 3})
    cluster.will(Group.COMMIT_OFFSETS, Hang())
    with consumer_of(cluster, commit="manual") as consumer:
        assert len(consumer.poll(WAIT)) == 3
        cluster.coordinator = 1
        consumer.commit()
    assert committed(cluster) == {0: 3}
    assert [a for a, body in cluster.seen if isinstance(body, pb.CommitOffsetsRequest)] == ["b0:1", "b1:1"]
