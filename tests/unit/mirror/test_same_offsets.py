"""Where a copy with the source's offsets goes on, whatever was there before; its target compares and appends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from fetched import TOPIC_ID, Block, stored

import ottla
from ottla.errors import ErrorCode, OttlaError
from ottla_core.clock import ManualClock
from ottla_core.model import TopicId, TopicPartition
from ottla_core.records.batch import iter_headers
from ottla_mirror.copying.same_offsets import SameOffsetsCopier
from ottla_mirror.machines.progress import CopiedPartition, Position

SOURCE, COPY = TopicPartition("t", 0), TopicPartition("east.t", 0)


class Target:
    """One partition: the CRC of each batch by its offset, and the rest as `Admin` has it."""

    def __init__(self, policy: str = "delete") -> None:
        self.batches: dict[int, int] = {}
        self.end = self.start = 0
        self.at_once = 1000
        self.partitions = self.topics = self.configs = self
        self.is_away = False
        self._policy = policy

    def import_records(
        self, topic: str, partition: int, records: bytes, *, expected_offset: int, log_start_offset: int, timeout: float
    ) -> int:
        assert (topic, partition) == COPY
        headers = [header for _, header in iter_headers(memoryview(records))]
        repeated = [h for h in headers if self.batches.get(h.base_offset) == h.crc]
        if not repeated and self.end != expected_offset:
            raise OttlaError(ErrorCode.OFFSET_MISMATCH, f"it ends at {self.end}")
        for header in headers[: self.at_once]:
            if header.base_offset >= self.end:
                self.batches[header.base_offset] = header.crc
                self.end = header.next_offset
        self.start = max(self.start, log_start_offset)
        return headers[: self.at_once][-1].next_offset

    def offsets(self, topic: str) -> dict[int, int]:
        if self.is_away:
            raise OttlaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        return {0: self.end}

    def delete_records(self, topic: str, before: dict[int, int]) -> None:
        self.start = before[0]

    def get(self, *, topic: str) -> dict[str, Any]:
        return {"cleanup.policy": SimpleNamespace(value=self._policy)}


def copier_to(target: Target) -> SameOffsetsCopier:
    none = cast("Any", None)
    return SameOffsetsCopier(none, none, none, "syncs", ManualClock(), none, cast("ottla.Admin", target))


def partition_at(offset: int | None, topic_id: TopicId = TOPIC_ID) -> CopiedPartition:
    return CopiedPartition(SOURCE, COPY, None if offset is None else Position(offset, topic_id))


def send(copier: SameOffsetsCopier, partition: CopiedPartition, *batches: tuple[int, int], offset: int = 0) -> None:
    """Batches of (how many records, first offset); what is sent is settled. Raises why it was not imported."""
    block = Block(b"".join(stored(count, base) for count, base in batches), offset=offset)
    copier._send(partition, cast("Any", block))
    assert copier._imports.wait_until_done(30.0)
    try:
        partition.settle()
    finally:
        partition.start_over()


def test_a_copy_goes_on_over_gaps_and_what_is_there_already_is_not_written_again() -> None:
    target, partition = Target(), partition_at(None)
    copier = copier_to(target)
    send(copier, partition, (5, 0), (5, 7))
    send(copier, partition, (5, 7), (5, 20))
    assert sorted(target.batches) == [0, 7, 20]
    assert partition.position is not None


def test_all_of_a_block_is_imported_in_as_many_requests_as_it_takes() -> None:
    target = Target()
    target.at_once = 1
    send(copier_to(target), partition_at(None), (5, 0), (5, 7), (5, 20))
    assert (sorted(target.batches), target.end) == ([0, 7, 20], 25)


@pytest.mark.parametrize("known", [7, 5, 20])
def test_a_successor_goes_on_wherever_its_predecessor_came_to(known: int) -> None:
    """It knows what was committed: behind that may lie a gap, or what was imported since."""
    target = Target()
    send(copier_to(target), partition_at(None), (5, 0))
    send(copier_to(target), partition_at(known), (5, 20), (5, 30), offset=known)
    send(copier_to(target), partition_at(known), (5, 20), (5, 30), (5, 40), offset=known)
    assert sorted(target.batches) == [0, 20, 30, 40]


def test_what_a_predecessor_has_imported_may_be_gone_from_the_source() -> None:
    target = Target()
    send(copier_to(target), partition_at(None), (5, 0), (5, 15))
    send(copier_to(target), partition_at(7), (5, 20), offset=20)
    assert sorted(target.batches) == [0, 15, 20]


def test_what_was_cleaned_between_an_import_and_its_repeat_is_no_conflict() -> None:
    target = Target("compact")
    send(copier_to(target), partition_at(None), (5, 0), (5, 5), (5, 10))
    send(copier_to(target), partition_at(5), (3, 5), (5, 20), offset=5)
    assert sorted(target.batches) == [0, 5, 10, 20]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_other_records_are_a_conflict(policy: str) -> None:
    target = Target(policy)
    send(copier_to(target), partition_at(None), (1, 0))
    for partition in (partition_at(None), partition_at(0)):
        with pytest.raises(OttlaError, match="other records end there at offset 1"):
            send(copier_to(target), partition, (5, 0))


def test_a_source_that_was_truncated_is_a_conflict() -> None:
    target, partition = Target("compact"), partition_at(None)
    copier = copier_to(target)
    send(copier, partition, (5, 0), (5, 5))
    with pytest.raises(OttlaError, match="other records end there at offset 10"):
        send(copier, partition, (3, 5), offset=5)


@pytest.mark.parametrize("successor", [True, False])
def test_a_copy_that_is_empty_all_at_once_is_a_conflict_and_stays_one(successor: bool) -> None:
    """Nothing is left out of it, whatever is committed."""
    target, partition = Target(), partition_at(None)
    copier = copier_to(target)
    send(copier, partition, (5, 0))
    target.batches, target.end = {}, 0
    if successor:
        copier, partition = copier_to(target), partition_at(5)
    for _ in range(2):
        with pytest.raises(OttlaError, match="it was emptied"):
            send(copier, partition, (5, 5), offset=5)


def test_a_topic_that_was_made_anew_is_a_conflict() -> None:
    with pytest.raises(OttlaError, match=r"t was deleted and recreated in the source.*delete east\.t"):
        send(copier_to(Target()), partition_at(5, TopicId(b"f" * 16)), (5, 0))


def test_a_log_that_begins_within_a_batch_begins_there_in_the_copy() -> None:
    target = Target()
    send(copier_to(target), partition_at(None), (5, 100), (5, 105), offset=103)
    assert (sorted(target.batches), target.start) == ([100, 105], 103)


@pytest.mark.story("copy-of-a-log-that-begins-aborted")
def test_a_log_that_begins_with_what_was_aborted_is_copied_from_its_first_record_on() -> None:
    """What was aborted may be fetched alone. The copy is empty after that, and was not emptied."""
    target, partition = Target(), partition_at(None)
    copier = copier_to(target)
    send(copier, partition)
    assert partition.position is None, "a successor expects nothing in the copy either"
    send(copier, partition, (5, 11), offset=11)
    send(copier, partition, offset=16)
    assert partition.sent_position == Position(1000, TOPIC_ID, 3)
    assert sorted(target.batches) == [11]


def test_a_copy_that_was_created_again_is_filled_from_its_beginning() -> None:
    target, partition = Target(), partition_at(None)
    copier = copier_to(target)
    copier._reader = cast("Any", SimpleNamespace(assign=lambda *at, **of: None))
    send(copier, partition, (5, 0))
    target.batches, target.end = {}, 0
    partition.start_at(None, 2, TopicId(bytes(16)))
    copier._read(partition)
    send(copier, partition, (5, 0), (5, 5))
    assert sorted(target.batches) == [0, 5]
