"""The fence in a log's state: restarts keep it, batches tell it anew, followers replay it, a cut takes it back."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from batches import NOON, sealed, with_fresh_crc
from logs import SMALL, all_records, open_log
from produced import produced, stored_bytes
from shards import FIRST, SECOND, append_as, fence_batch, keyed, take

from ottla_broker.machines.shard import NO_FENCE, StoredFence
from ottla_broker.storage import producer_snapshot
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import DAY_MS, LogConfig
from ottla_core.coordination.batches import seal_records
from ottla_core.coordination.shard import Entry, Marker, TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CONTROL, TRANSACTIONAL, iter_headers
from ottla_core.records.control import EndTransactionMarker, seal_marker
from ottla_core.records.fence import ShardFence

COMPACTED = replace(SMALL, compacts=True, deletes=False)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "log", COMPACTED)


def refused(call: Callable[[], object]) -> int:
    with pytest.raises(OttlaError) as caught:
        call()
    return caught.value.code


def of_another_type(batch: bytes) -> bytes:
    """A marker's batch whose record is none."""
    return with_fresh_crc(batch.replace(b"\0\0\0\1\x0c\0\0", b"\0\0\0\5\x0c\0\0"))


def fill_as(log: Log, owner: ShardFence, batches: int) -> None:
    for _ in range(batches):
        append_as(log, owner, keyed(b"%d" % log.log_end_offset), log.log_end_offset)


def test_nobody_appends_before_a_fence_and_only_its_owner_after_it(log: Log) -> None:
    assert log.fence == NO_FENCE
    assert refused(lambda: append_as(log, FIRST, keyed(b"a"), 0)) == ErrorCode.SHARD_FENCED
    assert take(log, FIRST) == 1
    assert log.fence == StoredFence(FIRST, 0)
    assert append_as(log, FIRST, keyed(b"a", b"b"), 1)[:2] == (1, 2)
    assert take(log, SECOND) == 4
    assert refused(lambda: append_as(log, FIRST, keyed(b"c"), 4)) == ErrorCode.SHARD_FENCED
    assert refused(lambda: append_as(log, FIRST, fence_batch(FIRST), 4)) == ErrorCode.SHARD_FENCED
    assert [value for _, value in all_records(log)][1:3] == [b"a", b"b"]
    assert log.log_end_offset == 4


def test_the_same_bytes_at_the_same_offset_are_the_same_append(log: Log) -> None:
    take(log, FIRST)
    batches = [keyed(b"a"), keyed(b"b", b"c"), keyed(b"d")]
    offsets = [append_as(log, FIRST, batch, log.log_end_offset).base_offset for batch in batches]
    before = stored_bytes(log)
    for batch, offset in zip(batches, offsets, strict=True):
        again = append_as(log, FIRST, batch, offset)
        assert (again.base_offset, again.duplicate, again.size_bytes) == (offset, True, 0)
        assert refused(lambda offset=offset: append_as(log, FIRST, keyed(b"x"), offset)) == ErrorCode.OFFSET_MISMATCH
    inside = offsets[1] + 1
    assert refused(lambda: append_as(log, FIRST, batches[1], inside)) == ErrorCode.OFFSET_MISMATCH
    assert append_as(log, FIRST, fence_batch(FIRST), 99).base_offset == 0
    assert stored_bytes(log) == before


SEVEN, EIGHT = TransactionProducer(7, 1), TransactionProducer(8, 0)
ROUND = (
    Entry(b"a", b"1"),
    Entry(b"b", b"1"),
    Entry(b"a", b"2", SEVEN),
    Marker(EIGHT, committed=False, coordinator_epoch=3),
    Marker(SEVEN._replace(epoch=2), committed=True, coordinator_epoch=4),
    Entry(b"c", b"3"),
    Entry(b"a", b"3", EIGHT._replace(epoch=5)),
)


@pytest.mark.rule(32)
def test_a_round_of_every_kind_is_one_append_and_its_producers_are_known(log: Log, tmp_path: Path) -> None:
    """Here, on a follower and after a restart: they have no sequences, and every batch of them counts."""
    take(log, FIRST)
    records = seal_records(ROUND, NOON)
    assert append_as(log, FIRST, records, 1)[:2] == (1, 7)
    known = {id_: state.epoch for id_ in (7, 8, 9) if (state := log.producers.get(id_)) is not None}
    assert known == {7: 2, 8: 5}
    assert append_as(log, FIRST, seal_records(ROUND[3:4], NOON), 8).last_offset == 8
    again = append_as(log, FIRST, records, 1)
    assert (again.base_offset, again.last_offset, again.duplicate) == (1, 7, True)
    follower = open_log(tmp_path / "follower", COMPACTED)
    follower.append_replicated(log.read(0, 1 << 20, log.log_end_offset), NOON)
    assert follower.producers.entries() == log.producers.entries()
    log.close(NOON)
    restarted = open_log(log.directory, COMPACTED, clean=True)
    assert restarted.producers.entries() == log.producers.entries()
    assert restarted.fence == StoredFence(FIRST, 0)


@pytest.mark.parametrize("there", range(1, 5))
def test_the_first_batches_of_a_round_are_no_repeat_of_it(log: Log, there: int) -> None:
    """A follower that had no more of it may lead by now: the owner's state has all of it, so it has to load again."""
    take(log, FIRST)
    records = seal_records(ROUND, NOON)
    cut = [at for at, _ in iter_headers(records)][there]
    append_as(log, FIRST, records[:cut], 1)
    before = log.log_end_offset, stored_bytes(log)
    assert refused(lambda: append_as(log, FIRST, records, 1)) == ErrorCode.OFFSET_MISMATCH
    other = seal_records((*ROUND[:-1], Entry(b"z", b"3", EIGHT)), NOON)
    assert refused(lambda: append_as(log, FIRST, other[:cut] + other[cut:], 1)) == ErrorCode.OFFSET_MISMATCH
    assert (log.log_end_offset, stored_bytes(log)) == before


def test_a_round_whose_last_batch_differs_is_no_repeat(log: Log) -> None:
    take(log, FIRST)
    append_as(log, FIRST, seal_records(ROUND, NOON), 1)
    for other in ((*ROUND[:-1], ROUND[-1]._replace(value=b"4")), (*ROUND, ROUND[-2])):
        records = seal_records(other, NOON)
        assert refused(lambda records=records: append_as(log, FIRST, records, 1)) == ErrorCode.OFFSET_MISMATCH
    assert append_as(log, FIRST, seal_records(ROUND[:2], NOON), 1).duplicate, "it ends where that batch does"


def test_what_a_former_owner_wrote_is_no_repeat(log: Log) -> None:
    take(log, FIRST)
    append_as(log, FIRST, keyed(b"a"), 1)
    take(log, SECOND)
    assert refused(lambda: append_as(log, SECOND, keyed(b"a"), 1)) == ErrorCode.OFFSET_MISMATCH


@pytest.mark.parametrize("start", ["clean", "crash", "without snapshots"])
def test_a_restart_keeps_the_fence(log: Log, start: str) -> None:
    take(log, FIRST)
    fill_as(log, FIRST, 30)  # several segments
    fenced_at = take(log, SECOND) - 1
    fill_as(log, SECOND, 30)
    assert len(log.segments) > 3
    assert log.producers.expire(NOON + 1000 * DAY_MS, log.config.producer_expiration_ms) == 0
    if start == "clean":
        log.close(NOON)
    else:
        log.flush(NOON)
    if start == "without snapshots":
        for offset in producer_snapshot.offsets_in(os.listdir(log.directory)):
            Path(producer_snapshot.path_of(log.directory, offset)).unlink()
    again = open_log(log.directory, COMPACTED, clean=start == "clean")
    assert again.fence == StoredFence(SECOND, fenced_at)
    assert refused(lambda: take(again, FIRST)) == ErrorCode.SHARD_FENCED


def test_a_snapshot_says_what_held_where_the_log_rolled(log: Log) -> None:
    take(log, FIRST)
    while len(log.segments) == 1:
        fill_as(log, FIRST, 1)
    rolled_at = log.segments[-1].base_offset
    take(log, SECOND)
    log.flush(NOON)
    path = producer_snapshot.path_of(log.directory, rolled_at)
    assert producer_snapshot.decode(Path(path).read_bytes()).fence == StoredFence(FIRST, 0)


@pytest.mark.parametrize("rolled", [False, True])
def test_a_cut_takes_the_fence_back(log: Log, rolled: bool) -> None:
    take(log, FIRST)
    fill_as(log, FIRST, 30 if rolled else 1)
    fenced_at = take(log, SECOND) - 1
    fill_as(log, SECOND, 30 if rolled else 1)
    log.truncate_to(fenced_at + 1)
    assert log.fence == StoredFence(SECOND, fenced_at)
    log.truncate_to(fenced_at)
    assert log.fence == StoredFence(FIRST, 0)
    assert append_as(log, FIRST, keyed(b"again"), fenced_at).base_offset == fenced_at
    assert open_log(log.directory, COMPACTED).fence == StoredFence(FIRST, 0)
    log.truncate_to(0)
    assert log.fence == NO_FENCE
    assert open_log(log.directory, COMPACTED).fence == NO_FENCE


def test_a_follower_replays_the_fence(log: Log, tmp_path: Path) -> None:
    follower = open_log(tmp_path / "follower", COMPACTED)
    take(log, FIRST)
    fill_as(log, FIRST, 2)
    follower.append_replicated(log.read(0, 1 << 20, 2), NOON)
    assert follower.fence == StoredFence(FIRST, 0)
    take(log, SECOND)
    fill_as(log, SECOND, 1)
    follower.append_replicated(log.read(2, 1 << 20, log.log_end_offset), NOON)
    assert follower.fence == log.fence == StoredFence(SECOND, 3)
    assert stored_bytes(follower) == stored_bytes(log)


def test_producers_of_the_same_log_are_kept_beside_it(log: Log) -> None:
    log.append(produced(0), 1, NOON)
    take(log, FIRST)
    log.close(NOON)
    again = open_log(log.directory, COMPACTED, clean=True)
    assert (len(again.producers), again.fence) == (1, StoredFence(FIRST, 1))


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (keyed(b"a") + fence_batch(FIRST), ErrorCode.INVALID_REQUEST),
        (fence_batch(FIRST) + keyed(b"a"), ErrorCode.INVALID_REQUEST),
        (keyed(b"a") + keyed(b"b")[:-1], ErrorCode.CORRUPT_MESSAGE),
        (keyed(b"a") + sealed([(0, NOON, None, b"no key", [])]), ErrorCode.INVALID_RECORD),
        (seal_records([Entry(b"a", b"a")], NOON) + keyed(b"x" * 1000), ErrorCode.MESSAGE_TOO_LARGE),
        (keyed(b"x" * 900) * 5, ErrorCode.MESSAGE_TOO_LARGE),
        (
            sealed([(0, NOON, b"\0\0\0\7", b"\0\0\0\0\0\0", [])], attributes=CONTROL | TRANSACTIONAL),
            ErrorCode.INVALID_RECORD,
        ),
        (seal_records([Entry(b"k", b"v", TransactionProducer(-1, 0))], NOON), ErrorCode.INVALID_RECORD),
        (seal_records([Entry(b"k", b"v", TransactionProducer(7, -1))], NOON), ErrorCode.INVALID_RECORD),
        (of_another_type(seal_marker(7, 1, EndTransactionMarker(True, 4), NOON)), ErrorCode.INVALID_RECORD),
        (sealed([(0, NOON, None, b"no key", [])]), ErrorCode.INVALID_RECORD),
        (produced(0), ErrorCode.INVALID_RECORD),
        (sealed([(0, NOON, b"k", b"v", [])], attributes=TRANSACTIONAL), ErrorCode.INVALID_RECORD),
        (sealed([(0, NOON, b"\0\0\0\1", b"\0\0\0\0\0\0", [])], attributes=CONTROL), ErrorCode.INVALID_RECORD),
        (fence_batch(SECOND), ErrorCode.INVALID_RECORD),
        (keyed(b"x" * 1000), ErrorCode.MESSAGE_TOO_LARGE),
        (keyed(b"a")[:-1], ErrorCode.CORRUPT_MESSAGE),
        (b"", ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_what_no_owner_may_append(log: Log, records: bytes, code: ErrorCode) -> None:
    take(log, FIRST)
    assert refused(lambda: append_as(log, FIRST, records, 1)) == code
    assert log.log_end_offset == 1


def test_the_topics_timestamps_are_not_an_owners(tmp_path: Path) -> None:
    """A clock that is apart must not stop a coordinator, and a stamp would change what a repeat is known by."""
    log = open_log(tmp_path / "log", LogConfig(timestamp_after_max_ms=1))
    take(log, FIRST)
    assert append_as(log, FIRST, keyed(b"a", at_ms=NOON + DAY_MS), 1).log_append_time_ms == -1
