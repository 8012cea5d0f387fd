"""What a consumer of a group commits and when, and where it goes on, against scripted brokers."""

import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import scripted_groups
from group_members import Diary
from scripted_groups import (
    WAIT,
    BrokenError,
    T,
    committed,
    consumer_of,
    fill,
    filled,
    make_anew,
    reset_in_hand,
    until_joined,
)
from scripted_requests import parts_of
from waiting import wait_until

from ottla.client.kafka.apis import OFFSET_COMMIT, OFFSET_FETCH
from ottla.client.offsets import OffsetAndMetadata
from ottla.consumer.consumer import Consumer
from ottla.consumer.group.commits import Commits
from ottla.consumer.reader import RecordReader
from ottla.errors import (
    CommitFailedError,
    ConfigError,
    ErrorCode,
    OffsetOutOfRangeError,
    OttlaError,
    RebalanceInProgressError,
    SerializationError,
    UnknownTopicError,
    WakeupError,
)
from ottla.fakes.scripted import Hold, Reject
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import JoinGroupRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest

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


@pytest.mark.story("closing-takes-a-commit-back")
@pytest.mark.parametrize("how", ["commit", "commit_async"])
def test_closing_does_not_take_back_what_the_user_committed(how: str) -> None:
    cluster = filled({0: 10})
    consumer = consumer_of(cluster)
    assert len(consumer.poll(WAIT, max_records=4)) == 4
    getattr(consumer, how)()
    consumer.close()
    assert committed(cluster) == {0: 4}


def test_a_consumer_that_went_back_behind_its_commit_ends_where_it_is() -> None:
    cluster = filled({0: 10})
    consumer = consumer_of(cluster)
    assert len(consumer.poll(WAIT, max_records=8)) == 8
    consumer.commit()
    consumer.seek(T[0], 2)
    assert consumer.poll(WAIT, max_records=1).values() == [2]
    assert consumer.poll(WAIT, max_records=1).values() == [3]
    consumer.close()
    assert committed(cluster) == {0: 3}


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
        asked = [type(body) for _, body in cluster.seen if isinstance(body, JoinGroupRequest | OffsetCommitRequest)]
        assert asked == [JoinGroupRequest, JoinGroupRequest, OffsetCommitRequest, JoinGroupRequest]


@pytest.mark.parametrize("when", ["while it waits for more", "at once"])
def test_what_was_gathered_is_handed_out_before_its_partitions_are_given_up(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = filled({0: 3})
    diary = Diary()
    with consumer_of(cluster, listener=diary) as consumer:
        until_joined(consumer, 1)
        consumer.seek(T[0], 0)
        take, group = RecordReader._take, consumer._group
        assert group is not None

        def take_and_rebalance(*arguments: Any) -> Any:
            monkeypatch.undo()
            part = take(*arguments)
            group.member.rejoin("news")
            return part

        if when == "at once":
            monkeypatch.setattr(RecordReader, "_take", take_and_rebalance)
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
    places, rebalances = iter([0, 3]), iter(["the first"])
    consumer: Consumer[Any, Any]

    def let_another_member_commit(_: object) -> None:
        if next(rebalances, None):
            assert committed(cluster) == {0: 3}
            with cluster.changed:
                cluster.groups.group("g").offsets[T[0]].offset = 1

    with consumer_of(
        cluster,
        on_assigned=lambda some: consumer.seek(some[0], next(places)),
        on_revoked=let_another_member_commit,
    ) as consumer:
        assert len(consumer.poll(WAIT)) == 3
        cluster.groups.rebalance("g")
        while consumer.group_metadata.generation < 2:
            consumer.poll(0.05)
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
    cluster.will(OFFSET_COMMIT, Reject(ErrorCode.REBALANCE_IN_PROGRESS))
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
        with pytest.raises(ConfigError, match="is not an offset"):
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
        cluster.will(OFFSET_COMMIT, *map(Reject, steps))
        consumer.commit()
    assert committed(cluster) == {0: 3}


@pytest.mark.feature(50)
def test_a_commit_that_can_not_succeed_says_why_and_what_to_do() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, commit="manual") as consumer:
        with pytest.raises(CommitFailedError, match="not in the group"):
            consumer.commit({T[0]: 1})
        consumer.poll(WAIT)
        cluster.will(OFFSET_COMMIT, Reject(ErrorCode.OFFSET_METADATA_TOO_LARGE, "too much"))
        with pytest.raises(OttlaError, match="too much"):
            consumer.commit()
        cluster.will(OFFSET_COMMIT, Reject(ErrorCode.REBALANCE_IN_PROGRESS, "it rebalances"))
        with pytest.raises(RebalanceInProgressError, match="keep reading"):
            consumer.commit()
        cluster.will(OFFSET_COMMIT, *[Reject(ErrorCode.NOT_COORDINATOR, "elsewhere")] * 50)
        with pytest.raises(OttlaError, match=r"not committed within 0\.3 s; the last attempt failed with: elsewhere"):
            consumer.commit(timeout=0.3)
        cluster.forget(OFFSET_COMMIT)
        cluster.groups.forget("g", "member-1")
        with pytest.raises(CommitFailedError) as caught:
            consumer.commit()
        for words in (
            "has rebalanced without this consumer",
            "start at the last committed offsets",
            "max_poll_records",
        ):
            assert words in str(caught.value)
    assert committed(cluster) == {}


@pytest.mark.feature(39)
def test_whoever_waits_for_a_commit_can_be_woken_and_closed() -> None:
    cluster = filled({0: 3})
    consumer = consumer_of(cluster, commit="manual")
    consumer.poll(WAIT)
    cluster.will(OFFSET_COMMIT, *[Reject(ErrorCode.NOT_COORDINATOR)] * 1000)
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
        cluster.will(OFFSET_COMMIT, Reject(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
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
    offsets = [parts_of(each)[0].committed_offset for each in cluster.requests(OffsetCommitRequest)]
    begun = iter([2, 3, 4, 5, 2, 4, 10])
    assert all(offset in begun for offset in offsets), "what waits goes out together, with its newest offset"
    assert (offsets[0], offsets[-1]) == (2, 10)
    assert committed(cluster) == {0: 10}


@pytest.mark.story("commits-that-pile-up")
@pytest.mark.parametrize("is_told", [False, True])
def test_a_thousand_commits_that_wait_are_one_request(is_told: bool) -> None:
    cluster = filled({0: 10, 1: 10})
    told: list[int] = []
    callback = (lambda offsets, error: told.append(sum(each.offset for each in offsets.values()))) if is_told else None
    with consumer_of(cluster, commit="manual") as consumer:
        assert consumer.poll(WAIT)
        cluster.will(OFFSET_COMMIT, Hold())
        consumer.commit_async(callback, offsets={T[0]: 1})
        cluster.until(lambda: len(cluster.requests(OffsetCommitRequest)) == 1)
        for n in range(1000):
            consumer.commit_async(callback, offsets={T[n % 2]: n})
        cluster.release()
    assert len(cluster.requests(OffsetCommitRequest)) == 2
    assert committed(cluster) == {0: 998, 1: 999}
    assert told == ([1, *range(1000)] if is_told else [])


def test_a_failed_partition_fails_no_commit_of_other_partitions() -> None:
    cluster = filled({0: 10, 1: 10})
    told: dict[int, OttlaError | None] = {}
    with consumer_of(cluster, commit="manual") as consumer:
        assert consumer.poll(WAIT)
        cluster.will(OFFSET_COMMIT, Hold())
        consumer.commit_async(offsets={T[0]: 1})
        cluster.until(lambda: len(cluster.requests(OffsetCommitRequest)) == 1)
        elsewhere = OffsetAndMetadata(7, topic_id=bytes(range(16)))
        consumer.commit_async(lambda _, error: told.update({0: error}), offsets={T[0]: 2, T[1]: elsewhere})
        consumer.commit_async(lambda _, error: told.update({1: error}), offsets={T[0]: 3})
        cluster.release()
        wait_until(lambda: consumer.poll(0.01) is not None and len(told) == 2)
    assert isinstance(told[0], UnknownTopicError)
    assert told[1] is None
    assert committed(cluster) == {0: 3}


@pytest.mark.story("more-partitions-than-one-call-takes")
def test_offsets_of_many_partitions_are_fetched_and_committed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla_core.rpc.parts.PARTITIONS_AT_ONCE", 3)
    cluster = filled(dict.fromkeys(range(8), 2))
    with consumer_of(cluster, commit="manual") as consumer:
        read = 0
        while read < 16:
            read += len(consumer.poll(WAIT))
        consumer.commit()
    assert [len(each.groups[0].topics[0].partition_indexes) for each in cluster.requests(OffsetFetchRequest)] == [
        3,
        3,
        2,
    ]
    assert [len(parts_of(each)) for each in cluster.requests(OffsetCommitRequest)] == [3, 3, 2]
    assert committed(cluster) == dict.fromkeys(range(8), 2)


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
        with pytest.raises(OffsetOutOfRangeError, match=r"'h' has no committed offset for t-0.*seek"):
            consumer.poll(WAIT)
        consumer.seek(T[0], 1)
        assert consumer.poll(WAIT).values() == [1, 2]


@pytest.mark.feature(54)
@pytest.mark.feature(75)
def test_whoever_seeks_when_it_is_assigned_begins_there() -> None:
    cluster = filled({0: 10})
    consumer: Consumer[Any, Any]
    with consumer_of(cluster, on_assigned=lambda some: [consumer.seek(p, 7) for p in some]) as consumer:
        assert consumer.poll(WAIT).values() == [7, 8, 9]


def test_whoever_seeks_while_it_is_looked_up_where_to_begin_stays_there() -> None:
    cluster = filled({0: 10})
    cluster.will(OFFSET_FETCH, *[Reject(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 4)
    with consumer_of(cluster) as consumer:
        while not consumer.assignment():
            consumer.poll(0.01)
        consumer.seek(T[0], 7)
        cluster.until(lambda: len(cluster.requests(OffsetFetchRequest)) == 5)
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


@pytest.mark.story("commits-of-a-topic-made-anew")
def test_a_topic_that_is_recreated_while_a_consumer_starts_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(WAIT)) == 10
    fetch = Commits.fetch

    def fetch_in_time(self: Commits, *arguments: Any) -> Any:
        found = fetch(self, *arguments)
        cluster.drop_topic("t")
        cluster.add_topic("t", 1)
        fill(cluster, {0: 30})
        asked = len(cluster.requests(MetadataRequest))
        cluster.until(lambda: len(cluster.requests(MetadataRequest)) >= asked + 2)  # the consumer knows the new topic
        return found

    monkeypatch.setattr(Commits, "fetch", fetch_in_time)
    with consumer_of(cluster, metadata_max_age=0.05) as consumer:
        assert [r.offset for r in consumer.poll(WAIT)] == list(range(30))
    assert "recreated" in caplog.text


def test_an_offset_of_a_former_topic_is_not_a_position_in_its_successor() -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(WAIT)) == 10
    assert committed(cluster) == {0: 10}
    cluster.drop_topic("t")
    cluster.add_topic("t", 1)
    fill(cluster, {0: 30})
    with consumer_of(cluster) as consumer:
        assert [r.offset for r in consumer.poll(WAIT)] == list(range(30))


@pytest.mark.story("commit-that-a-late-coordinator-refused")
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_commit_is_tried_again_while_the_brokers_know_the_topic_and_the_coordinator_lags(code: ErrorCode) -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, commit="manual") as consumer:
        assert len(consumer.poll(WAIT)) == 3
        cluster.will(OFFSET_COMMIT, *[Reject(code)] * 3)
        consumer.commit(timeout=WAIT)
        assert len(cluster.requests(OffsetCommitRequest)) == 4
    assert committed(cluster) == {0: 3}


def test_a_commit_into_a_topic_that_is_another_now_is_not_tried_again() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, commit="manual", metadata_max_age=0.05) as consumer:
        offsets = consumer.poll(WAIT).offsets
        make_anew(cluster, consumer)
        before = len(cluster.requests(OffsetCommitRequest))
        with pytest.raises(OttlaError) as raised:
            consumer.commit(offsets, timeout=WAIT)
        assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_ID
        assert len(cluster.requests(OffsetCommitRequest)) == before + 1


def _commit_later(consumer: Consumer[Any, Any], offsets: Any) -> None:
    done: list[OttlaError | None] = []
    consumer.commit_async(lambda _, error: done.append(error), offsets=offsets)
    while not done:
        consumer.poll(0.01)
    if done[0] is not None:
        raise done[0]


def _commit_now(consumer: Consumer[Any, Any], offsets: Any) -> None:
    consumer.commit(offsets, timeout=WAIT)


@pytest.mark.story("offsets-of-the-topic-that-was-read")
@pytest.mark.parametrize("commit", [_commit_now, _commit_later])
def test_what_was_read_before_its_topic_was_made_anew_is_committed_nowhere(commit: Any) -> None:
    cluster = filled({0: 10})
    cluster.add_topic("u", 1)
    with consumer_of(cluster, "t", "u", commit="manual", metadata_max_age=0.05) as consumer:
        offsets = consumer.poll(WAIT).offsets
        make_anew(cluster, consumer)
        with pytest.raises(UnknownTopicError, match="another topic"):
            commit(consumer, {**offsets, ("u", 0): 0})
        assert cluster.groups.group("g").offsets.keys() == {("u", 0)}
        consumer.commit({T[0]: consumer.position(T[0])}, timeout=WAIT)
        assert committed(cluster) == {0: 0}, "where it is in the new one, though nothing was read of it"
        with pytest.raises(UnknownTopicError):
            commit(consumer, offsets)
        consumer.seek(T[0], 0)
        consumer.commit({T[0]: 3}, timeout=WAIT)
        assert committed(cluster) == {0: 3}, "who has moved knows of it"


@pytest.mark.story("late-commit-of-what-nobody-read")
def test_offsets_of_a_partition_of_which_nothing_was_read_are_of_the_topic_that_was_assigned() -> None:
    """Its own progress is committed by who copies, or reads by other means."""
    cluster = filled({0: 10})
    consumer: Consumer[Any, Any]
    with consumer_of(cluster, commit="manual", on_assigned=lambda given: consumer.pause(*given)) as consumer:
        until_joined(consumer, 1)
        assert consumer.position(T[0]) == 0
        cluster.drop_topic("t")
        cluster.add_topic("t", 1)
        with pytest.raises(UnknownTopicError, match="another topic"):
            consumer.commit({T[0]: 5}, timeout=WAIT)
    assert committed(cluster) == {}


def test_what_is_read_of_a_topic_that_was_made_anew_is_committed_in_it() -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster, commit="manual", metadata_max_age=0.05) as consumer:
        assert len(consumer.poll(WAIT)) == 10
        make_anew(cluster, consumer, records=30)
        batch = consumer.poll(WAIT, max_records=20)
        consumer.commit({T[0]: batch[9].offset + 1}, timeout=WAIT)
        assert committed(cluster) == {0: 10}


@pytest.mark.story("same-offset-in-another-topic")
def test_the_same_offset_in_a_topic_that_was_made_anew_is_committed_as_well() -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster, metadata_max_age=0.05, auto_commit_interval=0.05) as consumer:
        assert len(consumer.poll(WAIT)) == 10
        while committed(cluster) != {0: 10}:
            consumer.poll(0.05)
        make_anew(cluster, consumer, records=10)
        assert len(consumer.poll(WAIT)) == 10
    # A first poll that takes longer than the interval commits the offset 0, too.
    requests = cluster.requests(OffsetCommitRequest)
    commits = [commit for commit in requests if any(part.committed_offset for part in parts_of(commit))]
    assert [part.committed_offset for commit in commits for part in parts_of(commit)] == [10, 10]
    assert commits[0].topics[0].topic_id != commits[1].topics[0].topic_id


@pytest.mark.story("interrupted-reading-of-another-topic")
def test_what_an_interrupt_took_back_was_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = filled({0: 10})
    with consumer_of(cluster, commit="manual", metadata_max_age=0.05) as consumer:
        offsets = consumer.poll(WAIT).offsets
        make_anew(cluster, consumer, records=30)
        with monkeypatch.context() as patched:
            patched.setattr(RecordReader, "on_handed_out", _ctrl_c)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(WAIT)
        with pytest.raises(UnknownTopicError):
            consumer.commit(offsets, timeout=WAIT)
        assert consumer.poll(WAIT).first_offsets == {T[0]: 0}


def _ctrl_c(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_a_poll_of_another_topic_gave_is_not_taken_for_a_place_in_it() -> None:
    """The position is after what the poll before the end has given, of which nobody knows whether it is processed."""
    cluster = filled({0: 10})
    consumer = consumer_of(cluster, auto_offset_reset="latest", metadata_max_age=0.05, auto_commit_interval=1000.0)
    until_joined(consumer, 1)
    consumer.seek(T[0], 5)
    assert len(consumer.poll(WAIT)) == 5
    make_anew(cluster, consumer, records=30)
    assert consumer.position(T[0]) == 30
    consumer.close()
    assert committed(cluster) == {0: 10}, "the group's beginning, in the former topic"


@pytest.mark.story("closed-with-a-reset-position")
@pytest.mark.parametrize("raises", [False, True], ids=["close", "block"])
def test_a_position_that_was_reset_keeps_no_other_from_its_last_commit(raises: bool) -> None:
    cluster, consumer = reset_in_hand()
    if raises:
        with pytest.raises(BrokenError), consumer:
            raise BrokenError
    else:
        consumer.close()
    assert committed(cluster) == {1: 10}
    assert cluster.groups.group("g").left == [("member-1", "the consumer was closed")]


@pytest.mark.story("one-bad-argument-ends-all-commits")
@pytest.mark.parametrize(
    "offsets",
    [
        {T[0]: OffsetAndMetadata(1, metadata=123)},  # type: ignore[arg-type]  # what no type allows
        {T[0]: OffsetAndMetadata(1, leader_epoch=-5)},
        {T[0]: OffsetAndMetadata(1, topic_id=b"t")},
        {T[0]: OffsetAndMetadata(1, topic_id="")},  # type: ignore[arg-type]  # the same
        {T[0]: 1 << 63},
        {T[0]: -1},
        {T[0]: True},
        {T[0]: "1"},
        {(b"t", 0): 1},
        {("t", 1 << 31): 1},
        {"t-0": 1},
        [(T[0], 1)],
    ],
)
def test_what_no_commit_can_carry_is_refused_and_ends_no_other(offsets: Any) -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, commit="manual") as consumer:
        assert len(consumer.poll(WAIT)) == 3
        for commit in (consumer.commit, lambda what: consumer.commit_async(offsets=what)):
            with pytest.raises(ConfigError):
                commit(offsets)
        consumer.commit(timeout=WAIT)
    assert committed(cluster) == {0: 3}


@pytest.mark.story("unforeseen-error-ends-all-commits")
def test_what_nobody_had_thought_of_fails_one_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, commit="manual") as consumer:
        assert len(consumer.poll(WAIT)) == 3
        with monkeypatch.context() as patched:
            patched.setattr("ottla.client.committed_offsets.commit", lambda *_: 1 / 0)
            with pytest.raises(OttlaError, match="ZeroDivisionError"):
                consumer.commit(timeout=WAIT)
        consumer.commit(timeout=WAIT)
    assert committed(cluster) == {0: 3}


_SCRIPT = """
import atexit, os, signal, sys, threading
sys.path.insert(0, {support!r})
atexit.register(lambda: print(committed(cluster), cluster.groups.group("g").left, flush=True))  # the last to be called
from scripted_groups import committed, consumer_of, filled
from waiting import wait_until
cluster = filled({{0: 10}})
{program}
"""
_CTRL_C = """
    if record.offset == 4:
        os.kill(os.getpid(), signal.SIGINT)
"""
_EXIT = """
from scripted_groups import reset_in_hand
cluster, consumer = reset_in_hand()
"""
_LOOPS = ("for record in consumer_of(cluster):", "consumer = consumer_of(cluster)\nfor record in consumer:")
_IN_A_THREAD = """
consumer, seen = consumer_of(cluster), []
threading.Thread(target=lambda: seen.extend(record.offset for record in consumer), daemon=True).start()
wait_until(lambda: len(seen) == 10 and consumer.use_guard._user)  # it waits for more
sys.exit(3)
"""


def ended(program: str) -> subprocess.CompletedProcess[str]:
    support = str(Path(scripted_groups.__file__).parent)
    command = [sys.executable, "-c", _SCRIPT.format(support=support, program=program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.story("ctrl-c-leaves-a-ghost")
@pytest.mark.parametrize("loop", _LOOPS, ids=["garbage", "named"])
def test_ctrl_c_in_a_loop_that_no_block_closes_commits_and_leaves(loop: str) -> None:
    """Whether the consumer is garbage by then, or lives until the interpreter ends."""
    done = ended(loop + _CTRL_C)
    assert "KeyboardInterrupt" in done.stderr
    assert done.stdout.startswith("{0: 4} [('member-1', "), done.stdout


@pytest.mark.story("daemon-thread-leaves-a-ghost")
def test_the_main_threads_end_commits_what_a_daemon_thread_has_read_and_leaves() -> None:
    done = ended(_IN_A_THREAD)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("{0: 10} [('member-1', "), done.stdout


@pytest.mark.story("closed-with-a-reset-position")
def test_a_script_that_ends_with_a_reset_position_commits_the_others_and_leaves() -> None:
    done = ended(_EXIT)
    assert done.stdout.startswith("{1: 10} [('member-1', "), done.stdout + done.stderr
