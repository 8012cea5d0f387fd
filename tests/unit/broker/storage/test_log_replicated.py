"""A follower's log is its leader's, byte by byte (rule 1)."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from batches import NOON, raw_batch, raw_record, with_fresh_crc
from logs import SMALL, all_records, fill, headers_of, offsets_as_values, open_log, values_batch
from produced import known, produced, stored_bytes

from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import placed_prefix, read_header


@pytest.fixture
def leader(tmp_path: Path) -> Log:
    """Twenty batches of three records, written in three epochs."""
    log = open_log(tmp_path / "leader", LogConfig(max_message_bytes=1 << 20))
    for epoch, batches in ((1, 8), (3, 7), (4, 5)):
        fill(log, batches, leader_epoch=epoch)
    return log


@pytest.fixture
def follower(tmp_path: Path) -> Log:
    return open_log(tmp_path / "follower", SMALL)


def at_offset(batch: bytes, offset: int, epoch: int = 4) -> bytes:
    """The batch as a leader has it."""
    header = read_header(batch)
    return placed_prefix(header, offset, epoch) + batch[16:]


def refused(log: Log, records: bytes) -> OttlaError:
    """The error of a fetched answer that must leave the log and its epochs as they were."""
    before = log.log_end_offset, stored_bytes(log), log.epochs.entries
    with pytest.raises(OttlaError) as caught:
        log.append_replicated(records, NOON)
    assert (log.log_end_offset, stored_bytes(log), log.epochs.entries) == before
    return caught.value


def test_a_follower_copies_a_batch_that_no_one_can_read(follower: Log) -> None:
    """It is in its leader's log from before, and its CRC is right: a replica that refused it could never be in sync."""
    unreadable, after = raw_batch(b"no records at all, really", 3), values_batch(b"after")
    follower.append_replicated(at_offset(unreadable, 0) + at_offset(after, 3), NOON)
    assert follower.log_end_offset == 4
    assert [header.record_count for header in headers_of(stored_bytes(follower))] == [3, 1]


@pytest.mark.rule(1)
def test_a_follower_writes_the_leaders_bytes_and_learns_its_epochs(leader: Log, follower: Log) -> None:
    while follower.log_end_offset < leader.log_end_offset:
        done = follower.append_replicated(leader.read(follower.log_end_offset, 400, 60), NOON)
        assert (done.last_offset + 1, done.log_append_time_ms) == (follower.log_end_offset, -1)
    assert stored_bytes(follower) == stored_bytes(leader)
    assert len(follower.segments) == 3, "it rolls by its own settings"
    assert follower.epochs.entries == leader.epochs.entries == ((1, 0), (3, 24), (4, 45))
    again = open_log(follower.directory, SMALL)
    assert all_records(again) == offsets_as_values(0, 60)
    assert again.epochs.entries == leader.epochs.entries


@pytest.mark.rule(1)
def test_several_epochs_in_one_response_are_known_and_found_again(leader: Log, follower: Log) -> None:
    follower.append_replicated(leader.read(0, 1 << 20, 60), NOON)
    again = open_log(follower.directory)
    assert [tuple(entry) for entry in again.epochs.entries] == [(1, 0), (3, 24), (4, 45)]
    assert follower.epochs.end_offset_for(3, follower.log_end_offset) == (3, 45)
    assert follower.epochs.end_offset_for(4, follower.log_end_offset) == (4, 60)
    assert follower.epochs.end_offset_for(5, follower.log_end_offset) == (-1, -1)


@pytest.mark.rule(1)
def test_offsets_that_go_back_are_refused(leader: Log, follower: Log) -> None:
    answer = leader.read(0, 1 << 20, 6)
    follower.append_replicated(answer, NOON)
    assert refused(follower, answer).code == ErrorCode.OFFSET_OUT_OF_RANGE
    overlapping = at_offset(values_batch(b"a", b"b"), 5)
    assert refused(follower, overlapping).code == ErrorCode.OFFSET_OUT_OF_RANGE
    third, fourth = leader.read(6, 1, 60), leader.read(9, 1, 60)
    assert refused(follower, fourth + third).code == ErrorCode.CORRUPT_MESSAGE
    assert refused(follower, third + third).code == ErrorCode.CORRUPT_MESSAGE
    follower.append_replicated(third + fourth, NOON)


def test_gaps_that_compaction_left_are_legal(leader: Log, follower: Log) -> None:
    parts = [leader.read(offset, 1, 60) for offset in range(0, 60, 3)]
    follower.append_replicated(parts[2] + parts[5] + parts[6], NOON)
    follower.append_replicated(parts[11], NOON)
    assert [header.base_offset for header in headers_of(stored_bytes(follower))] == [6, 15, 18, 33]
    assert follower.log_end_offset == 36
    for offset in (0, 6, 10, 15, 22, 33):
        found = headers_of(follower.read(offset, 1, 36))[0]
        assert found.last_offset >= offset
    emptied = bytearray(parts[14][:61])
    struct.pack_into(">i", emptied, 8, 49)
    struct.pack_into(">i", emptied, 57, 0)
    assert follower.append_replicated(with_fresh_crc(bytes(emptied)), NOON).record_count == 0
    again = open_log(follower.directory, SMALL)
    assert again.log_end_offset == 45


@pytest.mark.rule(1)
def test_epochs_that_go_back_are_refused(leader: Log, follower: Log) -> None:
    follower.append_replicated(leader.read(0, 1 << 20, 45), NOON)
    batch = values_batch(b"x")
    assert refused(follower, at_offset(batch, 45, 2)).code == ErrorCode.CORRUPT_MESSAGE
    mixed = at_offset(batch, 45, 4) + at_offset(batch, 46, 3)
    assert "comes after epoch 4" in str(refused(follower, mixed))
    follower.assign_epoch(6)
    assert refused(follower, leader.read(45, 1 << 20, 60)).code == ErrorCode.CORRUPT_MESSAGE
    follower.truncate_to(45)
    assert follower.append_replicated(leader.read(45, 1 << 20, 60), NOON).last_offset == 59


@pytest.mark.rule(64)
def test_damage_in_any_batch_refuses_the_whole_answer(leader: Log, follower: Log) -> None:
    good = leader.read(0, 1 << 20, 9)
    for at in (len(good) - 1, len(good) // 2, 62, 17):
        flipped = bytearray(good)
        flipped[at] ^= 1
        assert refused(follower, bytes(flipped)).code == ErrorCode.CORRUPT_MESSAGE
    assert refused(follower, good[:-1]).code == ErrorCode.CORRUPT_MESSAGE
    assert refused(follower, b"").code == ErrorCode.CORRUPT_MESSAGE
    old_magic = raw_batch(raw_record(0), magic=1)
    assert refused(follower, old_magic).code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.rule(65)
def test_a_replica_takes_any_size(leader: Log, follower: Log) -> None:
    follower.config = LogConfig(segment_bytes=500, max_message_bytes=100)
    big = at_offset(values_batch(b"x" * 5000), 0)
    assert follower.append_replicated(big, NOON).rolled is False
    assert follower.append_replicated(at_offset(values_batch(b"x" * 5000), 1), NOON).rolled is True
    assert stored_bytes(follower)[: len(big)] == big


@pytest.mark.rule(1)
def test_a_full_disk_leaves_log_and_epochs_as_they_were(
    leader: Log, follower: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower.append_replicated(leader.read(0, 1 << 20, 9), NOON)
    with monkeypatch.context() as full:
        full.setattr(os, "pwritev", lambda *_: 50)
        assert refused(follower, leader.read(9, 1 << 20, 60)).code == ErrorCode.KAFKA_STORAGE_ERROR
    again = open_log(follower.directory, SMALL)
    assert again.epochs.entries == ((1, 0),), "epochs of batches that never came are forgotten at a start"
    follower.append_replicated(leader.read(9, 1 << 20, 60), NOON)
    assert follower.epochs.entries == leader.epochs.entries


@pytest.mark.rule(28, 58)
def test_a_gap_where_the_log_rolls_is_not_taken_for_a_loss(follower: Log) -> None:
    follower.config = LogConfig(segment_bytes=500)
    batches = [at_offset(values_batch(b"x" * 400), offset) for offset in (0, 10, 20)]
    for batch in batches:
        follower.append_replicated(batch, NOON)
    assert [segment.base_offset for segment in follower.segments] == [0, 1, 11]
    again = open_log(follower.directory, follower.config)
    assert again.log_end_offset == 21
    assert again.read(5, 1, 21) == batches[1]


def test_offsets_too_far_apart_for_one_segment_come_in_two_steps(follower: Log) -> None:
    far = 3 * 2**31
    near, distant = at_offset(values_batch(b"near"), 2**31 + 5), at_offset(values_batch(b"far"), far)
    first = follower.append_replicated(near + distant, NOON)
    assert (first.base_offset, follower.log_end_offset) == (2**31 + 5, 2**31 + 6)
    assert follower.append_replicated(distant, NOON).rolled
    assert [segment.base_offset for segment in follower.segments] == [0, 2**31 + 5, far]
    assert follower.read(0, 1 << 20, far + 1) == near, "the segment before them is empty"
    assert follower.read(2**31 + 6, 1 << 20, far + 1) == distant
    again = open_log(follower.directory, SMALL)
    assert again.log_end_offset == far + 1
    assert stored_bytes(again) == near + distant


@pytest.mark.rule(58)
@pytest.mark.parametrize("before", [b"", values_batch(b"first")])
def test_a_batch_of_which_only_a_part_is_too_far_is_not_taken_for_a_loss(follower: Log, before: bytes) -> None:
    batch = at_offset(values_batch(b"a", b"b", b"c"), 2**31 - 1)
    for records in filter(None, (before and at_offset(before, 0), batch)):
        follower.append_replicated(records, NOON)
    again = open_log(follower.directory, SMALL)
    assert again.log_end_offset == 2**31 + 2
    assert again.read(5, 1 << 20, 2**31 + 2) == batch


@pytest.mark.rule(28)
@pytest.mark.feature(137)
def test_a_follower_knows_the_producers_that_its_leader_knows(leader: Log, follower: Log) -> None:
    start = leader.log_end_offset
    for records in (produced(0, 2), produced(2), produced(5, producer_id=9), produced(0, epoch=1)):
        leader.append(records, 4, NOON)
    follower.append_replicated(leader.read(0, 1 << 20, leader.log_end_offset), NOON)
    assert known(follower.producers) == known(leader.producers)
    follower.append_replicated(at_offset(produced(77, epoch=1), leader.log_end_offset), NOON)
    state = follower.producers.get(7)
    assert state is not None
    assert state.batches[-1].first_sequence == 77, "no gap is looked for on a follower"
    follower.assign_epoch(5)
    assert follower.append(produced(5, producer_id=9), 5, NOON).base_offset == start + 3, "and as a leader it uses them"


def test_what_brings_no_new_epoch_leaves_the_epochs_alone(leader: Log, follower: Log) -> None:
    """After many elections there are many of them, and an append is not the time to go through all."""
    follower.append_replicated(leader.read(0, 1 << 20, 54), NOON)
    known = follower.epochs
    assert known.latest == 4
    follower.append_replicated(leader.read(54, 1 << 20, 60), NOON)
    assert follower.epochs is known


def test_a_gap_in_a_segment_is_not_taken_for_a_loss_because_of_a_wider_one_behind_it(follower: Log) -> None:
    parts = [at_offset(values_batch(b"%d" % offset), offset) for offset in (0, 60, 2**31 + 50)]
    follower.append_replicated(parts[0], NOON)
    follower.append_replicated(b"".join(parts[1:]), NOON)
    if follower.log_end_offset < 2**31:
        follower.append_replicated(parts[2], NOON)
    follower.abandon()
    again = open_log(follower.directory)
    assert again.log_end_offset == 2**31 + 51
    assert again.read(60, 1 << 20, 2**31 + 51)[: len(parts[1])] == parts[1]
