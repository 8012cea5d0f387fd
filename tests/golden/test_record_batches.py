"""Record batches against kafka-python, an implementation that shares nothing with ours, in both directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from batches import NOON, sealed
from kafka.record import MemoryRecords
from kafka.record.default_records import ControlRecord, DefaultRecordBatch, DefaultRecordBatchBuilder

from ottla_core.records.batch import CONTROL, TRANSACTIONAL, check_batch, iter_headers, with_log_append_time
from ottla_core.records.compression import Codec
from ottla_core.records.control import EndTransactionMarker, encode_marker
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("record_batches.json").read_text())
BATCHES = {name: bytes.fromhex(data) for name, data in GOLDEN["batches"].items()}


def unhex(data: str | None) -> bytes | None:
    return None if data is None else bytes.fromhex(data)


RECORDS: list[RawRecord] = [
    (offset, r["timestamp"], unhex(r["key"]), unhex(r["value"]), [(name, unhex(data)) for name, data in r["headers"]])
    for offset, r in enumerate(GOLDEN["records"])
]

both_twins = pytest.mark.parametrize("pure", [False, True], ids=["compiled", "pure"])
every_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)


def as_raw(record: Any) -> RawRecord:
    return (record.offset, record.timestamp, record.key, record.value, record.headers)


def built_by_kafka_python(codec: Codec) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec.value, False, -1, -1, -1, 1 << 20)
    for offset, timestamp_ms, key, value, headers in RECORDS:
        assert builder.append(offset, timestamp_ms, key, value, headers)
    return bytes(builder.build())


@pytest.mark.feature(5)
@pytest.mark.feature(22)
@pytest.mark.feature(88)
@both_twins
@pytest.mark.parametrize("name", BATCHES)
def test_committed_bytes_of_kafka_python_are_read(name: str, pure: bool) -> None:
    batch = BATCHES[name]
    header = check_batch(batch, 0, max_bytes=len(batch))
    assert Codec(header.codec).label == name.split()[0].strip(",")
    assert (header.record_count, header.base_timestamp) == (len(RECORDS), NOON + 5)
    assert header.max_timestamp == NOON + 10_000_000
    assert list(read_records(batch, pure=pure)) == RECORDS


def test_committed_producer_fields_are_read() -> None:
    header = check_batch(BATCHES["zstd, transactional"], 0, max_bytes=1 << 20)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7000, 3, 12)
    assert header.is_transactional
    assert not header.is_control


@both_twins
def test_uncompressed_batch_is_the_same_but_for_the_leader_epoch(pure: bool) -> None:
    ours = sealed(RECORDS, pure=pure)
    golden = BATCHES["none"]
    assert ours[:12] + ours[16:] == golden[:12] + golden[16:]
    assert golden == built_by_kafka_python(Codec.NONE)


@pytest.mark.feature(22)
@both_twins
@every_codec
def test_kafka_python_reads_what_we_build(codec: Codec, pure: bool) -> None:
    batch = DefaultRecordBatch(sealed(RECORDS, codec, pure=pure, attributes=TRANSACTIONAL))
    assert batch.validate_crc()
    assert batch.compression_type == codec
    assert batch.is_transactional
    assert (batch.last_offset_delta, batch.max_timestamp) == (len(RECORDS) - 1, NOON + 10_000_000)
    assert [as_raw(record) for record in batch] == RECORDS


@both_twins
@every_codec
def test_we_read_what_kafka_python_builds_today(codec: Codec, pure: bool) -> None:
    batch = built_by_kafka_python(codec)
    assert check_batch(batch, 0, max_bytes=len(batch)).codec == codec
    assert list(read_records(batch, pure=pure)) == RECORDS


@pytest.mark.rule(65)
@both_twins
def test_kafka_python_sees_our_log_append_time(pure: bool) -> None:
    data = with_log_append_time(sealed(RECORDS, Codec.LZ4, pure=pure), NOON + 99)
    batch = DefaultRecordBatch(data)
    assert batch.validate_crc()
    assert batch.timestamp_type == 1
    assert {record.timestamp for record in batch} == {NOON + 99}


def test_kafka_python_walks_a_fetch_of_several_batches_as_we_do() -> None:
    data = b"".join(sealed(RECORDS[:count], codec) for count, codec in zip(range(3, 8), Codec, strict=True))
    theirs, walked = MemoryRecords(data), []
    while theirs.has_next():
        walked.append(len(list(theirs.next_batch())))
    assert walked == [header.record_count for _, header in iter_headers(data)] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_kafka_python_understands_our_markers(committed: bool) -> None:
    key, value = encode_marker(EndTransactionMarker(committed, coordinator_epoch=5))
    batch = DefaultRecordBatch(sealed([(0, NOON, key, value, [])], attributes=CONTROL | TRANSACTIONAL))
    assert batch.is_control_batch
    (record,) = batch
    assert isinstance(record, ControlRecord)
    assert (record.commit, record.abort, record.version) == (committed, not committed, 0)
