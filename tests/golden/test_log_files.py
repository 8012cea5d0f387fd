"""Our log files, read by an independent implementation: kafka-python's MemoryRecords, straight from the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from batches import NOON, sealed
from kafka.codec import has_gzip, has_lz4, has_snappy, has_zstd
from kafka.record.memory_records import MemoryRecords
from logs import open_log

from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_core.records.compression import Codec
from ottla_core.records.record import RawRecord

CAN_READ = {Codec.GZIP: has_gzip, Codec.SNAPPY: has_snappy, Codec.LZ4: has_lz4, Codec.ZSTD: has_zstd}
RECORDS: list[RawRecord] = [
    (0, NOON, b"key", b"value" * 50, [("h", b"1"), ("h", None)]),
    (1, NOON + 7, None, None, []),
    (2, NOON + 3, b"", b"\xff\x00", []),
]


def decoded(path: Path) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """Every record of a segment file as kafka-python reads it, CRC checked."""
    found = []
    records = MemoryRecords(path.read_bytes())
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        found += [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    return found


@pytest.mark.feature(83, 88, 89, 102)
def test_every_codec_and_several_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(segment_bytes=1500))
    codecs = [codec for codec in Codec if CAN_READ.get(codec, bool)() or codec is Codec.NONE] * 10
    for codec in codecs:
        log.append(sealed(RECORDS, codec), 3, NOON)
    log.flush(NOON)
    paths = sorted(Path(log.directory).glob("*.log"))
    assert len(paths) > 1
    expected = [(start + offset, *rest) for start in range(0, 3 * len(codecs), 3) for offset, *rest in RECORDS]
    assert [record for path in paths for record in decoded(path)] == expected


@pytest.mark.rule(65)
def test_the_brokers_time_is_every_records(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME))
    log.append(sealed(RECORDS), 3, NOON + 1000)
    (path,) = Path(log.directory).glob("*.log")
    assert [(offset, timestamp) for offset, timestamp, *_ in decoded(path)] == [(n, NOON + 1000) for n in range(3)]


@pytest.mark.rule(1)
def test_the_leader_epoch_is_where_kafka_looks_for_it(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig())
    for epoch in (3, 3, 8):
        log.append(sealed(RECORDS), epoch, NOON)
    records = MemoryRecords((Path(log.directory / f"{0:020d}.log")).read_bytes())
    seen = []
    while records.has_next():
        batch = records.next_batch()
        seen.append((batch.base_offset, batch.leader_epoch))
    assert seen == [(0, 3), (3, 3), (6, 8)]
