"""How far a partition is copied: up to the first batch that the target has not acknowledged."""

from typing import NamedTuple

import pytest
from batches import NOON
from fetched import TOPIC_ID, Block, stored

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.copying.importer import Import
from ottla_mirror.machines.copying import KeptBlock, kept, outgoing
from ottla_mirror.machines.encoding import Run
from ottla_mirror.machines.offset_map import Stretch, SyncedStretch
from ottla_mirror.machines.progress import CopiedPartition, Position, Sent, note_of, read_note

PARTITIONS = (TopicPartition("orders", 0), TopicPartition("east.orders", 0))


def synced(source: int, target: int, length: int) -> SyncedStretch:
    return SyncedStretch(PARTITIONS[0], TOPIC_ID, Stretch(source, target, length))


class Later:
    """The outcome of a batch that is known when the test sets it."""

    def __init__(self) -> None:
        self.placed: list[Run] | None = None
        self.error: OttlaError | None = None
        self.refused = ""

    def done(self) -> bool:
        return self.placed is not None or self.error is not None

    def runs(self) -> list[Run]:
        if self.error is not None:
            raise self.error
        assert self.placed is not None
        return self.placed

    def refusal(self) -> str:
        return self.refused


def copied(*batches: bytes, next_offset: int) -> tuple[CopiedPartition, list[Later]]:
    partition = CopiedPartition(*PARTITIONS)
    block = Block(b"".join(batches), next_offset=next_offset)
    outcomes = []
    for batch in outgoing(block, joins=False):
        outcomes.append(Later())
        partition.send(block, batch, outcomes[-1])
    partition.end(block)
    return partition, outcomes


def test_what_the_target_refuses_is_a_trouble_until_it_takes_it() -> None:
    partition, (first, second) = copied(stored(10, 0), stored(5, 10), next_offset=15)
    assert partition.trouble == ""
    first.refused = "the disk is full"
    assert partition.trouble == "the disk is full"
    first.placed = second.placed = [Run(100, 10)]
    partition.settle()
    assert partition.trouble == ""
    partition.error = "it is away"
    assert partition.trouble == "it is away"


def test_the_position_waits_for_the_oldest_batch() -> None:
    partition, (first, second) = copied(stored(10, 0), stored(5, 10), next_offset=15)
    second.placed = [Run(110, 5)]
    partition.settle()
    assert partition.position is None
    first.placed = [Run(100, 10)]
    partition.settle()
    assert partition.position == Position(15, TOPIC_ID, 3)
    assert (partition.take_stretches(), partition.records) == ([synced(0, 100, 15)], 15)


def test_markers_behind_the_last_batch_are_passed_once_it_is_there() -> None:
    partition, (only,) = copied(stored(10, 0), next_offset=12)
    partition.settle()
    assert partition.position is None
    only.placed = [Run(0, 10)]
    partition.settle()
    assert partition.position == Position(12, TOPIC_ID, 3)


def test_a_batch_that_failed_keeps_the_position_before_it() -> None:
    partition, (first, second) = copied(stored(10, 0), stored(5, 10), next_offset=15)
    first.placed = [Run(0, 10)]
    second.error = OttlaError(ErrorCode.MESSAGE_TOO_LARGE, "too large")
    with pytest.raises(OttlaError):
        partition.settle()
    assert partition.position == Position(10, TOPIC_ID, 3)
    partition.start_over()
    partition.settle()
    assert partition.position == Position(10, TOPIC_ID, 3)


def test_where_an_offset_is_not_known_the_map_has_a_gap() -> None:
    """A repeat that the broker recognizes, and no longer knows where it lies."""
    partition, (first, second) = copied(stored(10, 0), stored(5, 10), next_offset=15)
    first.placed, second.placed = [], [Run(10, 5)]
    partition.settle()
    assert partition.position == Position(15, TOPIC_ID, 3)
    assert partition.take_stretches() == [synced(10, 10, 5)]


def test_records_of_others_in_between_are_gaps_on_the_other_side() -> None:
    """A batch has become several ones, and others wrote to the copy meanwhile."""
    partition, (first, second) = copied(stored(10, 0), stored(5, 10), next_offset=15)
    first.placed, second.placed = [Run(100, 4), Run(110, 6)], [Run(116, 5)]
    partition.settle()
    assert partition.take_stretches() == [synced(0, 100, 4), synced(4, 110, 11)]


def test_a_stretch_is_taken_anew_once_it_has_grown() -> None:
    partition, (first, second) = copied(stored(10, 0), stored(5, 10), next_offset=15)
    first.placed = [Run(100, 10)]
    partition.settle()
    assert [partition.take_stretches(), partition.take_stretches()] == [[synced(0, 100, 10)], []]
    second.placed = [Run(110, 5)]
    partition.settle()
    assert [partition.take_stretches(), partition.take_stretches()] == [[synced(0, 100, 15)], []]


def test_stretches_of_a_topic_that_was_made_anew_are_its_own() -> None:
    partition, (first, second) = copied(stored(10, 0), stored(5, 10), next_offset=15)
    outcome, outgoing, position = partition.sent[1]
    partition.sent[1] = Sent(outcome, outgoing, position._replace(topic_id=TopicId(b"another")))
    first.placed, second.placed = [Run(100, 10)], [Run(110, 5)]
    partition.settle()
    assert [(each.topic_id, each.stretch) for each in partition.take_stretches()] == [
        (TOPIC_ID, Stretch(0, 100, 10)), (b"another", Stretch(10, 110, 5))
    ]  # fmt: skip


def test_what_is_gone_back_behind_does_not_count() -> None:
    partition, (first, second) = copied(stored(10, 0), stored(5, 10), next_offset=15)
    first.placed, second.placed = [Run(100, 10)], [Run(110, 5)]
    partition.prepare()
    assert (partition.prepared.records, partition.records) == (15, 0)
    partition.go_back()
    assert partition.prepared == partition.progress
    assert (partition.position, partition.records, partition.take_stretches()) == (None, 0, [])


def test_a_position_is_committed_with_its_topic_and_epoch() -> None:
    position = Position(15, TOPIC_ID, 3)
    assert read_note(15, note_of(position)) == position
    assert [read_note(15, note) for note in ("", "a note of another's", "00:x", "00:1:2")] == [None] * 4


class Reading(NamedTuple):
    offset: int | None
    end: int


def test_the_lag_is_what_is_left_to_the_end_and_the_age_of_what_was_copied() -> None:
    partition, (only,) = copied(stored(10, 0), next_offset=10)
    assert partition.lag(Reading(0, 10), NOON) == (None, None, None), "what is under way is not there yet"
    assert partition.lag(None, NOON) == (None, None, None)
    only.placed = [Run(100, 10)]
    partition.settle()
    assert partition.lag(Reading(10, -1), NOON) == (10, None, None), "the end is not known"
    assert partition.lag(Reading(10, 10), NOON + 5_000) == (10, 0, 0)
    assert partition.lag(Reading(30, 30), NOON + 5_009) == (10, 20, 5_000), "since the newest record"


def test_the_lag_of_what_was_empty_is_nothing() -> None:
    assert CopiedPartition(*PARTITIONS).lag(Reading(0, 0), NOON) == (0, 0, 0)


def test_a_block_at_its_own_offsets_counts_once_it_is_there() -> None:
    partition, block = CopiedPartition(*PARTITIONS), Block(stored(5, 40), offset=40, next_offset=45)
    waiting = Import(KeptBlock(tuple(kept(block))))
    partition.send(block, waiting.block, waiting)
    partition.end(block)
    partition.settle()
    assert (partition.position, partition.sent_position) == (None, Position(45, TOPIC_ID, 3))
    waiting.end(None)
    partition.settle()
    assert (partition.position, partition.records) == (Position(45, TOPIC_ID, 3), 5)
    assert partition.take_stretches() == [synced(40, 40, 5)]
