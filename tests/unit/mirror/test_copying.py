"""What of a fetched block is written to the target: as the bytes it is, encoded anew, or not at all."""

import pytest
from batches import NOON, raw_batch, sealed
from fetched import Block, stored

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    body_crc,
    check_batch,
    framed,
    read_header,
)
from ottla_core.records.compression import Codec, compress
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord
from ottla_core.records.varint import encode_varint
from ottla_mirror.machines.copying import KeptBlock, OutgoingBatch, kept, outgoing
from ottla_mirror.machines.encoding import Run


def written(batch: OutgoingBatch, producer_id: int = 77) -> bytes:
    data = batch.batch.seal(producer_id=producer_id, producer_epoch=2, base_sequence=9, attributes=TRANSACTIONAL)
    check_batch(data, 0, max_bytes=1 << 20)
    return data


def compacted(offsets: list[int], codec: Codec = Codec.NONE, **fields: int) -> bytes:
    """A batch of which compaction has left these offsets of twenty."""
    records = []
    for offset in offsets:
        value = b"v%d" % offset
        body = b"\0" + encode_varint(0) + encode_varint(offset) + encode_varint(-1) + encode_varint(len(value)) + value
        body += encode_varint(0)
        records.append(encode_varint(len(body)) + body)
    payload = compress(codec, b"".join(records))
    fields = {"attributes": int(codec), "last_offset_delta": 19, "record_count": len(offsets), **fields}
    return raw_batch(payload, **fields)


def sealed_at(offset: int, value: bytes) -> bytes:
    batch = sealed([(0, NOON, None, value, [])], Codec.NONE)
    return framed(read_header(batch)._replace(base_offset=offset), batch[HEADER_SIZE:])


def stored_at_once(count: int, base_offset: int, fields: dict[str, int]) -> bytes:
    """Records whose timestamps are all that of the first one."""
    batch = sealed([(n, NOON, None, b"v%d" % n, []) for n in range(count)], Codec.NONE)
    return framed(read_header(batch)._replace(base_offset=base_offset, **fields), batch[HEADER_SIZE:])


@pytest.mark.feature(151)
@pytest.mark.parametrize("codec", list(Codec))
def test_records_travel_as_bytes_and_what_was_of_the_source_stays_behind(codec: Codec) -> None:
    source = stored(50, 100, codec, producer_id=5, producer_epoch=1, base_sequence=400)
    (batch,) = outgoing(Block(source, offset=100))
    assert (batch.runs, batch.next_offset, batch.leader_epoch) == ((Run(100, 50),), 150, 3)
    copy = written(batch)
    header = read_header(copy)
    assert copy[HEADER_SIZE:] == source[HEADER_SIZE:], "not a byte of the records is another"
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 9), "the mirror's own"
    assert (header.base_offset, header.leader_epoch) == (0, -1)
    assert header.attributes == codec | TRANSACTIONAL
    assert (header.base_timestamp, header.max_timestamp) == (NOON, NOON + 49)


def test_a_batch_whose_crc_is_wrong_is_not_written() -> None:
    source = bytearray(stored(5, 0))
    source[-3] ^= 1
    with pytest.raises(OttlaError) as raised:
        list(outgoing(Block(bytes(source))))
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_with_gaps_is_encoded_anew_and_its_offsets_are_known(codec: Codec) -> None:
    (batch,) = outgoing(Block(compacted([2, 3, 4, 9, 19], codec)))
    assert (batch.runs, batch.next_offset) == ((Run(2, 3), Run(9, 1), Run(19, 1)), 20)
    copy = written(batch)
    assert [value for _, _, _, value, _ in read_records(copy)] == [b"v2", b"v3", b"v4", b"v9", b"v19"]


@pytest.mark.parametrize("attributes", [DELETE_HORIZON, LOG_APPEND_TIME])
def test_what_speaks_of_the_source_s_log_is_encoded_anew(attributes: int) -> None:
    source = stored(5, 0, attributes=attributes, max_timestamp=NOON + 1000)
    (batch,) = outgoing(Block(source))
    copy = written(batch)
    assert read_header(copy).attributes == TRANSACTIONAL
    times = [timestamp for _, timestamp, *_ in read_records(copy)]
    assert times == ([NOON + 1000] * 5 if attributes == LOG_APPEND_TIME else [NOON + n for n in range(5)])


def test_a_batch_comes_whole_and_is_written_from_the_position_on() -> None:
    (batch,) = outgoing(Block(stored(10, 100), offset=104))
    assert batch.runs == (Run(104, 6),)
    assert [record[3] for record in read_records(written(batch))] == [b"value-%014d" % n for n in range(4, 10)]
    assert list(outgoing(Block(stored(10, 100), offset=110))) == []


def test_markers_aborted_batches_and_empty_ones_are_not_written() -> None:
    of_transaction = {"attributes": TRANSACTIONAL, "producer_epoch": 0, "base_sequence": 0}
    marker = stored(1, 30, producer_id=5, attributes=TRANSACTIONAL | CONTROL)
    block = b"".join(
        (
            stored(10, 0, producer_id=5, **of_transaction),
            stored(10, 10, producer_id=6, **of_transaction),
            stored(10, 20, producer_id=5, **of_transaction),
            marker,
            stored(10, 31, producer_id=5, **of_transaction),
            raw_batch(b"", 0, base_offset=41, last_offset_delta=9, record_count=0),
        )
    )
    found = list(outgoing(Block(block, aborted=((5, 0),)), joins=False))
    assert [batch.runs[0] for batch in found] == [Run(10, 10), Run(31, 10)], "the second transaction of 5 was committed"


@pytest.mark.story("mirror-slower-than-small-batches")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_small_neighbours_become_one_batch_and_gaps_between_them_are_known(codec: Codec) -> None:
    marker = stored(1, 60, producer_id=5, attributes=TRANSACTIONAL | CONTROL)
    sources = [stored(20, at, codec) for at in (0, 20, 40)] + [marker] + [stored(20, at, codec) for at in (61, 81)]
    (batch,) = outgoing(Block(b"".join(sources)))
    assert (batch.runs, batch.next_offset, batch.leader_epoch) == ((Run(0, 60), Run(61, 40)), 101, 3)
    assert read_header(written(batch)).codec == codec
    assert [timestamp for _, timestamp, *_ in read_records(written(batch))] == [NOON + n for n in range(20)] * 5


def test_a_batch_that_is_large_has_another_codec_or_no_neighbour_travels_as_it_is() -> None:
    large, small = stored(40, 0), [stored(1, 40, Codec.NONE), stored(30, 41, Codec.GZIP)]
    found = list(outgoing(Block(large + b"".join(small) + stored(40, 71))))
    assert [batch.runs for batch in found] == [(Run(0, 40),), (Run(40, 1),), (Run(41, 30),), (Run(71, 40),)]
    assert written(found[2])[HEADER_SIZE:] == small[1][HEADER_SIZE:]


def test_joined_batches_have_no_more_bytes_than_most_topics_take_in_one() -> None:
    block = b"".join(sealed_at(offset, b"x" * 3000) for offset in range(100))
    found = list(outgoing(Block(block)))
    assert [run for batch in found for run in batch.runs] == [
        Run(0, 21),
        Run(21, 21),
        Run(42, 21),
        Run(63, 21),
        Run(84, 16),
    ]
    assert max(batch.size_bytes for batch in found) <= 64 * 1024


@pytest.mark.story("record-without-a-time-copied-to-1970")
def test_a_record_without_a_timestamp_stays_without_one() -> None:
    timeless = {"base_timestamp": -1, "max_timestamp": -1}
    block = stored_at_once(2, 0, timeless) + stored(1, 4) + stored_at_once(1, 5, timeless)
    found = list(outgoing(Block(block, offset=1)))
    assert [batch.runs for batch in found] == [(Run(1, 1),), (Run(4, 1),), (Run(5, 1),)]
    assert [batch.max_timestamp_ms for batch in found] == [-1, NOON, -1]
    times = [[timestamp for _, timestamp, *_ in read_records(written(batch))] for batch in found]
    assert times == [[-1], [NOON], [-1]]


def test_what_is_too_much_for_a_batch_becomes_several() -> None:
    value = b"x" * 400_000
    records: list[RawRecord] = [(n, NOON, None, value, []) for n in range(5)]
    batch = sealed(records, Codec.LZ4)
    header = read_header(batch)._replace(attributes=read_header(batch).attributes | DELETE_HORIZON)
    found = list(outgoing(Block(framed(header, batch[HEADER_SIZE:]))))
    assert [run for batch in found for run in batch.runs] == [Run(0, 2), Run(2, 2), Run(4, 1)]
    assert [batch.next_offset for batch in found] == [2, 4, 5]
    assert body_crc(written(found[0])) == read_header(written(found[0])).crc


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_at_their_own_offsets_batches_stay_as_they_are_but_for_producer_and_transaction(codec: Codec) -> None:
    source = stored(5, 40, codec, producer_id=5, producer_epoch=1, base_sequence=7, attributes=TRANSACTIONAL)
    gaps = compacted([2, 9], codec, base_offset=100, attributes=codec | DELETE_HORIZON)
    first, second = kept(Block(source + gaps))
    header = read_header(first.data)
    assert (header.base_offset, header.next_offset, header.record_count) == (40, 45, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert header.attributes == codec
    assert first.data[HEADER_SIZE:] == source[HEADER_SIZE:]
    check_batch(first.data, 0, max_bytes=1 << 20)
    assert second.data == gaps, "of no producer: not a byte is another"
    block = KeptBlock((first, second))
    assert block.runs == (Run(40, 5), Run(100, 20))
    assert (block.record_count, block.size_bytes) == (7, len(source) + len(gaps))
    assert (block.base_offset, block.next_offset, block.leader_epoch) == (40, 120, -1)


def test_at_their_own_offsets_markers_and_aborted_batches_are_gaps() -> None:
    aborted = stored(5, 0, producer_id=5, attributes=TRANSACTIONAL)
    marker = stored(1, 5, producer_id=5, attributes=TRANSACTIONAL | CONTROL)
    committed = stored(5, 6, producer_id=6, attributes=TRANSACTIONAL)
    assert [batch.base_offset for batch in kept(Block(aborted + marker + committed, aborted=((5, 0),)))] == [6]


def test_at_its_own_offsets_a_batch_whose_crc_is_wrong_is_not_written_either() -> None:
    source = bytearray(stored(5, 0))
    source[-3] ^= 1
    with pytest.raises(OttlaError) as raised:
        list(kept(Block(bytes(source))))
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
