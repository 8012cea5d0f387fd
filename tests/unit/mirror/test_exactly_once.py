"""The copier that writes in transactions, between two scripted clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from copiers import COPY, SOURCE, Sides

import ottla
from ottla.client.kafka.apis import PRODUCE
from ottla.errors import ErrorCode, error_from_code
from ottla.fakes.scripted import Hold, Reject
from ottla.fakes.scripted_line import Step
from ottla_core.model import TopicPartition
from ottla_mirror.clusters.writer import Writer
from ottla_mirror.copying import exactly_once
from ottla_mirror.copying.exactly_once import ExactlyOnceCopier
from ottla_mirror.machines.progress import CopiedPartition
from ottla_mirror.machines.stages import Stage


@pytest.fixture
def sides() -> Iterator[Sides]:
    made = Sides(ExactlyOnceCopier, transactional_id="x", request_timeout=1, delivery_timeout=2)
    made.producer.init_transactions()
    yield made
    made.close()


@pytest.mark.story("commit-behind-a-leaderless-partition")
@pytest.mark.parametrize(
    ("step", "reason"),
    [(Hold(), "offset syncs can't be written"), (Reject(ErrorCode.KAFKA_STORAGE_ERROR, "no room"), "no room")],
)
def test_a_round_whose_offset_syncs_are_not_written_is_aborted_within_seconds(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, step: Step, reason: str
) -> None:
    monkeypatch.setattr(exactly_once, "_FLUSH_S", 0.5)
    monkeypatch.setattr(exactly_once, "_SYNCS_S", 0.1)
    monkeypatch.setattr(Writer, "send_offsets", lambda writer, offsets, member: None)  # the group is not scripted
    sides.target.will(PRODUCE, None, *[step] * 1000)
    partition = CopiedPartition(SOURCE, COPY)
    sides.copier.take(partition)
    for _ in range(3):
        if not sides.copier.trouble:
            sides.copier.step(0.5)
    assert reason in sides.copier.trouble
    assert partition.committed is None
    sides.target._steps.clear()
    sides.target.release()
    while partition.committed is None:
        sides.clock.advance(20.0)
        sides.copier.step(0.5)
    assert (partition.committed.offset, sides.copier.trouble) == (10, "")


def both_topics(sides: Sides) -> tuple[CopiedPartition, CopiedPartition]:
    """Give the copier the partition with ten records, and one of another topic with one record."""
    sides.source.add_topic("u", 1)
    sides.target.add_topic("east.u", 1)
    with ottla.Producer("b0:1", topic="u", _transport=sides.source.connect) as producer:
        producer.send_many([b"other"])
    pair = (
        CopiedPartition(SOURCE, COPY),
        CopiedPartition(TopicPartition("u", 0), TopicPartition("east.u", 0)),
    )
    for partition in pair:
        sides.copier.take(partition)
    return pair


def test_only_partitions_whose_copies_take_nothing_are_set_aside_when_a_round_takes_too_long(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exactly_once, "_FLUSH_S", 0.5)
    monkeypatch.setattr(Writer, "send_offsets", lambda writer, offsets, member: None)
    send = Writer.send_batch

    class Never:
        def done(self) -> bool:
            return False

    def sent(writer: Writer, batch: Any, topic: str, partition: int, *, topic_id: Any) -> Any:
        outcome = send(writer, batch, topic, partition, topic_id=topic_id)
        return Never() if topic == "east.u" else outcome

    def flushed(timeout: float) -> None:
        sides.producer.flush()
        if other.sent:
            raise ottla.TimeoutError(ErrorCode.REQUEST_TIMED_OUT, "not all was delivered")

    monkeypatch.setattr(Writer, "send_batch", sent)
    monkeypatch.setattr(sides.copier._writer, "flush", flushed)
    partition, other = both_topics(sides)
    while not other.error:
        sides.copier.step(0.1)
    assert (other.stage, partition.stage, partition.error) == (Stage.ASIDE, Stage.READ, "")
    while partition.committed is None:
        sides.copier.step(0.1)
    assert partition.committed.offset == 10


@pytest.mark.story("refused-partition-restarts-a-flow")
def test_a_partition_that_the_source_refuses_during_a_round_is_set_aside_after_it(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Writer, "send_offsets", lambda writer, offsets, member: None)
    partition, other = both_topics(sides)
    poll = sides.reader.poll

    def refusing(timeout: float) -> Any:
        if partition.sent and other.stage is Stage.READ:
            raise error_from_code(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no", of=other.source)
        fetched = poll(timeout)
        return None if fetched is not None and fetched.partition == other.source else fetched

    monkeypatch.setattr(sides.reader, "poll", refusing)
    while partition.committed is None:
        sides.copier.step(0.1)
    assert partition.committed.offset == 10
    assert (other.stage, "u-0: no" in other.error) == (Stage.ASIDE, True)
