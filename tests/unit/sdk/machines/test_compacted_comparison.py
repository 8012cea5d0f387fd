"""Compacted replicas side by side: what a cleaning takes is no difference, and whatever else is missing is one."""

from __future__ import annotations

from typing import Any

import pytest
from batches import NOON, sealed
from cleaned_replicas import CleanedReplica, compare
from cleanings import Pair, pairs, placed

from ottla.machines.comparisons.compacted import CompactedComparison
from ottla_broker.compaction.survivors import emptied
from ottla_broker.machines.transactions import AbortedTransaction
from ottla_core.errors import ErrorCode
from ottla_core.records.batch import CONTROL, TRANSACTIONAL, read_header
from ottla_core.records.compression import Codec
from ottla_core.records.control import EndTransactionMarker, encode_marker
from ottla_core.records.fence import ShardFence, seal_fence

pytestmark = pytest.mark.feature(115)

A, B, C = b"a", b"b", b"c"


def log(*rows: Pair) -> list[bytes]:
    """A batch of each."""
    return [pairs(offset, row) for offset, row in enumerate(rows)]


LOG = log((A, b"1"), (B, b"1"), (A, b"2"), (C, b"1"), (B, b"2"), (A, b"3"))


def found(*replicas: CleanedReplica) -> list[tuple[int, int, str, int]]:
    """(broker, reference, what, offset) of each difference, in the order of the brokers."""
    differences = compare(*replicas).differences
    return [(broker, d.reference, d.what, d.offset) for broker, d in sorted(differences.items())]


@pytest.mark.parametrize("end", range(7))
@pytest.mark.parametrize("codec", Codec)
def test_what_a_cleaning_takes_is_no_difference(end: int, codec: Codec) -> None:
    batches = [
        pairs(0, (A, b"1" * 99), (B, None), (A, b"2" * 99), codec=codec, producer_id=4, producer_epoch=1),
        pairs(3, (C, b"1" * 99), (A, b"3" * 99), codec=codec),
        pairs(5, (B, b"4" * 99), codec=codec),
    ]
    whole, cleaned, other = (CleanedReplica(batches) for _ in range(3))
    cleaned.clean(end)
    other.clean(6)
    checked = compare(whole, cleaned, other)
    assert checked.differences == {}
    assert checked.equal == (0, 1, 2)
    assert checked.compared_bytes == sum(map(len, batches))


@pytest.mark.parametrize("lost", [3, 4, 5])
@pytest.mark.parametrize("leader_lost_it", [True, False])
def test_a_newest_value_that_is_lost_is_found(lost: int, leader_lost_it: bool) -> None:
    sound, bad = CleanedReplica(LOG), CleanedReplica([*LOG[:lost], *LOG[lost + 1 :]], high_watermark=6)
    replicas = (bad, sound) if leader_lost_it else (sound, bad)
    broker = replicas.index(bad)
    assert found(*replicas) == [(broker, 1 - broker, "missing record", lost)]
    difference = compare(*replicas).differences[broker]
    assert difference.found is None
    assert difference.expected is not None
    assert difference.expected.base_offset == lost


def test_an_older_value_that_came_back_is_found() -> None:
    sound, bad = CleanedReplica(LOG), CleanedReplica(LOG)
    sound.clean(6)
    bad.batches = [LOG[2], LOG[3], LOG[4]]
    assert found(sound, bad) == [(1, 0, "missing record", 5)], "of A there is an older one only"


@pytest.mark.parametrize(
    ("second", "what"),
    [
        (pairs(1, (B, b"x")), "value"),
        (pairs(1, (A, b"1")), "key"),
        (pairs(1, (B, b"1"), at_ms=NOON + 1), "timestamp"),
        (placed(sealed([(0, NOON, B, b"1", [("h", b"")])]), 1), "headers"),
        (pairs(1, (B, b"1"), producer_id=3), "producer id"),
        (pairs(1, (B, b"1"), producer_epoch=3), "producer epoch"),
        (pairs(1, (B, b"1"), (B, b"1")), "last offset delta"),
        (pairs(1, (B, b"1"), (C, b"1"), base_timestamp=NOON - 1, max_timestamp=NOON), "last offset delta"),
    ],
)
def test_what_two_of_them_have_is_the_same(second: bytes, what: str) -> None:
    assert found(CleanedReplica(LOG), CleanedReplica([LOG[0], second, *LOG[2:]])) == [(1, 0, what, 1)]


def test_a_record_of_another_time_in_a_batch_of_the_same_is_found() -> None:
    def batch(second_ms: int) -> bytes:
        return placed(sealed([(0, NOON + 9, A, b"1", []), (1, second_ms, B, b"1", [])]), 0)

    assert found(CleanedReplica([batch(NOON)]), CleanedReplica([batch(NOON + 1)])) == [(1, 0, "timestamp", 1)]


def test_an_offset_that_has_shifted_is_found() -> None:
    whole, shifted = (pairs(at, (A, b"1"), (B, b"1"), (C, b"1")) for at in (0, 1))
    assert found(CleanedReplica([whole]), CleanedReplica([shifted])) == [(1, 0, "base offset", 0)]
    behind = CleanedReplica([LOG[0], pairs(2, (B, b"1")), pairs(3, (C, b"1"))])
    assert found(CleanedReplica(log((A, b"1"), (B, b"1"), (C, b"1"))), behind) == [(1, 0, "key", 2)]


@pytest.mark.parametrize("per_fetch", [1, 9])
def test_what_superseded_it_may_lie_beyond_the_smallest_high_watermark(per_fetch: int) -> None:
    lagging, ahead = CleanedReplica(LOG, high_watermark=3), CleanedReplica(LOG, per_fetch=per_fetch)
    ahead.clean(6)
    assert found(lagging, ahead) == []
    ahead.batches.pop()
    assert found(lagging, ahead) == [(1, 0, "missing record", 2)]


@pytest.mark.parametrize("when", range(4))
def test_replicas_that_are_cleaned_meanwhile_are_no_difference(when: int) -> None:
    """The value is read, then the replica is cleaned twice: its tombstone is gone before it is read."""
    batches = log((A, b"1"), (B, b"1"), (A, None), (B, b"2"))
    cleaned, late = CleanedReplica(batches), CleanedReplica(batches)
    for replica in (cleaned, late):
        replica.batches.append(pairs(4, (C, b"1")))
        replica.high_watermark = 5

    def clean(replica: CleanedReplica) -> None:
        replica.clean(5)
        replica.clean(5, now_ms=NOON + 1)

    clean(cleaned)
    late.before_fetch = lambda offset: clean(late) if offset == when else None
    assert found(late, cleaned) == []


def test_a_tombstone_may_be_missing_with_all_that_it_deletes() -> None:
    batches = log((A, b"1"), (B, b"1"), (A, None), (C, b"1"))
    whole, cleaned = CleanedReplica(batches), CleanedReplica(batches)
    cleaned.clean(4)
    cleaned.clean(4, now_ms=NOON + 1)
    assert len(cleaned.batches) == 2
    assert found(whole, cleaned) == found(cleaned, whole) == []


@pytest.mark.parametrize("sound_is_cleaned", [True, False])
def test_a_deleted_key_that_came_back_is_found(sound_is_cleaned: bool) -> None:
    batches = log((A, b"1"), (B, b"1"), (A, None), (C, b"1"))
    sound, bad = CleanedReplica(batches), CleanedReplica([*batches[:2], batches[3]])
    if sound_is_cleaned:
        sound.clean(4)
    assert found(sound, bad) == [(1, 0, "missing record", 2)]
    assert found(bad, sound) == [(0, 1, "missing record", 2)]


def test_tombstones_at_the_end_may_have_gone_and_left_nothing() -> None:
    batches = log((B, b"1"), (A, None))
    whole, cleaned = CleanedReplica(batches), CleanedReplica(batches)
    cleaned.clean(2)
    cleaned.clean(2, now_ms=NOON + 1)
    assert len(cleaned.batches) == 1
    assert found(whole, cleaned) == []


def test_the_newest_fence_is_missed_and_older_ones_and_markers_are_not() -> None:
    marker = placed(sealed([(0, NOON, *encode_marker(EndTransactionMarker(True, 1)), [])], attributes=CONTROL), 1)
    fences = [placed(seal_fence(ShardFence(n, 1), NOON), n) for n in (0, 2)]
    whole = [fences[0], marker, fences[1], pairs(3, (A, b"1"))]
    assert found(CleanedReplica(whole), CleanedReplica(whole[2:])) == []
    assert found(CleanedReplica(whole), CleanedReplica([*whole[:2], whole[3]])) == [(1, 0, "missing record", 2)]


def test_a_record_without_a_key_is_superseded_by_none() -> None:
    batches = log((None, b"1"), (None, None), (A, b"1"))
    assert found(CleanedReplica(batches), CleanedReplica(batches)) == []
    for lost in (0, 1):
        left = CleanedReplica([b for n, b in enumerate(batches) if n != lost])
        assert found(CleanedReplica(batches), left) == [(1, 0, "missing record", lost)]


def test_damage_is_a_difference_unless_all_have_it() -> None:
    damaged = LOG[1][:-2] + bytes([LOG[1][-2] ^ 1]) + LOG[1][-1:]
    bad, also_bad, sound = (CleanedReplica([LOG[0], middle, *LOG[2:]]) for middle in (damaged, damaged, LOG[1]))
    assert found(bad, sound) == [(0, 1, "bytes", 1)]
    assert found(sound, bad, also_bad) == [(1, 0, "bytes", 1), (2, 0, "bytes", 1)]
    assert found(bad, also_bad) == []
    assert found(bad, CleanedReplica([LOG[0], *LOG[2:]])) == [(0, 1, "bytes", 1)], "the other has nothing there"


def test_what_is_damaged_beyond_the_end_is_given_up() -> None:
    ahead = CleanedReplica([*LOG[2:4], LOG[5][:-2] + b"x" + LOG[5][-1:]])
    checked = compare(CleanedReplica(LOG, high_watermark=3), ahead)
    assert checked.given_up[1].code == ErrorCode.CORRUPT_MESSAGE
    assert (checked.equal, checked.differences) == ((0,), {})


def test_where_more_is_missing_than_it_may_remember_a_replica_is_given_up_in_words() -> None:
    batches = log(*((b"%d" % n, b"1") for n in range(40)), *((b"%d" % n, b"2") for n in range(40)))
    replicas = [CleanedReplica(batches) for _ in range(3)]
    replicas[1].clean(80)
    comparison = CompactedComparison(range(3), 0, 80, missing_bytes=5_000)
    while wants := comparison.wants():
        for broker, offset in wants:
            comparison.on_records(broker, replicas[broker].fetch(offset))
        comparison.compare()
    assert comparison.equal == (0, 2)
    assert comparison.given_up[1].code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert "the replica lacks too many records before offset 25: their keys" in comparison.given_up[1].message


def test_what_is_deleted_meanwhile_is_no_difference() -> None:
    comparison = CompactedComparison(range(2), 0, 6)
    comparison.on_records(0, b"".join(LOG))
    comparison.on_records(1, LOG[0] + LOG[2])
    comparison.compare()
    comparison.on_log_start(5)
    comparison.on_records(1, LOG[5])
    comparison.compare()
    while wants := comparison.wants():
        for broker, offset in wants:
            assert offset >= 5
            comparison.on_records(broker, b"")
        comparison.compare()
    assert comparison.differences == {}


def test_what_lies_before_the_start_in_its_batch_is_not_compared() -> None:
    begin = pairs(0, (A, b"1"), (B, b"1"))
    without_a = CleanedReplica([begin, pairs(2, (A, b"2"))])
    without_a.clean(3)
    assert compare(CleanedReplica([begin]), CleanedReplica(without_a.batches[:1]), start=1).differences == {}
    tombstone, end = pairs(2, (A, None)), pairs(3, (C, b"1"))
    whole = CleanedReplica([begin, tombstone, end])
    assert compare(whole, CleanedReplica([begin, end]), start=1).differences == {}
    assert compare(whole, CleanedReplica([begin, end]), start=0).differences != {}


def test_an_emptied_batch_has_lost_its_codec_and_nothing_else() -> None:
    batch = pairs(0, (A, b"1" * 99), codec=Codec.ZSTD)
    empty = emptied(read_header(batch)).batch
    newer = pairs(1, (A, b"2"))
    assert found(CleanedReplica([batch, newer]), CleanedReplica([empty, newer])) == []


def test_a_tombstone_beyond_the_smallest_high_watermark_has_deleted_it() -> None:
    batches = log((A, b"1"), (B, b"1"), (A, None), (C, b"1"))
    lagging, whole, cleaned = (
        CleanedReplica(batches, high_watermark=2),
        CleanedReplica(batches),
        CleanedReplica(batches),
    )
    cleaned.clean(4)
    cleaned.clean(4, now_ms=NOON + 1)
    assert found(lagging, whole, cleaned) == []


def test_a_newer_value_of_a_deleted_key_has_not_come_back() -> None:
    batches = log((A, b"1"), (B, b"1"), (A, None), (C, b"1"), (A, b"2"))
    cleaned = CleanedReplica(batches, per_fetch=9)
    cleaned.clean(5)
    assert found(CleanedReplica(batches, high_watermark=3), cleaned) == []


def test_a_replica_that_differs_is_no_reference_for_the_rest_of_its_batch() -> None:
    first = CleanedReplica([pairs(0, (A, b"1"), (B, b"1")), pairs(2, (B, b"2"))])
    first.clean(3)
    batches = (pairs(0, (A, value), (B, value)) for value in (b"x", b"1"))
    others = (CleanedReplica([batch, pairs(2, (B, b"2"))]) for batch in batches)
    assert found(first, *others) == [(1, 0, "value", 0)]


def until_read(*replicas: CleanedReplica, fetches: int) -> CompactedComparison:
    comparison = CompactedComparison(range(len(replicas)), 0, 4)
    for _ in range(fetches):
        for broker, offset in comparison.wants():
            comparison.on_records(broker, replicas[broker].fetch(offset))
        comparison.compare()
    return comparison


@pytest.mark.parametrize("fetches", [1, 2, 3])
def test_a_replica_that_goes_away_is_not_read_any_more(fetches: int) -> None:
    """In its second reading, where it was, and when what it lacks is looked for once more."""
    batches = log((A, b"1"), (B, b"1"), (A, None), (C, b"1"))
    replicas = [CleanedReplica(kept, per_fetch=9) for kept in (batches, [*batches[:2], batches[3]], batches)]
    comparison = until_read(*replicas, fetches=fetches)
    if wants := comparison.wants():
        assert 1 in dict(wants)
        comparison.drop(1)
        comparison.compare()
    assert comparison.wants() == []
    assert comparison.differences == {}
    assert comparison.equal == (0, 2)


def test_a_second_reading_begins_where_the_log_does_by_then() -> None:
    batches = log((A, b"1"), (B, b"1"), (A, None), (C, b"1"))
    logs = (batches, [*batches[:2], batches[3]], [*batches[:2], batches[3]])
    comparison = until_read(*(CleanedReplica(kept, per_fetch=9) for kept in logs), fetches=1)
    assert comparison.wants() == [(1, 0), (2, 0)]
    comparison.on_log_start(1)
    assert comparison.wants() == [(1, 1), (2, 1)]
    comparison.drop(1)
    assert comparison.wants() == [(2, 1)]


ABORTED = AbortedTransaction(7, 1, 4, 1)
"""Offsets 1 and 3 of the log below are void, though 1 is the newest of B, and 3 of A."""


def with_aborted(*lost: int, coordinator_epoch: int = 1) -> CleanedReplica:
    of_producer: Any = {"producer_id": 7, "producer_epoch": 0, "attributes": TRANSACTIONAL}
    end = encode_marker(EndTransactionMarker(False, coordinator_epoch))
    marker = sealed([(0, NOON, *end, [])], attributes=CONTROL | TRANSACTIONAL)
    batches = [
        pairs(0, (A, b"1")),
        pairs(1, (B, b"void"), **of_producer),
        pairs(2, (A, b"2")),
        pairs(3, (A, b"void"), codec=Codec.ZSTD, **of_producer),
        placed(marker, 4, producer_id=7, producer_epoch=1),
        pairs(5, (C, b"1")),
    ]
    left = [batch for offset, batch in enumerate(batches) if offset not in lost]
    return CleanedReplica(left, high_watermark=6, aborted=[ABORTED])


@pytest.mark.parametrize("end", range(1, 7))
def test_what_was_aborted_may_be_gone_and_supersedes_nothing(end: int) -> None:
    whole, cleaned = with_aborted(), with_aborted()
    cleaned.clean(end)
    assert found(whole, cleaned) == found(cleaned, whole) == []
    assert found(with_aborted(), with_aborted(2)) == [(1, 0, "missing record", 2)], "of A what is newer is void"
    assert found(whole, with_aborted(coordinator_epoch=2)) == [(1, 0, "value", 4)], "markers stay what they are"
