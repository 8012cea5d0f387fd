"""What is left of one batch: which records, and not a byte of another meaning."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random

import pytest
from batches import NOON, raw_batch, sealed
from cleanings import DAY_MS, header_of, pairs, placed

from ottla_broker.compaction.survivors import NO_FENCE, Survival, Survivors
from ottla_broker.compaction.transactions import CleanedTransactions
from ottla_broker.storage.log_config import MAX_INT64
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import MAX_BATCH_BYTES
from ottla_core.records import compression
from ottla_core.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    check_stored,
    iter_headers,
)
from ottla_core.records.compression import Codec
from ottla_core.records.control import EndTransactionMarker, encode_marker
from ottla_core.records.fence import ShardFence, seal_fence
from ottla_core.records.reader import read_records

PRODUCER = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 40}


def left_of(
    batch: bytes,
    newest: Mapping[bytes, int] | None = None,
    *,
    now_ms: int = NOON,
    end_offset: int = 1 << 30,
    newest_fence: int = NO_FENCE,
    start: int = 0,
    retention_ms: int = DAY_MS,
    newest_batches: Collection[int] = (),
    drops_keyless: bool = True,
) -> Survivors:
    survival = Survival(
        lambda key: (newest or {}).get(key, -1),
        newest_fence,
        start,
        end_offset,
        now_ms,
        retention_ms,
        CleanedTransactions((), newest_batches),
        drops_keyless,
    )
    left = survival.of(header_of(batch), batch)
    assert sum(header.record_count for _, header in iter_headers(left.batch)) == left.record_count
    return left


@pytest.mark.rule(62)
@pytest.mark.parametrize("codec", Codec)
def test_a_record_with_a_newer_one_goes_and_what_stays_keeps_its_bytes_and_offset(codec: Codec) -> None:
    batch = pairs(100, (b"a", b"1" * 200), (b"b", b"2" * 200), (b"c", b"3" * 200), codec=codec, **PRODUCER)
    before = header_of(batch)
    left = left_of(batch, {b"b": 101, b"c": 500})
    assert list(read_records(left.batch)) == list(read_records(batch))[:2]
    after = header_of(left.batch)
    assert after == before._replace(
        batch_length=after.batch_length, crc=after.crc, record_count=2, max_timestamp=NOON + 1000
    )
    again = left_of(left.batch, {b"a": 200})
    assert list(read_records(again.batch)) == [list(read_records(batch))[1]]
    assert header_of(again.batch).last_offset == before.last_offset


def test_a_batch_that_loses_nothing_is_not_copied() -> None:
    batch = pairs(0, (b"a", b"1"), (b"b", b"2"), codec=Codec.ZSTD)
    assert left_of(batch, {b"a": 0}).batch is batch


@pytest.mark.rule(62)
@pytest.mark.parametrize("codec", Codec)
def test_a_tombstone_lives_from_its_first_cleaning(codec: Codec) -> None:
    batch = pairs(10, (b"a", None), (b"b", b"2" * 99), codec=codec, at_ms=NOON - 50 * DAY_MS, **PRODUCER)
    first = left_of(batch, {b"a": 10, b"b": 11})
    assert list(read_records(first.batch)) == list(read_records(batch)), (
        "older than its retention, it is new to readers"
    )
    before, after = header_of(batch), header_of(first.batch)
    assert after == before._replace(
        attributes=before.attributes | DELETE_HORIZON,
        base_timestamp=NOON + DAY_MS,
        batch_length=after.batch_length,
        crc=after.crc,
    )
    assert left_of(first.batch, now_ms=NOON + DAY_MS - 1).batch is first.batch, "nor does a clean extend it"
    gone = left_of(first.batch, now_ms=NOON + DAY_MS)
    assert list(read_records(gone.batch)) == list(read_records(batch))[1:]


@pytest.mark.rule(62)
def test_a_tombstone_goes_at_once_where_a_newer_record_follows() -> None:
    left = left_of(pairs(0, (b"a", None), (b"b", b"2")), {b"a": 9})
    assert [key for _, _, key, *_ in read_records(left.batch)] == [b"b"]
    assert not header_of(left.batch).attributes & DELETE_HORIZON, "it has no tombstone"


def test_the_batchs_own_time_stays_with_log_append_time() -> None:
    batch = pairs(0, (b"a", None), (b"b", b"2"), attributes=LOG_APPEND_TIME, max_timestamp=NOON + 5)
    left = left_of(batch)
    assert list(read_records(left.batch)) == list(read_records(batch))
    assert header_of(left.batch).base_timestamp == NOON + DAY_MS
    assert header_of(left.batch).max_timestamp == NOON + 5
    assert header_of(left_of(batch, {b"a": 8, b"b": 9}).batch).max_timestamp == NOON + 5


@pytest.mark.parametrize("base_ms", [-1, 0, (1 << 63) - 2000])
def test_times_at_the_ends_of_their_range_survive_a_horizon(base_ms: int) -> None:
    batch = pairs(0, (b"a", None), (b"b", b"2"), base_timestamp=base_ms)
    left = left_of(batch, retention_ms=MAX_INT64)
    assert header_of(left.batch).base_timestamp == MAX_INT64
    assert list(read_records(left.batch)) == list(read_records(batch))
    assert list(read_records(left.batch, pure=True)) == list(read_records(batch))


@pytest.mark.rule(62)
@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL])
def test_nothing_from_the_end_of_the_clean_on_is_touched(attributes: int) -> None:
    """An open transaction begins at the end; older offsets of the map would take its records."""
    batch = pairs(50, (b"a", b"1"), (b"a", None), attributes=attributes)
    assert left_of(batch, {b"a": 90}, end_offset=50).batch is batch
    assert left_of(batch, {b"a": 90}, end_offset=52).record_count == 0


def test_a_batch_in_which_the_clean_ends_loses_records_and_no_tombstone() -> None:
    batch = pairs(50, (b"a", b"1"), (b"b", None), (b"b", b"3"), attributes=DELETE_HORIZON, base_timestamp=NOON - 1)
    left = left_of(batch, {b"a": 51}, end_offset=52)
    assert list(read_records(left.batch)) == list(read_records(batch))[1:]
    fresh = pairs(50, (b"b", None), (b"c", b"3"))
    assert left_of(fresh, end_offset=51).batch is fresh, "its horizon comes with the clean of all of it"


@pytest.mark.rule(30)
def test_markers_stay_and_of_fences_the_newest() -> None:
    key, value = encode_marker(EndTransactionMarker(committed=True, coordinator_epoch=1))
    marker = placed(sealed([(0, NOON, key, value, [])], attributes=CONTROL | TRANSACTIONAL), 4, **PRODUCER)
    assert list(read_records(left_of(marker, {key: 99}, newest_fence=8).batch)) == list(read_records(marker))
    fence = placed(seal_fence(ShardFence(3, 5), NOON), 4)
    assert left_of(fence, newest_fence=4).batch is fence
    assert left_of(fence, newest_fence=NO_FENCE).batch is fence, "there may be no other"
    assert left_of(fence, newest_fence=8).record_count == 0
    assert left_of(fence, newest_fence=8, end_offset=4).batch is fence


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_without_survivors_is_a_header_that_every_reader_reads(codec: Codec) -> None:
    batch = pairs(9, (b"a", b"1" * 500), (b"b", b"2" * 500), codec=codec, **PRODUCER)
    left = left_of(batch, {b"a": 50, b"b": 51})
    after = header_of(left.batch)
    assert after == header_of(batch)._replace(
        attributes=0, batch_length=49, record_count=0, crc=after.crc, max_timestamp=-1
    )
    assert list(read_records(left.batch)) == []
    assert left_of(left.batch) == Survivors(left.batch, 0)


def divided(left: Survivors) -> list[bytes]:
    """The batches that are left, each sound and small."""
    return [left.batch[at : at + header.size_bytes] for at, header in iter_headers(left.batch)]


@pytest.mark.story("survivors-stored-as-a-giant")
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL])
def test_survivors_that_compress_too_well_are_divided_among_batches(codec: Codec, attributes: int) -> None:
    """Readers accept no more than a hundred times the size of a batch, which held other records before."""
    noise = Random(1).randbytes(100_000)
    pair_list = [(b"%d" % n, bytes(300_000)) for n in range(20)]
    batch = pairs(50, (b"a", noise), *pair_list, codec=codec, **PRODUCER)
    before = header_of(batch)
    batch = placed(batch, 50, attributes=before.attributes | attributes)
    left = left_of(batch, {b"a": 99, b"3": 99})
    parts = divided(left)
    assert len(parts) > 5
    assert sum(map(len, parts)) < 200_000, "they are still compressed"
    assert [row for part in parts for row in read_records(part)] == [
        row for row in read_records(batch) if row[2] not in (b"a", b"3")
    ]
    headers = [check_stored(part) for part in parts]
    assert left.record_count == sum(header.record_count for header in headers) == 19
    assert headers[0].base_offset == 50, "there is no gap before what is left, nor behind it, nor within"
    assert headers[-1].next_offset == before.next_offset
    assert [h.next_offset for h in headers[:-1]] == [h.base_offset for h in headers[1:]]
    for part, header in zip(parts, headers, strict=True):
        assert header.base_sequence == before.base_sequence + header.base_offset - 50
        assert (header.producer_id, header.producer_epoch, header.leader_epoch) == (7, 2, 3)
        assert header.attributes == before.attributes | attributes
        assert header.max_timestamp == max(row[1] for row in read_records(part))


@pytest.mark.story("survivors-stored-as-a-giant")
def test_a_divided_batch_keeps_its_horizon_and_its_own_time() -> None:
    noise = Random(1).randbytes(100_000)
    rows = [(b"a", noise), (b"dead", None), *((b"%d" % n, bytes(300_000)) for n in range(20))]
    stamped = pairs(0, *rows, codec=Codec.ZSTD)
    fields = {"attributes": Codec.ZSTD | LOG_APPEND_TIME, "max_timestamp": NOON + 7}
    for batch in (stamped, placed(stamped, 0, **fields)):
        left = left_of(batch, {b"a": 99})
        headers = [header_of(part) for part in divided(left)]
        assert len(headers) > 1
        assert {(h.attributes & DELETE_HORIZON, h.base_timestamp) for h in headers} == {(DELETE_HORIZON, NOON + DAY_MS)}
        assert [row for part in divided(left) for row in read_records(part)] == list(read_records(batch))[1:]
        if header_of(batch).has_log_append_time:
            assert {h.max_timestamp for h in headers} == {NOON + 7}


@pytest.mark.story("survivors-stored-as-a-giant")
def test_sequences_of_a_divided_batch_begin_at_0_behind_the_largest() -> None:
    noise = Random(1).randbytes(100_000)
    rows = [(b"a", noise), *((b"%d" % n, bytes(1 << 20)) for n in range(4))]
    batch = pairs(0, *rows, codec=Codec.ZSTD, **PRODUCER | {"base_sequence": (1 << 31) - 3})
    headers = [header_of(part) for part in divided(left_of(batch, {b"a": 99}))]
    assert [(h.base_offset, h.base_sequence) for h in headers] == [
        (0, (1 << 31) - 3),
        (2, (1 << 31) - 1),
        (3, 0),
        (4, 1),
    ]


def test_a_producers_newest_batch_and_a_single_record_stay_one_batch() -> None:
    """A batch that the producer repeats is compared with the whole batch. Without a codec it is larger, and no bomb."""
    noise = Random(1).randbytes(60_000)
    batch = pairs(0, (b"a", noise), (b"b", bytes(3 << 20)), (b"c", b"1"), codec=Codec.ZSTD)
    newest = left_of(batch, {b"a": 9}, newest_batches={2})
    assert len(divided(newest)) == 1
    assert list(read_records(newest.batch)) == list(read_records(batch))[1:]
    single = divided(left_of(batch, {b"a": 9, b"c": 9}))
    assert [header_of(part).codec for part in single] == [Codec.NONE]
    assert list(read_records(single[0])) == [list(read_records(batch))[1]]
    assert compression.MAX_OUTPUT_BYTES + HEADER_SIZE < MAX_BATCH_BYTES, "the largest of its kind can be sent"


@pytest.mark.story("keyless-record-stops-compaction")
def test_a_record_without_a_key_goes_unless_it_is_to_be_kept() -> None:
    """Kafka's cleaner drops it without a word."""
    batch = pairs(30, (b"a", b"1"), (None, b"2"), (b"b", None))
    assert [record[0] for record in read_records(left_of(batch).batch)] == [30, 32]
    assert left_of(pairs(30, (None, b"1"))).record_count == 0
    with pytest.raises(OttlaError, match="offset 31 has no key") as refused:
        left_of(batch, drops_keyless=False)
    assert refused.value.code == ErrorCode.INVALID_RECORD
    assert "compaction.drop.keyless=true" in refused.value.hint


@pytest.mark.rule(64)
def test_a_lying_inside_is_no_clean() -> None:
    with pytest.raises(OttlaError, match="can't be read"):
        left_of(raw_batch(b"\x10lies", count=2))


@pytest.mark.rule(62)
def test_what_lies_before_the_logs_start_goes_whatever_it_is() -> None:
    """Nobody is served it; a record without a key that was deleted keeps no log from being compacted."""
    batch = pairs(10, (None, b"1"), (b"b", b"2"), (b"c", b"3"))
    left = left_of(batch, start=11, drops_keyless=False)
    assert [record[0] for record in read_records(left.batch)] == [11, 12]
    assert left_of(batch, start=13).record_count == 0
    with pytest.raises(OttlaError):
        left_of(batch, start=10, drops_keyless=False)
