"""The copier between two scripted clusters: what it is given, what it gives up, and what fails in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Thread
from typing import Any

import pytest
from copiers import COPY, SOURCE, SYNCS, Sides
from waiting import wait_until

import ottla
from ottla.client.kafka.apis import PRODUCE
from ottla.errors import ErrorCode, error_from_code
from ottla.fakes.scripted import Hold, Reject
from ottla_core.kafka.messages import ProduceRequest
from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.copying import copier
from ottla_mirror.machines.progress import CopiedPartition
from ottla_mirror.machines.stages import Stage


@pytest.fixture
def sides() -> Iterator[Sides]:
    made = Sides()
    yield made
    made.close()


def test_what_is_under_way_is_committed_before_a_partition_goes(sides: Sides) -> None:
    partition = CopiedPartition(SOURCE, COPY)
    sides.copier.take(partition)
    while not partition.sent and partition.position is None:
        sides.copier.step(5.0)
    sides.copier.give_up([SOURCE])
    assert sides.target.values("east.t", 0) == [b"%d" % n for n in range(10)]
    assert sides.member.committed[COPY].offset == 10
    assert len(sides.target.values(SYNCS, 0)) >= 1, "before the position, where its records lie"
    assert (sides.copier.partitions, sides.reader.positions()) == ({}, {})


def test_a_partition_that_fails_as_it_goes_is_not_read_again(sides: Sides) -> None:
    sides.target.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "no"))
    partition = CopiedPartition(SOURCE, COPY)
    sides.copier.take(partition)
    while not partition.sent and not partition.error:
        sides.copier.step(5.0)
    sides.copier.give_up([SOURCE])
    assert "no" in partition.error
    assert partition.stage is Stage.GONE
    assert (sides.member.committed, sides.reader.positions()) == ({}, {})


def test_a_pause_reads_nothing_and_what_was_set_aside_goes_on_after_it_once(sides: Sides) -> None:
    sides.target.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "no"))
    partition = CopiedPartition(SOURCE, COPY)
    sides.copier.take(partition)
    while not partition.error:
        sides.copier.step(0.1)
    sides.copier.hold(paused=True)
    assert (sides.copier.paused, sides.reader.positions(), partition.stage) == (True, {}, Stage.HELD)
    sides.copier.give_up([SOURCE])
    partition = CopiedPartition(SOURCE, COPY)
    sides.copier.take(partition)
    assert sides.reader.positions() == {}, "what is given to it meanwhile waits as well"
    sides.copier.hold(paused=False)
    sides.clock.advance(10.0)
    while partition.records < 10:
        sides.copier.step(0.1)
    sides.copier.give_up([SOURCE])
    assert sides.target.values("east.t", 0) == [b"%d" % n for n in range(10)]


def test_what_is_copied_can_soon_be_translated_whenever_it_is_committed(sides: Sides) -> None:
    sides.copier.step(0.0)
    partition = CopiedPartition(SOURCE, COPY)
    sides.copier.take(partition)
    while partition.position is None:
        sides.copier.step(0.1)
    sides.clock.advance(0.2)
    sides.copier.step(0.0)
    sides.producer.flush()
    (sync,) = sides.target.values(SYNCS, 0)
    assert sides.member.committed == {}
    sides.clock.advance(1.0)
    sides.copier.step(0.0)
    assert sides.member.committed[COPY].offset == 10
    assert sides.target.values(SYNCS, 0) == [sync], "once"


def test_what_fails_is_tried_again_after_twice_the_time_each_time(sides: Sides) -> None:
    """Records that went before the one that is not taken are there once more with each try."""
    partition, pauses = CopiedPartition(SOURCE, COPY), []
    sides.copier.take(partition)
    for _ in range(5):
        sides.target.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "no"))
        while partition.stage is not Stage.ASIDE:
            sides.copier.step(0.1)
        pauses.append(partition.again_at - sides.clock.monotonic())
        sides.clock.advance(pauses[-1])
        sides.copier._try_again()
    assert pauses == [2.0, 4.0, 8.0, 16.0, 16.0]
    while partition.records < 10:
        sides.copier.step(0.1)
    assert (partition.failures, partition.error) == (0, "")


def test_a_partition_whose_copy_is_another_topic_by_now_is_started_again(sides: Sides) -> None:
    former, quiet = (
        sides.target.topic_id("east.t"),
        CopiedPartition(TopicPartition("q", 0), TopicPartition("east.q", 0)),
    )
    partition = CopiedPartition(SOURCE, COPY, copy_id=former)
    for each in (partition, quiet):
        sides.copier.take(each)
    sides.copier.look_at({"east.t": former})
    assert {each.stage for each in (partition, quiet)} == {Stage.READ}
    sides.copier.look_at({"east.t": TopicId(bytes(16))})
    assert (partition.stage, quiet.stage) == (Stage.ASIDE, Stage.READ)
    assert "east.t was deleted and recreated" in partition.error
    sides.clock.advance(2.0)
    sides.copier._try_again()
    sides.copier.look_at({"east.t": former})
    assert partition.stage is Stage.READ


def test_nothing_is_written_to_a_topic_that_was_created_again(sides: Sides) -> None:
    partition = CopiedPartition(SOURCE, COPY, copy_id=sides.target.topic_id("east.t"))
    sides.target.drop_topic("east.t")
    sides.target.add_topic("east.t", 1)
    sides.copier.take(partition)
    while partition.stage is not Stage.ASIDE:
        sides.copier.step(0.1)
    assert "deleted and recreated" in partition.error
    assert sides.target.values("east.t", 0) == []


@pytest.mark.story("refused-partition-restarts-a-flow")
def test_a_partition_that_the_source_refuses_is_set_aside_and_the_others_are_copied(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, partition = (
        CopiedPartition(TopicPartition("q", 0), TopicPartition("east.q", 0)),
        CopiedPartition(SOURCE, COPY),
    )
    poll = sides.reader.poll

    def refusing(timeout: float) -> Any:
        if refused.stage is Stage.READ:
            raise error_from_code(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no", of=refused.source)
        return poll(timeout)

    monkeypatch.setattr(sides.reader, "poll", refusing)
    for each in (refused, partition):
        sides.copier.take(each)
    while partition.records < 10:
        sides.copier.step(0.1)
    assert (refused.stage, refused.failures) == (Stage.ASIDE, 1)
    assert "q-0: no" in refused.error


def test_what_was_read_before_a_batch_that_can_not_be_read_is_copied_once(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, poll = CopiedPartition(SOURCE, COPY), sides.reader.poll

    def unreadable(timeout: float) -> Any:
        at = sides.reader.positions().get(SOURCE)
        if at is None or (at.offset or 0) < 10:
            return poll(timeout)
        raise error_from_code(ErrorCode.CORRUPT_MESSAGE, "no", of=SOURCE)

    monkeypatch.setattr(sides.reader, "poll", unreadable)
    sides.target.will(PRODUCE, Hold())
    sides.copier.take(partition)
    for _ in range(3):
        while partition.stage is not Stage.ASIDE:
            sides.copier.step(0.1)
        sides.clock.advance(20.0)
        sides.copier._try_again()
    sides.target.until(lambda: sides.target.requests(ProduceRequest) != [])
    sides.target.release()
    while partition.records < 10:
        sides.copier.step(0.1)
    while partition.stage is not Stage.ASIDE:
        sides.copier.step(0.1)
    sides.copier.step(0.1)
    assert sides.target.values("east.t", 0) == [b"%d" % n for n in range(10)]
    assert "t-0: no" in partition.error


def test_what_the_buffer_holds_of_a_paused_flow_still_counts(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copier, "BUFFER_BYTES", 2)
    monkeypatch.setattr(copier, "SETTLE_S", 0.1)
    partition = CopiedPartition(SOURCE, COPY)
    sides.target.will(PRODUCE, Hold())
    sides.copier.take(partition)
    while not partition.in_flight_bytes:
        sides.copier.step(0.1)
    sides.copier.hold(paused=True)
    assert partition.in_flight_bytes == 0
    sides.copier.hold(paused=False)
    while not partition.in_flight_bytes:
        sides.copier.step(0.1)
    assert sides.copier._held_back.keys() == {partition}
    assert sides.copier._discarded_bytes > 0
    sides.target.release()
    while partition.records < 10:
        sides.copier.step(0.1)
    assert (sides.copier._discarded_bytes, sides.copier._held_back) == (0, {})


def test_a_rejected_login_is_no_fault_of_a_partition(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(timeout: float) -> Any:
        raise error_from_code(ErrorCode.SASL_AUTHENTICATION_FAILED, "no", of=SOURCE)

    monkeypatch.setattr(sides.reader, "poll", failing)
    sides.copier.take(CopiedPartition(SOURCE, COPY))
    with pytest.raises(ottla.AuthenticationError):
        sides.copier.step(0.1)


def test_an_error_that_is_about_no_partition_of_it_ends_the_copier(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(timeout: float) -> Any:
        raise error_from_code(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")

    monkeypatch.setattr(sides.reader, "poll", failing)
    sides.copier.take(CopiedPartition(SOURCE, COPY))
    with pytest.raises(ottla.OttlaError):
        sides.copier.step(0.1)


@pytest.mark.story("stuck-copy-fills-the-buffer")
def test_a_copy_that_takes_nothing_leaves_room_in_the_buffer_for_the_others(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copier, "BUFFER_BYTES", 2)
    sides.source.add_topic("u", 1)
    sides.target.add_topic("east.u", 1)
    sides.target.move_leader("east.u", 0, broker=1, epoch=1)  # the other broker would answer the held request first
    stuck, other = (
        CopiedPartition(SOURCE, COPY),
        CopiedPartition(TopicPartition("u", 0), TopicPartition("east.u", 0)),
    )
    sides.target.will(PRODUCE, Hold())
    sides.copier.take(stuck)
    while not stuck.in_flight_bytes:
        sides.copier.step(0.1)
    wait_until(lambda: any("Produce" in type(body).__name__ for _, body in sides.target.seen))
    with ottla.Producer("b0:1", _transport=sides.source.connect) as producer:
        producer.send_many([b"more"], topic="t")
        producer.send_many([b"others"], topic="u")
    sides.copier.take(other)
    while other.records < 1:
        sides.copier.step(0.1)
    assert sides.reader.positions()[SOURCE].offset == 10, "it is not read on"
    sides.target.release()
    while stuck.records < 11:
        sides.copier.step(0.1)
    assert stuck.in_flight_bytes == 0


def test_a_partition_that_can_not_start_waits_and_is_looked_at_again_before_it_is_read(sides: Sides) -> None:
    foreign = ottla.OttlaError(ErrorCode.OFFSET_MISMATCH, "the copy is of others")
    partition = CopiedPartition(SOURCE, COPY)
    sides.copier.take(partition, foreign)
    assert (partition.stage, sides.reader.positions()) == (Stage.ASIDE, {})
    sides.copier.hold(paused=True)
    sides.copier.hold(paused=False)
    assert (partition.stage, sides.reader.positions()) == (Stage.ASIDE, {}), "a pause does not mend it"
    sides.obstacles.append(foreign)
    sides.clock.advance(20.0)
    sides.copier.step(0.0)
    assert (partition.stage, sides.reader.positions()) == (Stage.ASIDE, {})
    assert "of others" in partition.error
    sides.clock.advance(20.0)
    while partition.records < 10:
        sides.copier.step(0.1)
    assert (partition.stage, partition.error) == (Stage.READ, "")


def test_what_keeps_all_partitions_from_starting_is_the_error_of_each_and_looked_for_once(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def away(partitions: Sequence[CopiedPartition]) -> dict[CopiedPartition, ottla.OttlaError]:
        looks.append(len(partitions))
        raise ottla.ConnectError(ErrorCode.BROKER_NOT_AVAILABLE, "the target is away")

    monkeypatch.setattr(sides.copier, "_start", away)
    partitions = [CopiedPartition(TopicPartition("t", n), TopicPartition("east.t", n)) for n in range(3)]
    for partition in partitions:
        sides.copier.take(partition, ottla.OttlaError(ErrorCode.OFFSET_MISMATCH, "no"))
    sides.clock.advance(20.0)
    sides.copier.step(0.0)
    assert looks == [3]
    assert {(p.stage, "the target is away" in p.error) for p in partitions} == {(Stage.ASIDE, True)}


def copied_but_not_explained(sides: Sides, *steps: Any) -> CopiedPartition:
    """Copy ten records, of which a commit has begun; its offset syncs meet these steps of the target."""
    sides.target.will(PRODUCE, None, *steps)
    partition = CopiedPartition(SOURCE, COPY)
    sides.copier.take(partition)
    while partition.position is None:
        sides.copier.step(0.1)
    sides.clock.advance(1.2)
    sides.copier.step(0.0)
    sides.target.until(lambda: sum(type(seen).__name__ == "ProduceRequest" for _, seen in sides.target.seen) >= 2)
    assert sides.member.committed == {}
    return partition


@pytest.mark.story("trouble-behind-a-commit")
def test_a_target_that_takes_no_syncs_keeps_no_step_waiting_and_its_reason_is_shown(sides: Sides) -> None:
    full = [Reject(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")] * 10_000
    copying = Thread(target=lambda: copied_but_not_explained(sides, *full), daemon=True)
    copying.start()
    copying.join(20.0)
    assert not copying.is_alive()
    wait_until(lambda: "the disk is full" in sides.copier.trouble, limit_s=20.0)
    assert sides.copier.trouble.startswith("offset syncs can't be written at the moment")
    sides.target._steps.clear()
    while not sides.member.committed:
        sides.copier.step(0.1)
    assert (sides.member.committed[COPY].offset, sides.copier.trouble) == (10, "")


def test_a_commit_has_the_positions_of_when_it_began(sides: Sides) -> None:
    """What is copied meanwhile belongs to the next one, as no sync of this one says where it is."""
    partition = copied_but_not_explained(sides, Hold())
    with ottla.Producer("b0:1", topic="t", _transport=sides.source.connect) as producer:
        producer.send_many([f"{n}" for n in range(10, 15)])
    while partition.sent_position == partition.position:
        sides.copier.step(0.1)
    assert sides.member.committed == {}
    sides.target.release()
    while not sides.member.committed:
        sides.copier.step(0.1)
    assert sides.member.committed[COPY].offset == 10
    sides.clock.advance(1.2)
    while sides.member.committed[COPY].offset < 15:
        sides.copier.step(0.1)


def test_nothing_is_read_while_the_next_commit_is_due_and_the_last_is_not_over(sides: Sides) -> None:
    partition = copied_but_not_explained(sides, Hold())
    sides.clock.advance(1.2)
    with ottla.Producer("b0:1", topic="t", _transport=sides.source.connect) as producer:
        producer.send_many([f"{n}" for n in range(10, 15)])
    for _ in range(3):
        sides.copier.step(0.1)
    assert (partition.sent_position, partition.records) == (partition.position, 10)
    sides.target.release()
    while partition.records < 15:
        sides.copier.step(0.1)


def test_a_position_of_a_former_copy_is_not_committed_for_the_one_that_took_its_place(sides: Sides) -> None:
    partition = copied_but_not_explained(sides, Hold())
    partition.start_at(None, 2, TopicId(bytes(16)))
    sides.target.release()
    while sides.copier._commits.is_under_way:
        sides.copier.step(0.1)
    assert sides.member.committed == {}
    assert partition.committed is None


def test_the_position_of_a_partition_that_is_lost_is_another_mirror_s_to_commit(sides: Sides) -> None:
    copied_but_not_explained(sides, Hold())
    sides.copier.give_up([SOURCE], lost=True)
    sides.target.release()
    while sides.copier._commits.is_under_way:
        sides.copier.step(0.1)
    assert sides.member.committed == {}
